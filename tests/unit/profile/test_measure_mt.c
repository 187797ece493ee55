/* A profile has a row for every signature and size, and lookups find all of them. */
#include "profile/measure.h"

#include "base/clock.h"
#include "support/pipe_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

/* Three equal layers. */
static const char model[] = "model mlp\ninput x : float[B, 8]\ninput label : int[B] < 8\n"
                            "repeat i in 0..3 as layer {\n    param w[8, 8] ~ normal(0.1)\n"
                            "    x = relu(matmul(x, w))\n}\n"
                            "loss cross_entropy(x, label)\n";

static struct sl_profile_spec spec_of(const struct pipe_case *c, const struct sl_optim *optim,
                                      const int64_t *sizes, int size_count) {
    return (struct sl_profile_spec){.graph = c->graph,
                                    .device = sl_device_find("cpu"),
                                    .optim = optim,
                                    .threads = 1,
                                    .sizes = sizes,
                                    .size_count = size_count};
}

static void every_unit(void **state) {
    (void)state;
    struct sl_arena arena = {0};
    struct pipe_case c;
    const struct sl_cost *cost, *again;
    struct sl_text text = {0};
    struct sl_optim optim;
    const int64_t sizes[] = {1, 3};
    pipe_case_open(&c, model);
    assert_int_equal(sl_optim_parse("adamw", &optim), SL_OK);
    struct sl_profile_spec spec = spec_of(&c, &optim, sizes, 2);
    spec.busy = 2;
    spec.rounds = 2;
    assert_int_equal(sl_profile_run(&arena, &spec, &cost), SL_OK);
    int *unit_of = SL_NEW(&arena, int, c.graph->forward_count + 1);
    int units = sl_pass_units(&arena, c.graph, spec.device->has_kernel, unit_of);
    int *nodes = SL_NEW(&arena, int, c.graph->forward_count + 1);
    int64_t seen = 0;
    for (int u = 0; u < units; u++) {
        int count = 0;
        struct sl_cost_row row;
        for (int n = 0; n < c.graph->forward_count; n++)
            if (unit_of[n] == u)
                nodes[count++] = n;
        assert_true(count > 0);
        uint64_t signature = sl_cost_signature(c.graph, nodes, count);
        assert_true(sl_cost_find(cost, signature, 3, &row));
        assert_true(row.f > 0);
    }
    for (int i = 0; i < cost->row_count; i++)
        seen += cost->rows[i].seen;
    assert_int_equal(seen, units * 2 * 2);    /* rounds x sizes; each unit is in one slice */
    assert_true(cost->row_count < 2 * units); /* equal blocks share a row */
    assert_true(cost->step_bytes_per_s > 0 && cost->link_bytes_per_s > 0);
    assert_true(cost->version_bytes_per_s > 0);
    assert_true(cost->cold.after_ns > 0); /* the workers waited for each other */
    assert_true(cost->tempo.workers == 2 && cost->tempo.passes == 2 * 2 * 2);
    for (int i = 0; i < cost->tempo.workers * cost->tempo.passes; i++)
        assert_true(cost->tempo.millionths[i] > 0);
    sl_cost_write(cost, &text);
    assert_int_equal(sl_cost_read(&arena, "t", text.at, text.length, &again), SL_OK);
    sl_text_free(&text);
    pipe_case_close(&c);
    sl_arena_free(&arena);
}

/* Feeding counts as forward time of the reader; samples are requested by number. */
static sl_err fill_slowly(const void *data, int64_t first, int64_t count, int input, void *out) {
    (void)data;
    int64_t until = sl_clock_ns() + 30000000;
    while (input == 0 && sl_clock_ns() < until)
        ;
    assert_true(first % count == 0);
    memset(out, 0, (size_t)count * 4);
    return SL_OK;
}

/* An LSTM's program has copies that belong to no node. */
static void copies_and_feeds(void **state) {
    (void)state;
    struct sl_arena arena = {0};
    struct pipe_case c;
    const struct sl_cost *cost;
    struct sl_optim optim;
    const int64_t sizes[] = {2};
    int slow = 0;
    pipe_case_open_zoo(&c, "residual-lstm", "V=16,T=4,L=3,C=8,classes=0");
    assert_int_equal(sl_optim_parse("sgd", &optim), SL_OK);
    struct sl_profile_spec spec = spec_of(&c, &optim, sizes, 1);
    spec.busy = 1;
    spec.rounds = 3;
    spec.fill = fill_slowly;
    assert_int_equal(sl_profile_run(&arena, &spec, &cost), SL_OK);
    for (int i = 0; i < cost->row_count; i++)
        /* Allow a tenth less: rows are scaled to the median of a pass. */
        slow += cost->rows[i].f >= 2900000;
    assert_true(slow >= 1);
    assert_int_equal(cost->cold.after_ns, 0); /* a single worker never waits */
    pipe_case_close(&c);
    sl_arena_free(&arena);
}

/* Later values overwrite the memory of a label, so every round must feed it, also in the relay. */
static void turns_have_inputs(void **state) {
    (void)state;
    struct sl_arena arena = {0};
    struct pipe_case c;
    const struct sl_cost *cost;
    struct sl_optim optim;
    const int64_t sizes[] = {2};
    pipe_case_open_zoo(&c, "residual-lstm", "V=16,T=4,L=3,C=8,classes=0");
    assert_int_equal(sl_optim_parse("sgd", &optim), SL_OK);
    struct sl_profile_spec spec = spec_of(&c, &optim, sizes, 1);
    spec.busy = 3;
    spec.rounds = 4;
    assert_int_equal(sl_profile_run(&arena, &spec, &cost), SL_OK);
    assert_true(cost->cold.after_ns > 0);
    pipe_case_close(&c);
    sl_arena_free(&arena);
}

/* At least the requested rounds; more until the requested seconds are reached. */
static void as_long_as_asked(void **state) {
    (void)state;
    struct sl_arena arena = {0};
    struct pipe_case c;
    struct sl_optim optim;
    const int64_t sizes[] = {1};
    pipe_case_open(&c, model);
    assert_int_equal(sl_optim_parse("sgd", &optim), SL_OK);
    for (int busy = 1; busy <= 2; busy++) {
        struct sl_profile_spec spec = spec_of(&c, &optim, sizes, 1);
        const struct sl_cost *cost;
        spec.busy = busy;
        spec.rounds = 2;
        spec.seconds = 1e-9;
        assert_int_equal(sl_profile_run(&arena, &spec, &cost), SL_OK);
        assert_int_equal(cost->tempo.passes, 2 * 2);
        spec.seconds = 3600; /* gives the maximum of a table */
        assert_int_equal(sl_profile_run(&arena, &spec, &cost), SL_OK);
        assert_int_equal(cost->tempo.passes, SL_TEMPO_PASSES);
    }
    pipe_case_close(&c);
    sl_arena_free(&arena);
}

/* All sizes together take the requested seconds, although larger micro-batches take longer. */
static void sizes_share_the_time(void **state) {
    (void)state;
    const int64_t sizes[] = {2, 4, 8, 16};
    struct sl_profile_spec spec = {.rounds = 3, .seconds = 3, .sizes = sizes, .size_count = 1};
    assert_int_equal(sl_profile_rounds(&spec, 9999999), 300);
    spec.size_count = 4;
    assert_int_equal(sl_profile_rounds(&spec, 9999999), 300 / (1 + 2 + 4 + 8));
    assert_int_equal(sl_profile_rounds(&spec, 999999999), 3);
    assert_int_equal(sl_profile_rounds(&spec, 0), SL_TEMPO_PASSES / 2 / 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_unit), cmocka_unit_test(copies_and_feeds),
        cmocka_unit_test(turns_have_inputs), cmocka_unit_test(as_long_as_asked),
        cmocka_unit_test(sizes_share_the_time)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
