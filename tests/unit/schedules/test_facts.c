/* Facts from the papers: versions of 2BW, in-flight counts of GraphPipe, live micro-batches. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sched/deps.h"
#include "sched/slots.h"
#include "schedules/gen.h"

#include <string.h>

static const struct sl_sched *build(struct sl_arena *arena, const struct sl_plan *plan,
                                    struct sl_schedule_opts opts) {
    const struct sl_sched *sched = NULL;
    if (sl_schedules_build(arena, plan, &opts, &sched) != SL_OK)
        fail_msg("%s: %s", opts.schedule, sl_err_message());
    return sched;
}

static const struct sl_plan *chain(struct sl_arena *arena, int stages, int workers,
                                   enum sl_layout layout) {
    const struct sl_plan *plan = NULL;
    assert_int_equal(sl_plan_chain(arena, stages, workers, layout, &plan), SL_OK);
    return plan;
}

/* Calls back for every pass of a worker over the whole run, repetitions included. */
static void each_pass(const struct sl_sched *sched, int worker,
                      void (*visit)(void *ctx, const struct sl_action *a), void *ctx) {
    for (int s = 0; s < SL_SEGMENT_COUNT; s++)
        for (int r = 0; r < (s == SL_PERIOD ? sched->reps : 1); r++)
            for (int64_t i = 0; i < sched->lists[s][worker].count; i++) {
                const struct sl_action *a = &sched->lists[s][worker].at[i];
                int seat = sl_sched_seat(sched->plan, a->stage, worker);
                struct sl_action now = sl_sched_at(sched, seat, a,
                                                   s == SL_PERIOD     ? r
                                                   : s == SL_EPILOGUE ? sched->reps
                                                                      : 0);
                if (now.kind <= SL_BACKWARD_WEIGHT)
                    visit(ctx, &now);
            }
}

/* PipeDream-2BW (Narayanan et al. 2021): with d = m = 4 micro-batches 1..8 read version 0, 9..12
 * version 1, 13..16 version 2. */
static void check_2bw(void *ctx, const struct sl_action *a) {
    static const int32_t versions[] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2};
    int *seen = ctx;
    if (a->micro < SL_COUNT(versions)) {
        assert_int_equal(a->version, versions[a->micro]);
        (*seen)++;
    }
}

static void test_2bw_vector(void **state) {
    struct sl_arena arena = {0};
    const struct sl_plan *plan = chain(&arena, 4, 4, SL_LAYOUT_LOOP);
    const struct sl_sched *sched =
        build(&arena, plan, (struct sl_schedule_opts){.schedule = "2bw", .micros = 4, .iters = 50});
    (void)state;
    for (int w = 0; w < 4; w++) {
        int seen = 0;
        each_pass(sched, w, check_2bw, &seen);
        assert_int_equal(seen, 32); /* F and B of 16 micro-batches */
        assert_int_equal(sched->pools[w][SL_POOL_WEIGHT].count, 2);
        assert_int_equal(sched->pools[w][SL_POOL_STASH].count, 4 - w);
    }
    sl_arena_free(&arena);
}

/* 2bw with few micro-batches keeps two versions by limiting the window to m+1. */
static void test_2bw_small(void **state) {
    struct sl_arena arena = {0};
    const struct sl_plan *plan = chain(&arena, 8, 8, SL_LAYOUT_LOOP);
    (void)state;
    for (int m = 1; m <= 9; m++) {
        const struct sl_sched *sched = build(
            &arena, plan, (struct sl_schedule_opts){.schedule = "2bw", .micros = m, .iters = 60});
        for (int w = 0; w < 8; w++) {
            int f = 8 - w < m + 1 ? 8 - w : m + 1;
            assert_int_equal(sched->pools[w][SL_POOL_WEIGHT].count, 2);
            assert_int_equal(sched->pools[w][SL_POOL_STASH].count, f);
        }
    }
    sl_arena_free(&arena);
}

static int64_t inflight(const int64_t *sizes, int stages, int64_t k, int64_t *all) {
    struct sl_arena arena = {0};
    const struct sl_plan *plan = chain(&arena, stages, stages, SL_LAYOUT_LOOP);
    struct sl_stage copy[8];
    struct sl_plan draft = *plan;
    memcpy(copy, plan->stages, sizeof *copy * (size_t)stages);
    for (int i = 0; i < stages; i++)
        copy[i].micro_size = sizes[i], copy[i].group = (int)k;
    draft.stages = copy;
    assert_int_equal(sl_plan_build(&arena, &draft, &plan), SL_OK);
    struct sl_gen gen = {
        .plan = plan, .opts = &(struct sl_schedule_opts){0}, .row = sl_schedules_row_find("graph")};
    sl_schedules_gen_inflight(&gen, all);
    /* the schedule holds exactly that much */
    const struct sl_sched *sched =
        build(&arena, plan, (struct sl_schedule_opts){.schedule = "graph", .batch = 48});
    for (int i = 0; i < stages; i++)
        assert_int_equal(sched->pools[i][SL_POOL_STASH].count * sizes[i], all[i]);
    sl_arena_free(&arena);
    return all[0];
}

/* GraphPipe's Figure 5: 12 samples with micro-batches of 4 everywhere, 10 with 1, 2, 4. */
static void test_graphpipe_inflight(void **state) {
    int64_t all[8];
    (void)state;
    assert_int_equal(inflight((const int64_t[]){4, 4, 4}, 3, 1, all), 12);
    assert_int_equal(inflight((const int64_t[]){1, 2, 4}, 3, 1, all), 10);
    assert_int_equal(inflight((const int64_t[]){2, 2, 2, 2}, 4, 1, all), 8);
    assert_int_equal(inflight((const int64_t[]){1, 1, 1, 1}, 4, 2, all), 8);
}

/* Depth 8 -> 4: the first stages of two branches hold 4 micro-batches instead of 8. */
static void test_branches(void **state) {
    struct sl_arena arena = {0};
    const struct sl_plan *plan;
    struct sl_schedule_opts opts = {.schedule = "graph", .micros = 16};
    (void)state;
    const struct sl_sched *sched = build(&arena, chain(&arena, 8, 8, SL_LAYOUT_LOOP), opts);
    assert_int_equal(sched->pools[0][SL_POOL_STASH].count, 8);
    assert_int_equal(sl_plan_dag(&arena, "a1>a2>a3>a4,b1>b2>b3>b4", 0, &plan), SL_OK);
    sched = build(&arena, plan, opts);
    assert_int_equal(sched->pools[0][SL_POOL_STASH].count, 4);
    assert_int_equal(sched->pools[4][SL_POOL_STASH].count, 4);
    /* GraphPipe (Jeon et al. 2025): src -> a -> b -> sink and src -> c -> sink: f(c) is 2 */
    assert_int_equal(sl_plan_dag(&arena, "src>a>b>sink,src>c>sink", 0, &plan), SL_OK);
    sched = build(&arena, plan, opts);
    const int32_t want[] = {4, 3, 2, 1, 2};
    for (int i = 0; i < 5; i++)
        assert_int_equal(sched->pools[i][SL_POOL_STASH].count, want[i]);
    sl_arena_free(&arena);
}

/* Closed formulas for live micro-batches between F and backward, and between I and W. */
static void test_live(void **state) {
    static const int ps[] = {2, 3, 4, 8}, ms[] = {1, 2, 5, 8, 24};
    (void)state;
    for (int pi = 0; pi < SL_COUNT(ps); pi++)
        for (int mi = 0; mi < SL_COUNT(ms); mi++) {
            struct sl_arena arena = {0};
            int p = ps[pi], m = ms[mi];
            const struct sl_plan *plan = chain(&arena, p, p, SL_LAYOUT_LOOP);
            struct sl_schedule_opts opts = {.micros = m};
            opts.schedule = "gpipe";
            const struct sl_sched *gpipe = build(&arena, plan, opts);
            opts.schedule = "1f1b";
            const struct sl_sched *flush = build(&arena, plan, opts);
            opts.schedule = "zb-h1";
            const struct sl_sched *h1 = build(&arena, plan, opts);
            opts.schedule = "zb-h2";
            const struct sl_sched *h2 = build(&arena, plan, opts);
            for (int r = 0; r < p; r++) {
                int one = p - r < m ? p - r : m, two = 2 * (p - r) - 1;
                assert_int_equal(gpipe->pools[r][SL_POOL_STASH].count, m);
                assert_int_equal(flush->pools[r][SL_POOL_STASH].count, one);
                assert_int_equal(h1->pools[r][SL_POOL_STASH].count, one);
                assert_int_equal(h2->pools[r][SL_POOL_STASH].count, two < m ? two : m);
                /* kept while its W waits: r groups, one more while I runs */
                int kept = r + 1 < m ? r + 1 : m;
                assert_int_equal(h1->pools[r][SL_POOL_KEPT].count, kept);
                /* a slot from F to W: F x before W x-(p-1), or twice as late */
                assert_int_equal(sl_sched_slots(flush, r), one);
                assert_int_equal(sl_sched_slots(h1, r), p < m ? p : m);
                assert_int_equal(sl_sched_slots(h2, r), 2 * p - 1 < m ? 2 * p - 1 : m);
            }
            sl_arena_free(&arena);
        }
}

/* Stashing keeps height+1 versions when every micro-batch steps; more micro-batches need fewer. */
static void test_versions(void **state) {
    struct sl_arena arena = {0};
    const struct sl_plan *plan = chain(&arena, 6, 6, SL_LAYOUT_LOOP);
    (void)state;
    for (int m = 1; m <= 7; m++)
        for (int w = 0; w < 6; w++) {
            struct sl_schedule_opts opts = {.schedule = "stash", .micros = m, .iters = 40};
            const struct sl_sched *stash = build(&arena, plan, opts);
            opts.schedule = "vsync";
            const struct sl_sched *vsync = build(&arena, plan, opts);
            opts.schedule = "paci";
            const struct sl_sched *paci = build(&arena, plan, opts);
            assert_int_equal(stash->pools[w][SL_POOL_WEIGHT].count, 1 + (5 - w + m - 1) / m);
            assert_int_equal(vsync->pools[w][SL_POOL_WEIGHT].count, 1 + (5 + m - 1) / m);
            assert_int_equal(paci->pools[w][SL_POOL_WEIGHT].count, 1);
        }
    sl_arena_free(&arena);
}

/* PACI: with a step every a backwards and one copy of the weights, F and B of a
 * micro-batch are at most ceil((N-1)/a) versions apart; on stage s of a chain exactly
 * ceil((N-1-s)/a). */
struct mismatch {
    int32_t forward[256]; /* [micro] version */
    int64_t max;
};

static void check_mismatch(void *ctx, const struct sl_action *a) {
    struct mismatch *m = ctx;
    if (a->kind == SL_FORWARD)
        m->forward[a->micro] = a->version;
    else if (a->version - m->forward[a->micro] > m->max)
        m->max = a->version - m->forward[a->micro];
}

static void test_paci(void **state) {
    static const char *const names[] = {"paci", "async"};
    (void)state;
    for (int n = 0; n < 2; n++)
        for (int stages = 1; stages <= 9; stages++)
            for (int every = 1; every <= 10; every++) {
                struct sl_arena arena = {0};
                struct sl_schedule_opts opts = {
                    .schedule = names[n], .micros = every, .iters = 24 / every + 4};
                const struct sl_sched *sched =
                    build(&arena, chain(&arena, stages, stages, SL_LAYOUT_LOOP), opts);
                for (int s = 0; s < stages; s++) {
                    struct mismatch m = {.max = 0};
                    each_pass(sched, s, check_mismatch, &m);
                    assert_int_equal(m.max, sl_schedules_gen_ceil(stages - 1 - s, every));
                    assert_int_equal(sched->pools[s][SL_POOL_WEIGHT].count, 1);
                }
                sl_arena_free(&arena);
            }
}

static void refuse(const char *schedule, const struct sl_plan *plan, int64_t micros,
                   const char *message) {
    struct sl_arena arena = {0};
    const struct sl_sched *sched;
    struct sl_schedule_opts opts = {.schedule = schedule, .micros = micros};
    assert_int_equal(sl_schedules_build(&arena, plan, &opts, &sched), SL_ERR_REFUSED);
    if (!strstr(sl_err_message(), message))
        fail_msg("'%s' is not in '%s'", message, sl_err_message());
    sl_arena_free(&arena);
}

static void test_domains(void **state) {
    struct sl_arena arena = {0};
    const struct sl_plan *dag;
    (void)state;
    assert_int_equal(sl_plan_dag(&arena, "a>b,a>c,b>d,c>d", 0, &dag), SL_OK);
    refuse("dualpipe-v", chain(&arena, 8, 4, SL_LAYOUT_V), 7, "m >= 2p");
    refuse("zb-v", chain(&arena, 8, 8, SL_LAYOUT_LOOP), 8, "two stages per worker");
    refuse("chimera", chain(&arena, 3, 3, SL_LAYOUT_LOOP), 4, "even number of stages");
    refuse("interleaved", chain(&arena, 8, 4, SL_LAYOUT_LOOP), 6, "multiples of the workers");
    refuse("interleaved", dag, 4, "needs a chain");
    refuse("1f1b", chain(&arena, 2, 2, SL_LAYOUT_LOOP), 0, "at least one micro-batch");
    sl_arena_free(&arena);
}

/* 2bw uses slack by default if memory suffices and an iteration has at least as many micro-batches
 * as are then in flight. Slack adds no staleness. */
static void test_own_slack(void **state) {
    struct sl_arena arena = {0};
    const struct sl_plan *plan = chain(&arena, 3, 3, SL_LAYOUT_LOOP);
    struct sl_schedule_opts opts = {.schedule = "2bw", .micros = 8, .iters = 4};
    (void)state;
    int count;
    const struct sl_schedule *const *rows = sl_schedules_row_registry(&count);
    for (int i = 0; i < count; i++) {
        opts.schedule = rows[i]->name;
        bool takes = strcmp(opts.schedule, "2bw") == 0;
        assert_int_equal(sl_schedules_row_slack(plan, &opts), takes);
    }
    opts.schedule = "2bw";
    for (opts.micros = 3; opts.micros < 8; opts.micros++) /* five are in flight with it */
        assert_int_equal(sl_schedules_row_slack(plan, &opts), opts.micros >= 5);
    const struct sl_sched *tight = build(&arena, plan, opts);
    opts.slack = 1;
    const struct sl_sched *loose = build(&arena, plan, opts);
    struct sl_plan draft = *plan;
    int64_t memory[3];
    draft.memory_bytes = memory;
    for (int i = 0; i < 2; i++) {
        for (int w = 0; w < 3; w++) {
            assert_true(sl_sched_worker_bytes(loose, w) >= sl_sched_worker_bytes(tight, w));
            assert_int_equal(loose->pools[w][SL_POOL_WEIGHT].count, 2);
            memory[w] = sl_sched_worker_bytes(i ? loose : tight, w);
        }
        const struct sl_plan *limited;
        assert_int_equal(sl_plan_build(&arena, &draft, &limited), SL_OK);
        assert_int_equal(sl_schedules_row_slack(limited, &opts), i);
    }
    sl_arena_free(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_2bw_vector),
        cmocka_unit_test(test_2bw_small),
        cmocka_unit_test(test_graphpipe_inflight),
        cmocka_unit_test(test_branches),
        cmocka_unit_test(test_live),
        cmocka_unit_test(test_paci),
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_domains),
        cmocka_unit_test(test_own_slack),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
