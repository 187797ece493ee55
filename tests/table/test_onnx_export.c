/* Export to ONNX: every op over its cases is written, read back by our import, and computes the same.
 * `table.onnx_export DIR` leaves the files there with their inputs and results as JSON, for other
 * runtimes (e2e.onnx_export). */
#include "op_cases.h"

#include "base/json.h"
#include "emit/export.h"
#include "graph/model.h"
#include "onnx/import.h"
#include "proto/proto.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <setjmp.h>

#include <cmocka.h>

enum { BATCH = 3 };

static const double tolerance = 1e-5; /* constants of a file are fp32 */

/* Ops without a form in ONNX, with the reason. */
static const struct {
    const char *op, *reason;
} without_form[] = {
    {"bce_with_logits", "a loss"},
    {"contrastive", "a loss"},
    {"focal", "a loss"},
    {"huber", "a loss"},
    {"kl", "a loss"},
    {"moe_balance", "an update of a state in training"},
    {"nll", "a loss"},
    {"opaque", "it has no arithmetic"},
};

static bool is_without(const struct sl_op *op) {
    for (int i = 0; i < SL_COUNT(without_form); i++)
        if (strcmp(op->name, without_form[i].op) == 0)
            return true;
    return op->internal || op->collective || op->eval_op; /* training only */
}

/* ---- values of parameters and states, from the run ---- */

static const struct sl_array *array_named(const struct sl_ref_run *run, const char *name) {
    const struct sl_graph *graph = run->graph;
    for (int64_t i = 0; i < graph->params.count + graph->states.count; i++) {
        const struct sl_param *p = i < graph->params.count
                                       ? &graph->params.at[i]
                                       : &graph->states.at[i - graph->params.count];
        if (strcmp(p->name, name) == 0)
            return &run->arrays[p->value];
    }
    return NULL;
}

static sl_err read_array(void *ctx, const char *name, int64_t from, int64_t count, float *out) {
    const struct sl_array *array = array_named(ctx, name);
    if (!array)
        return sl_fail(SL_ERR_INPUT, "no '%s'", name);
    for (int64_t i = 0; i < count; i++)
        out[i] = (float)array->f[from + i];
    return SL_OK;
}

/* ---- the file again ---- */

static void must(sl_err err, const struct sl_op_case *the, const char *what) {
    if (err != SL_OK)
        fail_msg("%s.%s: %s: %s", the->op, the->label, what, sl_err_message());
}

static void fill_again(const struct sl_trial *t, struct sl_ref_run *run) {
    for (int64_t i = 0; i < run->graph->inputs.count; i++)
        for (int64_t k = 0; k < t->graph->inputs.count; k++) {
            const struct sl_array *from = &t->run->arrays[t->graph->inputs.at[k].value];
            struct sl_array *to = &run->arrays[run->graph->inputs.at[i].value];
            size_t count = (size_t)sl_graph_shape_numel(&from->shape, 1);
            if (strcmp(run->graph->inputs.at[i].name, t->graph->inputs.at[k].name) != 0)
                continue;
            if (from->f)
                memcpy(to->f, from->f, sizeof *to->f * count);
            else
                memcpy(to->i, from->i, sizeof *to->i * count);
        }
    for (int kind = 0; kind < 2; kind++) {
        int64_t count = kind ? run->graph->states.count : run->graph->params.count;
        const struct sl_param *list = kind ? run->graph->states.at : run->graph->params.at;
        for (int64_t i = 0; i < count; i++) {
            struct sl_array *to = &run->arrays[list[i].value];
            int64_t elements = sl_graph_shape_numel(&to->shape, 1);
            if (list[i].init.kind != SL_INIT_STORED)
                continue;
            float *values = calloc((size_t)elements + 1, sizeof *values);
            const struct sl_stored_values *stored = &run->graph->stored;
            assert_int_equal(stored->read(stored->ctx, list[i].name, 0, elements, values), SL_OK);
            for (int64_t e = 0; e < elements; e++)
                to->f[e] = (double)values[e];
            free(values);
        }
    }
}

static double number_at(const struct sl_array *array, int64_t i) {
    return array->f ? array->f[i] : (double)array->i[i];
}

/* Infinite if the shapes differ. */
static double compare(const struct sl_array *a, const struct sl_array *b) {
    double worst = 0, largest = 1e-3;
    int64_t count = sl_graph_shape_numel(&a->shape, 1);
    if (count != sl_graph_shape_numel(&b->shape, 1))
        return INFINITY;
    for (int64_t i = 0; i < count; i++) {
        largest = fmax(largest, fabs(number_at(a, i)));
        worst = fmax(worst, fabs(number_at(a, i) - number_at(b, i)));
    }
    return worst / largest;
}

/* Choices of experts mix samples, and the import keeps them apart. */
static bool is_mixture(const struct sl_op *op) {
    return strcmp(op->name, "grouped_matmul") == 0 || strncmp(op->name, "moe_", 4) == 0;
}

static void read_again(const struct sl_trial *t, const char *path) {
    struct sl_onnx_imported imported;
    struct sl_text text = {0};
    sl_err err = sl_onnx_import(path, &(struct sl_onnx_options){.forward = true}, &imported);
    if (err != SL_OK && is_mixture(t->op))
        return;
    must(err, t->the, "import");
    struct sl_graph *graph = imported.graph;
    imported.graph = NULL;
    sl_onnx_attach(&imported, graph);
    sl_graph_model_write(graph, &text); /* reads every attribute */
    sl_text_free(&text);
    struct sl_ref_run *run = sl_op_ref_open(graph, BATCH, 1);
    fill_again(t, run);
    sl_op_ref_nodes(run, 0, graph->nodes.count);
    for (int64_t i = 0; i < graph->outputs.count; i++) {
        double off = compare(sl_trial_array(t, t->graph->outputs.at[i].value),
                             &run->arrays[graph->outputs.at[i].value]);
        if (!(off <= tolerance))
            fail_msg("%s.%s: output %d is off by %.3g", t->the->op, t->the->label, (int)i, off);
    }
    sl_op_ref_close(run);
    sl_graph_close(graph);
}

/* ---- JSON ---- */

static void put_array(struct sl_json_out *json, const char *name, const struct sl_array *array) {
    sl_json_key(json, name);
    sl_json_open(json, '{');
    sl_json_put_string(json, "dtype", array->f ? "float32" : "int64");
    sl_json_key(json, "shape");
    sl_json_open(json, '[');
    for (int i = 0; i < array->shape.rank; i++)
        sl_json_int(json, array->shape.dim[i]);
    sl_json_close(json, ']');
    sl_json_key(json, "values");
    sl_json_open(json, '[');
    for (int64_t i = 0; i < sl_graph_shape_numel(&array->shape, 1); i++)
        sl_json_double(json, number_at(array, i));
    sl_json_close(json, ']');
    sl_json_close(json, '}');
}

static void write_json(const struct sl_trial *t, const char *path) {
    struct sl_text text = {0};
    struct sl_json_out json = {.text = &text, .indent = 0};
    sl_json_open(&json, '{');
    sl_json_key(&json, "inputs");
    sl_json_open(&json, '{');
    for (int64_t i = 0; i < t->graph->inputs.count; i++)
        put_array(&json, t->graph->inputs.at[i].name,
                  sl_trial_array(t, t->graph->inputs.at[i].value));
    sl_json_close(&json, '}');
    sl_json_key(&json, "outputs");
    sl_json_open(&json, '{');
    for (int64_t i = 0; i < t->graph->outputs.count; i++)
        put_array(&json, t->graph->outputs.at[i].name,
                  sl_trial_array(t, t->graph->outputs.at[i].value));
    sl_json_close(&json, '}');
    sl_json_close(&json, '}');
    must(sl_file_write(path, text.at, text.length), t->the, "json");
    sl_text_free(&text);
}

/* ---- cases ---- */

static const char *keep; /* where files stay; NULL: nowhere */

/* Outputs that ONNX does not give: what is kept for the backward pass. */
static void add_outputs(struct sl_trial *t) {
    static const char *const names[] = {"y0", "y1", "y2", "y3", "y4", "y5"};
    bool all = t->op->is_split || strcmp(t->op->outputs, "values indices") == 0 ||
               strcmp(t->op->outputs, "slots ranges") == 0;
    for (int i = 0; i < (all ? t->out_count : 1); i++)
        SL_PUSH(&t->graph->outputs, ((struct sl_output){names[i], t->out + i}));
}

static void check_case(const struct sl_op_case *the, const char *folder, int *count) {
    char path[1024], json[1024];
    struct sl_trial t;
    struct sl_text done = {0};
    must(sl_trial_open(&t, the, BATCH, sl_op_find), the, "open");
    if (is_without(t.op)) {
        sl_trial_close(&t);
        return;
    }
    sl_trial_forward(&t);
    add_outputs(&t);
    t.graph->eval = true;
    t.graph->differentiated = false;
    t.graph->stored = (struct sl_stored_values){.ctx = t.run, .read = read_array};
    snprintf(path, sizeof path, "%s/%s.%s.onnx", folder, the->op, the->label);
    snprintf(json, sizeof json, "%s/%s.%s.json", folder, the->op, the->label);
    sl_err err = sl_emit_onnx(t.graph, path, &done);
    bool written = err == SL_OK;
    sl_text_free(&done);
    /* Smoothing; repeated for every sample, without an input that says how many there are. */
    if (err == SL_ERR_REFUSED && (t.op->is_loss || strstr(sl_err_message(), "which no input has")))
        err = SL_OK;
    must(err, the, "export");
    if (!written)
        --*count;
    else if (keep)
        write_json(&t, json);
    else if (!sl_proto_missing())
        read_again(&t, path);
    ++*count;
    t.graph->differentiated = true;
    t.graph->stored = (struct sl_stored_values){0};
    if (!keep)
        unlink(path);
    sl_trial_close(&t);
}

static void test_cases(void **state) {
    char folder[] = "/tmp/onnx-export-XXXXXX";
    int count = 0;
    (void)state;
    if (!keep)
        assert_non_null(mkdtemp(folder));
    for (int g = 0; g < sl_op_group_count; g++)
        for (int i = 0; i < sl_op_groups[g]->case_count; i++)
            check_case(&sl_op_groups[g]->cases[i], keep ? keep : folder, &count);
    if (!keep)
        rmdir(folder);
    print_message("%d cases\n", count);
    assert_true(count > 100);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases)};
    keep = argc > 1 ? argv[1] : NULL;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
