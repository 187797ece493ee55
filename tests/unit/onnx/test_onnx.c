/* ONNX import against PyTorch (tests/fixtures/make_onnx.py): the loss, the gradient of every
 * parameter, ten steps; external data; refusals; the text of an import reads back. */
#include "base/safetensors.h"
#include "graph/model.h"
#include "onnx/import.h"
#include "op/registry.h"
#include "proto/proto.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char folder[] = SL_TEST_SRC_DIR "/tests/fixtures/onnx";
enum { SAMPLES = 3, STEPS = 10 };
static const double rate = 0.1, tolerance = 2e-5;

static const char *path_of(const char *name, const char *ending) {
    static char path[2][1024];
    static int turn;
    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "%s/%s.%s", folder, name, ending);
    return path[turn];
}

static bool missing(void) {
    if (sl_proto_missing())
        print_message("%s\n", sl_proto_missing());
    return sl_proto_missing() != NULL;
}

static float *tensor(struct sl_st *st, const char *name, int64_t *count) {
    struct sl_st_tensor t;
    int64_t index = sl_st_find(st, name);
    if (index < 0)
        fail_msg("the fixture has no '%s'", name);
    sl_st_get(st, index, &t);
    *count = t.size_bytes / 4;
    float *out = malloc((size_t)t.size_bytes + 4);
    assert_int_equal(sl_st_read(st, &t, 0, t.size_bytes, out), SL_OK);
    return out;
}

static void fill_inputs(struct sl_ref_run *run, struct sl_st *st) {
    for (int64_t i = 0; i < run->graph->inputs.count; i++) {
        char name[256];
        int64_t count;
        snprintf(name, sizeof name, "in.%s", run->graph->inputs.at[i].name);
        float *values = tensor(st, name, &count);
        struct sl_array *array = &run->arrays[run->graph->inputs.at[i].value];
        assert_int_equal(count, sl_graph_shape_numel(&array->shape, 1));
        for (int64_t k = 0; k < count && array->f; k++)
            array->f[k] = (double)values[k];
        if (array->i)
            memcpy(array->i, values, (size_t)count * 4);
        free(values);
    }
}

/* The gradient of a parameter, summed over its uses. */
static double *gradient(const struct sl_ref_run *run, int param, int64_t *count) {
    const struct sl_graph *graph = run->graph;
    *count = sl_graph_shape_numel(&run->arrays[graph->params.at[param].value].shape, 1);
    double *sum = calloc((size_t)*count, sizeof *sum);
    for (int64_t g = 0; g < graph->grads.count; g++)
        for (int64_t k = 0; graph->grads.at[g].param == param && k < *count; k++)
            sum[k] += run->arrays[graph->grads.at[g].value].f[k];
    return sum;
}

static void check_gradients(const struct sl_ref_run *run, struct sl_st *st) {
    for (int p = 0; p < run->graph->params.count; p++) {
        char name[256];
        int64_t count, want_count;
        snprintf(name, sizeof name, "grad.%s", run->graph->params.at[p].name);
        double *got = gradient(run, p, &count);
        float *want = tensor(st, name, &want_count);
        assert_int_equal(count, want_count);
        for (int64_t k = 0; k < count; k++)
            if (fabs(got[k] - (double)want[k]) > tolerance * (1 + fabs((double)want[k])))
                fail_msg("%s[%lld] is %g, torch has %g", name, (long long)k, got[k],
                         (double)want[k]);
        free(got);
        free(want);
    }
}

static void descend(struct sl_ref_run *run) {
    for (int p = 0; p < run->graph->params.count; p++) {
        int64_t count;
        double *slope = gradient(run, p, &count);
        for (int64_t k = 0; k < count; k++)
            run->arrays[run->graph->params.at[p].value].f[k] -= rate * slope[k];
        free(slope);
    }
}

static struct sl_graph *import(const char *name, const char *loss) {
    struct sl_onnx_imported imported;
    struct sl_onnx_options options = {.loss = loss};
    if (sl_onnx_import(path_of(name, "onnx"), &options, &imported) != SL_OK)
        fail_msg("%s", sl_err_message());
    struct sl_graph *graph = imported.graph;
    sl_onnx_attach(&imported, graph);
    return graph;
}

static void trains_as_in_torch(void **state) {
    static const char *const names[] = {"attention", "external", "image", "mlp"};
    (void)state;
    if (missing())
        skip();
    for (int i = 0; i < SL_COUNT(names); i++) {
        struct sl_st st = {0};
        int64_t count;
        struct sl_graph *graph = import(names[i], "cross_entropy:logits,labels");
        assert_int_equal(sl_st_open(path_of(names[i], "safetensors"), &st), SL_OK);
        assert_int_equal(sl_graph_autodiff(graph), SL_OK);
        struct sl_ref_run *run = sl_op_ref_open(graph, SAMPLES, 1);
        float *losses = tensor(&st, "losses", &count);
        fill_inputs(run, &st);
        for (int step = 0; step < STEPS; step++) {
            sl_op_ref_nodes(run, 0, graph->nodes.count);
            if (step == 0)
                check_gradients(run, &st);
            assert_true(fabs(sl_op_ref_loss(run) - (double)losses[step]) < tolerance);
            descend(run);
        }
        free(losses);
        sl_op_ref_close(run);
        sl_st_close(&st);
        sl_graph_close(graph);
    }
}

static bool is_one_of(const char *name, const char *const *names) {
    while (*names && strcmp(*names, name) != 0)
        names++;
    return *names != NULL;
}

/* Tensors that torch computed: those from a parameter are trained, whatever their names. */
static void folded_parameters_are_trained(void **state) {
    static const char *const trained[] = {"unsqueeze", "mul",       "cos_1", "mul_4",
                                          "fc.bias",   "fc.weight", NULL};
    static const char *const fixed[] = {"unsqueeze_1", "embedding", "val_12", "cos", NULL};
    (void)state;
    if (missing())
        skip();
    struct sl_graph *graph = import("folded", "cross_entropy:logits,labels");
    for (int64_t i = 0; i < graph->params.count; i++)
        if (!is_one_of(graph->params.at[i].name, trained))
            fail_msg("'%s' is trained", graph->params.at[i].name);
    for (int64_t i = 0; i < graph->states.count; i++)
        if (!is_one_of(graph->states.at[i].name, fixed))
            fail_msg("'%s' is not trained", graph->states.at[i].name);
    assert_int_equal(graph->params.count, SL_COUNT(trained) - 1);
    assert_int_equal(graph->states.count, SL_COUNT(fixed) - 1);
    sl_graph_close(graph);
}

static void text_reads_back(void **state) {
    (void)state;
    if (missing())
        skip();
    struct sl_graph *graph = import("attention", "cross_entropy:logits,labels"), *copy;
    struct sl_text text = {0}, again = {0};
    const struct sl_model_options options = {.find_op = sl_op_find, .nearest_op = sl_op_nearest};
    sl_graph_model_write(graph, &text);
    assert_non_null(strstr(text.at, "~ stored"));
    assert_int_equal(sl_graph_model_read("x", text.at, text.length, &options, &copy), SL_OK);
    sl_graph_model_write(copy, &again);
    assert_string_equal(text.at, again.at);
    assert_int_equal(sl_graph_model_hash(graph), sl_graph_model_hash(copy));
    sl_text_free(&text);
    sl_text_free(&again);
    sl_graph_close(graph);
    sl_graph_close(copy);
}

static void refuse(const char *name, const char *loss, const char *const *words) {
    struct sl_onnx_imported imported;
    struct sl_onnx_options options = {.loss = loss};
    assert_int_not_equal(sl_onnx_import(path_of(name, "onnx"), &options, &imported), SL_OK);
    for (; *words; words++)
        if (!strstr(sl_err_message(), *words))
            fail_msg("'%s' is not in: %s", *words, sl_err_message());
}

static void refusals_have_names(void **state) {
    (void)state;
    if (missing())
        skip();
    refuse(
        "unsupported", "mse:y,targets",
        (const char *const[]){"head/softmin", "Softmin", "nearest supported one is Softmax", NULL});
    refuse("mlp", NULL,
           (const char *const[]){"no output is a scalar", "cross_entropy:logits", NULL});
    refuse("mlp", "cross_entropy:logit,labels",
           (const char *const[]){"did you mean 'logits'", NULL});
    refuse("mlp", "softmax:logits,labels", (const char *const[]){"is not a loss", NULL});
    refuse("mlp", "cross_entropy", (const char *const[]){"OP:OUTPUT,TARGETS", NULL});
    refuse("none", NULL, (const char *const[]){"none.onnx", NULL});
}

/* Every prefix of a file, and every byte of it changed, is accepted or refused. */
static void damage_is_refused(void **state) {
    char *bytes;
    size_t length;
    struct sl_proto_file *file;
    (void)state;
    if (missing())
        skip();
    assert_int_equal(sl_file_read(path_of("image", "onnx"), 1 << 20, &bytes, &length), SL_OK);
    for (size_t cut = 0; cut < length; cut += 7)
        if (sl_proto_parse("cut", bytes, cut, &file) == SL_OK)
            sl_proto_close(file);
    for (size_t at = 0; at < length; at += 3) {
        char was = bytes[at];
        bytes[at] = (char)(was ^ (1 << at % 8));
        struct sl_onnx_imported imported = {0};
        if (sl_proto_parse("damaged", bytes, length, &file) == SL_OK &&
            sl_onnx_import_file(file, &(struct sl_onnx_options){.loss = "mse:logits,y"},
                                &imported) == SL_OK)
            sl_onnx_imported_close(&imported);
        bytes[at] = was;
    }
    free(bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trains_as_in_torch), cmocka_unit_test(folded_parameters_are_trained),
        cmocka_unit_test(text_reads_back),    cmocka_unit_test(refusals_have_names),
        cmocka_unit_test(damage_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
