/* What ops refuse: wrong shapes with a message that holds both, wrong types, too few inputs. */
#include "op_cases.h"

#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

static void shapes_are_refused_by_name(void **state) {
    (void)state;
    for (int g = 0; g < sl_op_group_count; g++)
        for (int i = 0; i < sl_op_groups[g]->error_count; i++) {
            const struct sl_op_error *row = &sl_op_groups[g]->errors[i];
            const struct sl_op *op = sl_op_find(sl_str(row->op));
            struct sl_graph *graph = sl_graph_open("error", sl_op_find);
            if (!op || sl_case_apply(graph, op, row->in, row->attrs) != SL_ERR_INPUT)
                fail_msg("%s: row %d of %s is not refused", row->op, i, sl_op_groups[g]->name);
            for (int e = 0; e < 2; e++)
                if (!strstr(sl_err_message(), row->expect[e]))
                    fail_msg("%s: '%s' does not say '%s'", row->op, sl_err_message(),
                             row->expect[e]);
            if (strncmp(sl_err_message(), row->op, strlen(row->op)) != 0)
                fail_msg("'%s' does not begin with %s", sl_err_message(), row->op);
            sl_graph_close(graph);
        }
}

static bool has_error_row(const char *op) {
    for (int g = 0; g < sl_op_group_count; g++)
        for (int i = 0; i < sl_op_groups[g]->error_count; i++)
            if (strcmp(sl_op_groups[g]->errors[i].op, op) == 0)
                return true;
    return false;
}

/* An op of two tensors or with attributes can be given shapes that do not fit. */
static void every_op_has_a_refusal(void **state) {
    (void)state;
    for (int i = 0; i < sl_op_count; i++) {
        int least, max;
        sl_graph_op_arity(sl_op_rows[i], &least, &max);
        if (!sl_op_rows[i]->internal && max > 1 && !has_error_row(sl_op_rows[i]->name))
            fail_msg("op '%s' has no row of wrong shapes in tests/table/op_cases_*.c",
                     sl_op_rows[i]->name);
    }
}

/* Those that only move elements take both types. */
static bool takes_any_type(const char *op) {
    static const char *const any[] = {"concat", "identity", "reshape",
                                      "slice",  "split",    "transpose"};
    for (int i = 0; i < SL_COUNT(any); i++)
        if (strcmp(any[i], op) == 0)
            return true;
    return false;
}

static void try_other_type(const struct sl_op_case *the, int input) {
    struct sl_case_input in[SL_CASE_MAX_IN];
    const struct sl_op *op = sl_op_find(sl_str(the->op));
    memcpy(in, the->in, sizeof in);
    in[input].role = sl_case_is_int(in[input].role) ? SL_CASE_DATA : SL_CASE_INT;
    struct sl_graph *graph = sl_graph_open("type", sl_op_find);
    sl_err err = sl_case_apply(graph, op, in, the->attrs);
    if (err != SL_ERR_INPUT)
        fail_msg("%s.%s: input %d may have the wrong type", the->op, the->label, input);
    sl_graph_close(graph);
}

static void types_are_refused(void **state) {
    (void)state;
    for (int g = 0; g < sl_op_group_count; g++)
        for (int i = 0; i < sl_op_groups[g]->case_count; i++) {
            const struct sl_op_case *the = &sl_op_groups[g]->cases[i];
            for (int k = 0; k < SL_CASE_MAX_IN && the->in[k].role != SL_CASE_END; k++)
                if (the->in[k].role != SL_CASE_ABSENT && !takes_any_type(the->op))
                    try_other_type(the, k);
        }
}

/* Ints move as floats do: run a case with both and compare. */
static void compare_types(const struct sl_op_case *the) {
    struct sl_ref_run *runs[2];
    struct sl_graph *graphs[2];
    const struct sl_op *op = sl_op_find(sl_str(the->op));
    for (int k = 0; k < 2; k++) {
        struct sl_case_input in[SL_CASE_MAX_IN];
        memcpy(in, the->in, sizeof in);
        for (int i = 0; i < SL_CASE_MAX_IN && in[i].role != SL_CASE_END; i++)
            in[i].role = k ? SL_CASE_INT : SL_CASE_DATA;
        graphs[k] = sl_graph_open("types", sl_op_find);
        assert_int_equal(sl_case_apply(graphs[k], op, in, the->attrs), SL_OK);
        runs[k] = sl_op_ref_open(graphs[k], 3, 1);
        for (int64_t i = 0, next = 1; i < graphs[k]->inputs.count; i++) {
            const struct sl_array *x = &runs[k]->arrays[graphs[k]->inputs.at[i].value];
            for (int64_t j = 0; j < sl_graph_shape_numel(&x->shape, 1); j++, next++) {
                if (k)
                    x->i[j] = (int32_t)next;
                else
                    x->f[j] = (double)next;
            }
        }
        sl_op_ref_nodes(runs[k], 0, 1);
    }
    for (int o = 0; o < graphs[0]->nodes.at[0].out_count; o++) {
        int out = graphs[0]->nodes.at[0].out[o];
        assert_int_equal(sl_graph_value(graphs[1], out)->dtype, SL_INT);
        for (int64_t j = 0; j < sl_graph_shape_numel(&runs[0]->arrays[out].shape, 1); j++)
            assert_true(runs[0]->arrays[out].f[j] == runs[1]->arrays[out].i[j]);
    }
    for (int k = 0; k < 2; k++) {
        sl_op_ref_close(runs[k]);
        sl_graph_close(graphs[k]);
    }
}

static void ints_move_as_floats(void **state) {
    (void)state;
    int count = 0;
    for (int g = 0; g < sl_op_group_count; g++)
        for (int i = 0; i < sl_op_groups[g]->case_count; i++)
            if (takes_any_type(sl_op_groups[g]->cases[i].op)) {
                compare_types(&sl_op_groups[g]->cases[i]);
                count++;
            }
    assert_true(count >= 8);
}

static void counts_are_refused(void **state) {
    (void)state;
    for (int i = 0; i < sl_op_count; i++) {
        struct sl_graph *graph = sl_graph_open("count", sl_op_find);
        struct sl_node_spec spec = {.op = sl_op_rows[i], .in_count = 0};
        int out;
        assert_int_equal(sl_graph_node(graph, &spec, &out), SL_ERR_INPUT);
        assert_non_null(strstr(sl_err_message(), sl_op_rows[i]->name));
        sl_graph_close(graph);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_are_refused_by_name), cmocka_unit_test(every_op_has_a_refusal),
        cmocka_unit_test(types_are_refused),          cmocka_unit_test(ints_move_as_floats),
        cmocka_unit_test(counts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
