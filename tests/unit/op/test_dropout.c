/* Dropout masks are independent of the micro-batch size, differ between seeds and streams, and drop
 * with probability p. alpha_dropout keeps mean and variance. */
#include "op/registry.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

enum { SAMPLES = 12, EACH = 35 };

struct setting {
    const char *op;
    double p;
    int64_t stream;
    uint64_t seed;
};

static double sample_value(int64_t i) { return 0.5 + (double)(i % 17); }

/* Run samples [0, SAMPLES) in micro-batches of `batch`; y [SAMPLES, EACH]. */
static void run_in(const struct setting *s, int64_t batch, double *y) {
    struct sl_graph *g = sl_graph_open("dropout", sl_op_find);
    union sl_attr attr[2] = {{.f = s->p}, {.i = s->stream}};
    int x, out;
    assert_int_equal(sl_graph_input(g, "x", SL_FLOAT, SL_SHAPE(3, 1, 1, 5, 7), 0, &x), SL_OK);
    assert_int_equal(sl_graph_apply(g, s->op, 1, &x, attr, &out), SL_OK);
    for (int64_t first = 0; first < SAMPLES; first += batch) {
        struct sl_ref_run *run = sl_op_ref_open(g, batch, s->seed);
        run->first_sample = first;
        for (int64_t i = 0; i < batch * EACH; i++)
            run->arrays[x].f[i] = sample_value(first * EACH + i);
        sl_op_ref_nodes(run, 0, 1);
        memcpy(y + first * EACH, run->arrays[out].f, (size_t)(batch * EACH) * sizeof *y);
        sl_op_ref_close(run);
    }
    sl_graph_close(g);
}

static void masks_do_not_depend_on_the_cut(void **state) {
    (void)state;
    static const char *const ops[] = {"dropout", "alpha_dropout"};
    for (int o = 0; o < 2; o++) {
        struct setting s = {ops[o], 0.3, 5, 99};
        double whole[SAMPLES * EACH], cut[SAMPLES * EACH];
        run_in(&s, SAMPLES, whole);
        for (int64_t batch = 1; batch < SAMPLES; batch++) {
            if (SAMPLES % batch)
                continue;
            run_in(&s, batch, cut);
            assert_memory_equal(whole, cut, sizeof whole);
        }
    }
}

static int differing(const struct setting *a, const struct setting *b) {
    double x[SAMPLES * EACH], y[SAMPLES * EACH];
    int count = 0;
    run_in(a, SAMPLES, x);
    run_in(b, SAMPLES, y);
    for (int i = 0; i < SAMPLES * EACH; i++)
        count += (x[i] == 0) != (y[i] == 0);
    return count;
}

static void masks_depend_on_seed_and_stream(void **state) {
    (void)state;
    struct setting s = {"dropout", 0.5, 5, 99}, seed = s, stream = s;
    seed.seed++;
    stream.stream++;
    assert_int_equal(differing(&s, &s), 0);
    assert_in_range(differing(&s, &seed), SAMPLES * EACH / 3, 2 * SAMPLES * EACH / 3);
    assert_in_range(differing(&s, &stream), SAMPLES * EACH / 3, 2 * SAMPLES * EACH / 3);
}

static void kept_elements_are_scaled(void **state) {
    (void)state;
    struct setting s = {"dropout", 0.3, 5, 99}, none = {"dropout", 0, 5, 99};
    double y[SAMPLES * EACH];
    int dropped = 0;
    run_in(&s, SAMPLES, y);
    for (int i = 0; i < SAMPLES * EACH; i++) {
        dropped += y[i] == 0;
        assert_true(y[i] == 0 || fabs(y[i] - sample_value(i) / 0.7) < 1e-12);
    }
    /* 420 draws with p = 0.3: mean 126, standard deviation 9.4; allow five deviations */
    assert_in_range(dropped, 126 - 47, 126 + 47);
    run_in(&none, SAMPLES, y);
    for (int i = 0; i < SAMPLES * EACH; i++)
        assert_true(y[i] == sample_value(i));
}

/* A standard normal input keeps mean 0 and variance 1. */
static void alpha_dropout_keeps_moments(void **state) {
    (void)state;
    struct sl_graph *g = sl_graph_open("alpha", sl_op_find);
    union sl_attr attr[2] = {{.f = 0.2}, {.i = 1}};
    enum { COUNT = 100000 };
    int x, out;
    assert_int_equal(sl_graph_input(g, "x", SL_FLOAT, SL_SHAPE(2, 1, 1, COUNT), 0, &x), SL_OK);
    assert_int_equal(sl_graph_apply(g, "alpha_dropout", 1, &x, attr, &out), SL_OK);
    struct sl_ref_run *run = sl_op_ref_open(g, 1, 3);
    struct sl_init normal = {SL_INIT_NORMAL, 1, 0};
    for (int64_t i = 0; i < COUNT; i++)
        run->arrays[x].f[i] = sl_op_init_value(&normal, 11, 13, i);
    sl_op_ref_nodes(run, 0, 1);
    double mean = 0, square = 0;
    for (int64_t i = 0; i < COUNT; i++) {
        mean += run->arrays[out].f[i] / COUNT;
        square += run->arrays[out].f[i] * run->arrays[out].f[i] / COUNT;
    }
    assert_true(fabs(mean) < 0.02);
    assert_true(fabs(square - 1) < 0.03);
    sl_op_ref_close(run);
    sl_graph_close(g);
}

/* A node without a stream gets its own; evaluation applies neither mask nor scale. */
static void graphs_give_streams(void **state) {
    (void)state;
    for (int eval = 0; eval < 2; eval++) {
        struct sl_graph *g = sl_graph_open("streams", sl_op_find);
        union sl_attr attr[2] = {{.f = 0.5}, {.i = -1}};
        int x, y;
        g->eval = eval;
        assert_int_equal(sl_graph_input(g, "x", SL_FLOAT, SL_SHAPE(2, 1, 1, 3), 0, &x), SL_OK);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(sl_graph_apply(g, "dropout", 1, &x, attr, &y), SL_OK);
            assert_int_equal(g->nodes.at[i].attr[1].i, i);
            assert_string_equal(g->nodes.at[i].op->name, eval ? "identity" : "dropout");
        }
        sl_graph_close(g);
    }
}

/* A stream named in the model is not given to another node. */
static void named_streams_are_taken(void **state) {
    (void)state;
    static const int64_t asked[] = {-1, 4, -1, 2, -1, 6, -1}, got[] = {0, 4, 5, 2, 6, 6, 7};
    struct sl_graph *g = sl_graph_open("streams", sl_op_find);
    int x, y;
    assert_int_equal(sl_graph_input(g, "x", SL_FLOAT, SL_SHAPE(2, 1, 1, 3), 0, &x), SL_OK);
    for (int i = 0; i < SL_COUNT(asked); i++) {
        union sl_attr attr[2] = {{.f = 0.5}, {.i = asked[i]}};
        assert_int_equal(sl_graph_apply(g, "dropout", 1, &x, attr, &y), SL_OK);
        assert_true(g->nodes.at[i].attr[1].i == got[i]);
    }
    assert_int_equal(g->stream_count, 8);
    union sl_attr beyond[2] = {{.f = 0.5}, {.i = INT_MAX}};
    assert_int_equal(sl_graph_apply(g, "dropout", 1, &x, beyond, &y), SL_ERR_INPUT);
    assert_int_equal(g->nodes.count, SL_COUNT(asked));
    sl_graph_close(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks_do_not_depend_on_the_cut),
        cmocka_unit_test(masks_depend_on_seed_and_stream),
        cmocka_unit_test(kept_elements_are_scaled),
        cmocka_unit_test(alpha_dropout_keeps_moments),
        cmocka_unit_test(graphs_give_streams),
        cmocka_unit_test(named_streams_are_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
