/* The model language: scopes, functions, use, sizes, limits. Messages are in tests/golden. */
#include "graph/model.h"
#include "graph/stats.h"
#include "op/registry.h"

#include <stdlib.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

static struct sl_model_options plain(void) {
    return (struct sl_model_options){.find_op = sl_op_find, .nearest_op = sl_op_nearest};
}

static struct sl_graph *read_with(const char *text, const struct sl_model_options *options) {
    struct sl_graph *graph = NULL;
    if (sl_graph_model_read("test", text, strlen(text), options, &graph) != SL_OK)
        fail_msg("%s", sl_err_message());
    return graph;
}

static struct sl_graph *read(const char *text) {
    struct sl_model_options options = plain();
    return read_with(text, &options);
}

/* The flat form without its header and shapes must be this. */
static void expect_flat(const char *text, const char *flat) {
    struct sl_graph *graph = read(text);
    struct sl_text out = {0}, lines = {0};
    sl_graph_model_write(graph, &out);
    for (const char *at = strchr(out.at, '\n') + 1; *at;) {
        size_t length = strcspn(at, "\n"), kept = strcspn(at, "#\n");
        while (kept && at[kept - 1] == ' ')
            kept--;
        sl_text_printf(&lines, "%.*s\n", (int)kept, at);
        at += length + 1;
    }
    assert_string_equal(lines.at, flat);
    sl_text_free(&out);
    sl_text_free(&lines);
    sl_graph_close(graph);
}

static void expect_error(const char *text, const char *message) {
    struct sl_model_options options = plain();
    struct sl_graph *graph = NULL;
    assert_int_equal(sl_graph_model_read("t", text, strlen(text), &options, &graph), SL_ERR_INPUT);
    assert_null(graph);
    if (!strstr(sl_err_message(), message))
        fail_msg("'%s' does not hold '%s'", sl_err_message(), message);
}

static void test_scopes(void **state) {
    (void)state;
    /* A round assigns outer names; its own names end with it. */
    expect_flat(
        "input x : float[B,2]\nrepeat i in 0..2 { y = relu(x)\n x = y }\nloss reduce_sum(x)",
        "input x : float[B,2]\n_0 = relu(x)\n_1 = relu(_0)\n_2 = reduce_sum(_1, axes = [0,1])"
        "\nloss _2\n");
    expect_error("input x : float[B,2]\nrepeat i in 0..2 { y = relu(x) }\nloss reduce_sum(y)",
                 "'y' is not defined");
    /* The blocks of an if share the names around them. */
    expect_flat("input x : float[B,2]\nif 1 { y = relu(x) } else { y = x }\nloss reduce_sum(y)",
                "input x : float[B,2]\n_0 = relu(x)\n_1 = reduce_sum(_0, axes = [0,1])\nloss _1\n");
    /* A function sees the top level and its own names, not its caller's, and cannot assign the top
     * level. */
    expect_flat("size N = 2\ninput x : float[B,2]\nfn f(a) { x = a * N\n return x }\ny = f(x)\n"
                "loss reduce_sum(x)",
                "input x : float[B,2]\nscope f\n_0 = scale(x, by = 2)\nscope\n"
                "_1 = reduce_sum(x, axes = [0,1])\nloss _1\n");
    expect_error(
        "input x : float[B,2]\nfn f() { return y }\nfn g() { y = 1\n return f() }\nz = g()",
        "'y' is not defined");
}

static void test_names(void **state) {
    (void)state;
    /* Instances name parameters; the default is the function's name, '_' adds nothing. */
    expect_flat("input x : float[B,2]\nfn f(x) { param w[2] ~ ones\n return x * w }\n"
                "fn g(x) { return f(f(x) as a) as b }\n"
                "repeat i in 3..5 as h { x = g(x) as _ }\nloss reduce_sum(f(x))",
                "input x : float[B,2]\nparam h.3.a.w[2] ~ ones\nparam h.3.b.w[2] ~ ones\n"
                "param h.4.a.w[2] ~ ones\nparam h.4.b.w[2] ~ ones\nparam f.w[2] ~ ones\n"
                "scope h.3.a\n_0 = mul(x, h.3.a.w)\nscope h.3.b\n_1 = mul(_0, h.3.b.w)\n"
                "scope h.4.a\n_2 = mul(_1, h.4.a.w)\nscope h.4.b\n_3 = mul(_2, h.4.b.w)\n"
                "scope f\n_4 = mul(_3, f.w)\nscope\n_5 = reduce_sum(_4, axes = [0,1])\nloss _5\n");
}

static void test_tied_and_losses(void **state) {
    (void)state;
    struct sl_graph *graph = read("input x : float[B,3]\nparam w[3,3] ~ normal(1)\n"
                                  "h = matmul(matmul(x, w), w, tb = 1)\nloss a = mse(h, x)\n"
                                  "loss reduce_mean(h) weight 0.25\noutput h = h");
    assert_int_equal(graph->params.count, 1);
    assert_int_equal(graph->losses.count, 2);
    assert_string_equal(graph->losses.at[0].name, "a");
    assert_string_equal(graph->losses.at[1].name, "loss1");
    assert_true(graph->losses.at[1].weight == 0.25);
    assert_int_equal(sl_graph_autodiff(graph), SL_OK);
    assert_int_equal(graph->grads.count, 2); /* a use each */
    sl_graph_close(graph);
}

static void test_arithmetic(void **state) {
    (void)state;
    static const char *const holds[] = {
        "2 + 3 * 4 == 14",
        "(2 + 3) * 4 == 20",
        "-7 // 2 == -4",
        "-7 % 2 == 1",
        "7 // 2 == 3",
        "2 * 3 % 4 == 2",
        "10 - 3 - 2 == 5",
        "8 / 2 / 2 == 2",
        "1 + 1 == 2 and not 1 > 2",
        "0 or 1",
        "not 0 and 1",
        "min(3, 1, 2) == 1",
        "max(1.5, 1) == 1.5",
        "sqrt(16) == 4",
        "log2(8) == 3",
        "ceil(1.2) == 2",
        "floor(-1.2) == -2",
        "round(2.5) == 3",
        "len([1, 2] + [3]) == 3",
        "[4, 5, 6][-1] == 6",
        "exp(0) == 1",
        "1e3 == 1000",
        "7 / 2.0 == 3.5",
        "-2 < -1",
        "\"a\" != \"b\"",
        "rank(x) == 2",
        "dim(x, -1) == 5",
        "none == none",
        "2 >= 2 and 2 <= 2 and 1 != 2",
    };
    for (int i = 0; i < SL_COUNT(holds); i++) {
        struct sl_text text = {0};
        sl_text_printf(&text, "input x : float[B,5]\nrequire %s, \"%d\"\nloss reduce_sum(x)",
                       holds[i], i);
        sl_graph_close(read(text.at));
        sl_text_free(&text);
    }
    /* Sizes keep B symbolic. */
    struct sl_graph *graph = read("input x : float[B, 6]\ny = reshape(x, [2 * B, 3])\n"
                                  "z = reshape(y, [dim(y, 0) * 3 / 2, 2])\nloss reduce_sum(z)");
    char shape[SL_SHAPE_TEXT];
    assert_string_equal(
        sl_graph_shape_text(&graph->values.at[graph->nodes.at[1].out[0]].shape, shape), "[B*3,2]");
    sl_graph_close(graph);
    expect_error("x = B * B", "B * B has no meaning");
    expect_error("x = B + 1", "cannot add a multiple of B and a number");
    expect_error("x = B // 2", "B is not known here");
    expect_error("x = 6 / B", "cannot divide by B");
}

static void test_sets(void **state) {
    (void)state;
    const char *text = "size N = 3, F = 4 * N, p = 0.5, odd = N / 2\ninput x : float[B, F]\n"
                       "loss reduce_sum(x)";
    struct sl_arena arena = {0};
    struct sl_model_options options = plain();
    struct sl_graph *graph;
    /* odd = 3 / 2 has no value, but it is overridden. */
    assert_int_equal(sl_graph_model_parse_sets("N=5,odd=1,,p=1", &arena, &options), SL_OK);
    graph = read_with(text, &options);
    assert_int_equal(graph->sizes.count, 4);
    assert_true(graph->sizes.at[1].value == 20 && graph->sizes.at[2].value == 1);
    sl_graph_close(graph);
    assert_int_equal(sl_graph_model_parse_sets("N=1.5,odd=1", &arena, &options), SL_OK);
    assert_int_equal(sl_graph_model_read("t", text, strlen(text), &options, &graph), SL_ERR_USAGE);
    assert_int_equal(sl_graph_model_parse_sets("N", &arena, &options), SL_ERR_USAGE);
    assert_int_equal(sl_graph_model_parse_sets("=3", &arena, &options), SL_ERR_USAGE);
    assert_int_equal(sl_graph_model_parse_sets("N=x", &arena, &options), SL_ERR_USAGE);
    sl_arena_free(&arena);
}

static sl_err find_used(const void *ctx, const char *from, const char *name,
                        struct sl_model_source *out) {
    const char *text = strcmp(name, "inner") == 0
                           ? "size N = 2, M = 3\ninput x : float[B, N, M]\nloss reduce_sum(x)"
                           : "use inner with N = 7, M = 8";
    (void)ctx;
    (void)from;
    if (strcmp(name, "nosuch") == 0)
        return sl_fail(SL_ERR_INPUT, "no");
    *out = (struct sl_model_source){strdup(name), strdup(text), strlen(text)};
    return SL_OK;
}

static void test_use(void **state) {
    (void)state;
    static const struct sl_model_set set = {"M", 5};
    struct sl_model_options options = plain();
    options.find_used = find_used;
    options.sets = &set;
    struct sl_graph *graph = read_with("use outer with N = 9", &options);
    assert_true(graph->sizes.at[0].value == 9 && graph->sizes.at[1].value == 8);
    sl_graph_close(graph);
    options.set_count = 1;
    graph = read_with("use outer with N = 9", &options);
    assert_true(graph->sizes.at[0].value == 9 && graph->sizes.at[1].value == 5);
    sl_graph_close(graph);
    options.find_used = NULL;
    assert_int_equal(sl_graph_model_read("t", "use inner", 9, &options, &graph), SL_ERR_INPUT);
}

static void test_eval_graph(void **state) {
    (void)state;
    const char *text = "input x : float[B,4]\nparam w[4] ~ ones\nparam b[4] ~ zeros\n"
                       "state m[4] ~ zeros\nstate v[4] ~ ones\n"
                       "loss reduce_sum(dropout(batchnorm(x, w, b, m, v), 0.5))";
    struct sl_model_options options = plain();
    struct sl_graph *train = read(text);
    assert_int_equal(train->updates.count, 2);
    options.eval = true;
    struct sl_graph *eval = read_with(text, &options);
    assert_int_equal(eval->updates.count, 0);
    assert_string_equal(eval->nodes.at[0].op->name, "batchnorm_eval");
    sl_graph_close(train);
    sl_graph_close(eval);
}

static void test_limits(void **state) {
    (void)state;
    const char *text =
        "input x : float[B,4]\nrepeat i in 0..10 { x = relu(x) }\nloss reduce_sum(x)";
    struct sl_model_options options = plain();
    struct sl_graph *graph;
    options.node_limit = 11;
    sl_graph_close(read_with(text, &options));
    options.node_limit = 10;
    assert_int_equal(sl_graph_model_read("t", text, strlen(text), &options, &graph), SL_ERR_INPUT);
    options = plain();
    options.step_limit = 20;
    assert_int_equal(sl_graph_model_read("t", text, strlen(text), &options, &graph), SL_ERR_INPUT);
}

/* Large graphs: the same numbers whichever way they are written. bench/graph.c has the times. */
static void test_large(void **state) {
    (void)state;
    const char *text = "input x : float[B, 8]\nrepeat i in 0..33333 as layer {\n"
                       "param w[8, 8] ~ normal(0.02)\nx = x + relu(matmul(x, w))\n}\n"
                       "loss reduce_mean(x)";
    struct sl_graph *graph = read(text);
    struct sl_graph_stats stats;
    struct sl_text flat = {0};
    assert_int_equal(sl_graph_autodiff(graph), SL_OK);
    sl_graph_stats(graph, &stats);
    assert_int_equal(stats.forward_nodes, 100000);
    assert_int_equal(stats.parameters, 33333 * 64);
    sl_graph_model_write(graph, &flat);
    struct sl_graph *again = read(flat.at);
    assert_int_equal(again->nodes.count, 100000);
    print_message("count: %lld nodes of one graph\n", (long long)graph->nodes.count);
    sl_text_free(&flat);
    sl_graph_close(graph);
    sl_graph_close(again);
}

static void test_peek(void **state) {
    (void)state;
    struct sl_arena arena = {0};
    struct sl_model_header header;
    const char *text = "# words\n\nlibrary a-b.c \"what it is\"\n";
    assert_int_equal(sl_graph_model_peek("x", text, strlen(text), &arena, &header), SL_OK);
    assert_true(header.is_library);
    assert_string_equal(header.name, "a-b.c");
    assert_string_equal(header.brief, "what it is");
    assert_int_equal(sl_graph_model_peek("dir/my model..x.model", "", 0, &arena, &header), SL_OK);
    assert_string_equal(header.name, "my_model._x"); /* illegal characters become '_' */
    sl_arena_free(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scopes),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_tied_and_losses),
        cmocka_unit_test(test_arithmetic),
        cmocka_unit_test(test_sets),
        cmocka_unit_test(test_use),
        cmocka_unit_test(test_eval_graph),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_large),
        cmocka_unit_test(test_peek),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
