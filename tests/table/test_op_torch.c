/* Every op case against PyTorch: outputs and gradients of the reference (double) and of torch
 * (fp32) on the same inputs agree to 1e-5. The fixtures are written by tests/fixtures/make.py,
 * which needs torch; this test does not. `table.op_torch dump` prints the cases as JSON for
 * make.py.
 */
#include "op_cases.h"

#include "base/json.h"
#include "fixture.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

enum { BATCH = 3 };

static const double tolerance = 1e-5;

/* Every op has a counterpart or an equivalent formula in tests/fixtures/formulas.py. One that has
 * none is listed here with the reason. */
static const struct {
    const char *op, *reason;
} without_counterpart[] = {
    {"shard_enter", "a view; its gradient is a collective"},
    {"shard_fan", "copies for the shards of one worker"},
    {"shard_sum", "a sum in the order of shards"},
};

static bool is_without(const char *op) {
    for (int i = 0; i < SL_COUNT(without_counterpart); i++)
        if (strcmp(op, without_counterpart[i].op) == 0)
            return true;
    return false;
}

/* ---- dump ---- */

static void put_shape(struct sl_json_out *json, const struct sl_shape *shape) {
    sl_json_open(json, '[');
    for (int i = 0; i < shape->rank; i++)
        sl_json_int(json, shape->dim[i]);
    sl_json_close(json, ']');
}

static void put_array(struct sl_json_out *json, const struct sl_array *array) {
    sl_json_open(json, '{');
    sl_json_put_string(json, "dtype", array->f ? "F32" : "I32");
    sl_json_key(json, "shape");
    put_shape(json, &array->shape);
    sl_json_key(json, "values");
    sl_json_open(json, '[');
    for (int64_t i = 0; i < sl_graph_shape_numel(&array->shape, 1); i++) {
        if (array->f)
            sl_json_double(json, array->f[i]);
        else
            sl_json_int(json, array->i[i]);
    }
    sl_json_close(json, ']');
    sl_json_close(json, '}');
}

static void put_attr(struct sl_json_out *json, const struct sl_attr_desc *desc,
                     const union sl_attr *attr) {
    struct sl_shape shape;
    struct sl_text text = {0};
    sl_json_key(json, desc->name);
    switch (desc->kind) {
    case SL_ATTR_INT:
    case SL_ATTR_BOOL: sl_json_int(json, attr->i); break;
    case SL_ATTR_FLOAT: sl_json_double(json, attr->f); break;
    case SL_ATTR_ENUM: /* "tanh" with its quotes */
        sl_graph_attr_put(&text, desc, attr);
        text.at[text.length - 1] = '\0';
        sl_json_string(json, text.at + 1);
        sl_text_free(&text);
        break;
    case SL_ATTR_INTS:
        sl_json_open(json, '[');
        for (int i = 0; i < attr->ints.count; i++)
            sl_json_int(json, attr->ints.at[i]);
        sl_json_close(json, ']');
        break;
    case SL_ATTR_SHAPE:
        shape = sl_graph_shape_at(&attr->shape, BATCH);
        put_shape(json, &shape);
        break;
    }
}

static void put_case(struct sl_json_out *json, const struct sl_op_case *the) {
    struct sl_trial t;
    if (sl_trial_open(&t, the, BATCH, sl_op_find) != SL_OK) {
        fprintf(stderr, "%s.%s: %s\n", the->op, the->label, sl_err_message());
        exit(1);
    }
    sl_json_open(json, '{');
    sl_json_put_string(json, "op", the->op);
    sl_json_put_string(json, "label", the->label);
    sl_json_put_string(json, "text", the->attrs ? the->attrs : "");
    sl_json_put_int(json, "seed", (int64_t)t.run->seed);
    sl_json_put_int(json, "first_sample", t.run->first_sample);
    sl_json_key(json, "attrs");
    sl_json_open(json, '{');
    for (int i = 0; i < sl_graph_op_attr_count(t.op); i++)
        put_attr(json, &t.op->attrs[i], &t.attr[i]);
    sl_json_close(json, '}');
    sl_json_key(json, "inputs");
    sl_json_open(json, '[');
    for (int i = 0; i < t.in_count; i++) {
        if (t.source[i] >= 0)
            put_array(json, sl_trial_array(&t, t.source[i]));
        else
            sl_json_null(json);
    }
    sl_json_close(json, ']');
    sl_json_key(json, "grads"); /* inputs whose gradient is wanted */
    sl_json_open(json, '[');
    for (int i = 0; i < t.in_count; i++)
        if (t.grad[i] >= 0)
            sl_json_int(json, i);
    sl_json_close(json, ']');
    sl_json_key(json, "douts");
    sl_json_open(json, '[');
    for (int i = 0; i < SL_MAX_OUT && t.weights[i] >= 0; i++)
        put_array(json, sl_trial_array(&t, t.weights[i]));
    sl_json_close(json, ']');
    sl_json_close(json, '}');
    sl_trial_close(&t);
}

static void dump(void) {
    struct sl_text text = {0};
    struct sl_json_out json = {.text = &text};
    sl_json_open(&json, '{');
    for (int g = 0; g < sl_op_group_count; g++) {
        sl_json_key(&json, sl_op_groups[g]->name);
        sl_json_open(&json, '[');
        for (int i = 0; i < sl_op_groups[g]->case_count; i++)
            if (!is_without(sl_op_groups[g]->cases[i].op))
                put_case(&json, &sl_op_groups[g]->cases[i]);
        sl_json_close(&json, ']');
    }
    sl_json_close(&json, '}');
    puts(text.at);
    sl_text_free(&text);
}

/* ---- comparison ---- */

struct summary {
    int cases, tensors;
    double worst;
    char where[96];
};

/* Relative error: largest difference over largest entry, and the same of the norms. Where all of
 * ours is 0 (a gradient that cancels) torch is left with rounding of terms of the order of 1: there
 * the error is absolute. */
static double error_of(const double *got, const float *want, int64_t count) {
    double off = 0, max = 0, scale = 0, off2 = 0, norm2 = 0;
    for (int64_t i = 0; i < count; i++) {
        double d = fabs(got[i] - (double)want[i]);
        off = isnan(d) || d > off ? d : off;
        max = fmax(max, fabs(got[i]));
        scale = fmax(scale, fabs((double)want[i]));
        off2 += d * d;
        norm2 += (double)want[i] * (double)want[i];
    }
    if (max < 1e-15 || scale == 0)
        return off;
    return fmax(off / scale, sqrt(off2 / norm2));
}

static const struct sl_fixture_tensor *need(const struct sl_fixture *fx, const char *name) {
    const struct sl_fixture_tensor *tensor = sl_fixture_find(fx, name);
    if (!tensor)
        fail_msg("no fixture '%s': run tests/fixtures/make.py", name);
    return tensor;
}

/* The file was made from these very inputs. */
static void check_same(const struct sl_fixture *fx, const char *name,
                       const struct sl_array *array) {
    const struct sl_fixture_tensor *tensor = need(fx, name);
    bool same = tensor->count == sl_graph_shape_numel(&array->shape, 1);
    for (int64_t i = 0; same && i < tensor->count; i++)
        same = array->f ? tensor->f && (double)tensor->f[i] == array->f[i]
                        : tensor->i && tensor->i[i] == array->i[i];
    if (!same)
        fail_msg("fixture '%s' is of an older table: run tests/fixtures/make.py", name);
}

/* Ints are equal. */
static void check_ints(const struct sl_fixture_tensor *tensor, const struct sl_array *array) {
    if (!tensor->i || tensor->count != sl_graph_shape_numel(&array->shape, 1))
        fail_msg("%s has another type or size than torch's", tensor->name);
    for (int64_t i = 0; i < tensor->count; i++)
        if (tensor->i[i] != array->i[i])
            fail_msg("%s: element %d is %d, torch has %d", tensor->name, (int)i, (int)array->i[i],
                     (int)tensor->i[i]);
}

static void check_close(struct summary *summary, const struct sl_fixture_tensor *tensor,
                        const struct sl_array *array) {
    if (array->i) {
        check_ints(tensor, array);
        summary->tensors++;
        return;
    }
    if (!tensor->f || !array->f || tensor->count != sl_graph_shape_numel(&array->shape, 1))
        fail_msg("%s has another type or size than torch's", tensor->name);
    double error = error_of(array->f, tensor->f, tensor->count);
    if (!(error <= tolerance))
        fail_msg("%s is off by %.3g", tensor->name, error);
    summary->tensors++;
    if (error > summary->worst) {
        summary->worst = error;
        snprintf(summary->where, sizeof summary->where, "%s", tensor->name);
    }
}

static void check_case(const struct sl_fixture *fx, const struct sl_op_case *the,
                       struct summary *summary) {
    struct sl_trial t;
    char base[64], name[96];
    snprintf(base, sizeof base, "%s.%s", the->op, the->label);
    const char *text = sl_fixture_text(fx, base);
    if (!text || strcmp(text, the->attrs ? the->attrs : "") != 0)
        fail_msg("fixture '%s' is missing or older: run tests/fixtures/make.py", base);
    if (sl_trial_open(&t, the, BATCH, sl_op_find) != SL_OK)
        fail_msg("%s: %s", base, sl_err_message());
    sl_trial_forward(&t);
    sl_trial_backward(&t);
    for (int i = 0; i < t.in_count; i++) {
        snprintf(name, sizeof name, "%s/in%d", base, i);
        if (t.source[i] >= 0)
            check_same(fx, name, sl_trial_array(&t, t.source[i]));
        snprintf(name, sizeof name, "%s/grad%d", base, i);
        if (t.grad[i] >= 0)
            check_close(summary, need(fx, name), sl_trial_array(&t, t.grad[i]));
    }
    for (int i = 0; i < t.out_count; i++) {
        snprintf(name, sizeof name, "%s/out%d", base, i);
        const struct sl_fixture_tensor *tensor = i ? sl_fixture_find(fx, name) : need(fx, name);
        if (tensor)
            check_close(summary, tensor, sl_trial_array(&t, t.out + i));
        snprintf(name, sizeof name, "%s/dout%d", base, i);
        if (t.weights[i] >= 0)
            check_same(fx, name, sl_trial_array(&t, t.weights[i]));
    }
    sl_trial_close(&t);
    summary->cases++;
}

static void reference_agrees_with_torch(void **state) {
    (void)state;
    struct summary summary = {0};
    for (int g = 0; g < sl_op_group_count; g++) {
        struct sl_fixture fx;
        char path[512];
        snprintf(path, sizeof path, "%s/tests/fixtures/op_%s.safetensors", SL_TEST_SRC_DIR,
                 sl_op_groups[g]->name);
        if (sl_fixture_open(&fx, path) != SL_OK)
            fail_msg("%s", sl_err_message());
        for (int i = 0; i < sl_op_groups[g]->case_count; i++)
            if (!is_without(sl_op_groups[g]->cases[i].op))
                check_case(&fx, &sl_op_groups[g]->cases[i], &summary);
        sl_fixture_close(&fx);
    }
    print_message("%d cases, %d tensors, worst relative error %.2g (%s)\n", summary.cases,
                  summary.tensors, summary.worst, summary.where);
}

/* Sabotage: a difference of 2e-5 is seen, in one element and spread over all. */
static void small_differences_are_seen(void **state) {
    (void)state;
    double got[3] = {1, -2, 0.5};
    const float want[3] = {1, -2, 0.5F};
    assert_true(error_of(got, want, 3) == 0);
    got[2] += 4.5e-5;
    assert_true(error_of(got, want, 3) > tolerance);
    for (int i = 0; i < 3; i++)
        got[i] = (double)want[i] * (1 + 2e-5);
    assert_true(error_of(got, want, 3) > tolerance);
    got[1] = NAN;
    assert_true(!(error_of(got, want, 3) <= tolerance));
    const float zero[3] = {0, 0, 0};
    assert_true(error_of(got, zero, 1) > tolerance);
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "dump") == 0) {
        dump();
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reference_agrees_with_torch),
        cmocka_unit_test(small_differences_are_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
