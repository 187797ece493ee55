/* Prediction distances: the tables of SpecTrain (Chen et al. 2018) and XPipe (Guan et al. 2019), an
 * audit of versions on chains and graphs, memory, and refusals. */
#include "sched/deps.h"
#include "schedules/schedule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/sched_cases.h"

#include <stdio.h>
#include <string.h>

struct wanted {
    const char *policy;
    int stages;
    int64_t micros;
    int forward[8], backward[8];
};

/* SpecTrain: s_f = floor(k/2) + N - k - 1, s_b = floor(k/2). XPipe: the printed table, and its
 * formula for other sizes. PipeOptim: s = N - k - 1 and 0. */
static const struct wanted table[] = {
    {"spectrain", 2, 1, {1, 0}, {0, 0}},
    {"spectrain", 3, 1, {2, 1, 1}, {0, 0, 1}},
    {"spectrain", 4, 1, {3, 2, 2, 1}, {0, 0, 1, 1}},
    {"spectrain", 8, 1, {7, 6, 6, 5, 5, 4, 4, 3}, {0, 0, 1, 1, 2, 2, 3, 3}},
    {"xpipe", 2, 1, {1, 0}, {0, 0}},             /* round(1), round(0.5) */
    {"xpipe", 3, 1, {2, 2, 1}, {0, 0, 1}},       /* round(2, 1.5, 1) */
    {"xpipe", 4, 1, {3, 2, 2, 2}, {0, 0, 1, 1}}, /* printed */
    {"xpipe", 2, 2, {1, 1}, {0, 0}},             /* round(1, 0.75) */
    {"xpipe", 3, 3, {1, 1, 1}, {0, 0, 1}},       /* round(4/3, 7/6, 1) */
    {"xpipe", 4, 4, {2, 1, 1, 1}, {0, 0, 1, 1}}, /* printed */
    {"xpipe", 8, 1, {7, 6, 6, 6, 5, 4, 4, 4}, {0, 0, 1, 1, 2, 2, 3, 3}},
    {"xpipe", 8, 8, {2, 2, 2, 2, 2, 1, 1, 1}, {0, 0, 1, 1, 1, 1, 1, 1}},
    {"pipeoptim", 2, 1, {1, 0}, {0, 0}},
    {"pipeoptim", 3, 1, {2, 1, 0}, {0, 0, 0}},
    {"pipeoptim", 4, 1, {3, 2, 1, 0}, {0, 0, 0, 0}},
    {"pipeoptim", 8, 1, {7, 6, 5, 4, 3, 2, 1, 0}, {0}},
    {"2bw-predict", 4, 4, {1, 1, 1, 1}, {1, 1, 1, 1}},
    {"2bw-predict", 8, 8, {1, 1, 1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 1, 1}},
    {"pipemare", 4, 2, {0}, {7, 5, 3, 1}}, /* tau = 7/2, 5/2, 3/2, 1/2 */
};

static const struct sl_sched *build(struct sl_arena *arena, const struct sl_plan *plan,
                                    const char *policy, int64_t micros, int64_t iters) {
    struct sl_policy_use use;
    const struct sl_sched *sched;
    assert_int_equal(sl_optim_policy_parse(policy, &use), SL_OK);
    struct sl_schedule_opts opts = {.schedule =
                                        strcmp(policy, "2bw-predict") == 0 ? "2bw" : "async",
                                    .micros = micros,
                                    .iters = iters,
                                    .policy = &use};
    if (sl_schedules_build(arena, plan, &opts, &sched) != SL_OK)
        fail_msg("%s: %s", policy, sl_err_message());
    return sched;
}

static void test_tables(void **state) {
    (void)state;
    for (int i = 0; i < SL_COUNT(table); i++) {
        const struct wanted *t = &table[i];
        struct sl_arena arena = {0};
        const struct sl_plan *plan;
        assert_int_equal(sl_plan_chain(&arena, t->stages, t->stages, SL_LAYOUT_LOOP, &plan), SL_OK);
        const struct sl_sched *sched = build(&arena, plan, t->policy, t->micros, 40);
        assert_true(sched->reps > 2);
        for (int w = 0; w < t->stages; w++) {
            const struct sl_actions *list = &sched->lists[SL_PERIOD][w];
            int passes = 0;
            for (int64_t j = 0; j < list->count; j++) {
                const struct sl_action *a = &list->at[j];
                if (a->kind != SL_FORWARD && a->kind != SL_BACKWARD)
                    continue;
                int want = a->kind == SL_FORWARD ? t->forward[w] : t->backward[w];
                if (a->ahead != want)
                    fail_msg("%s, N = %d, m = %lld, stage %d, %s %d: s = %d, not %d", t->policy,
                             t->stages, (long long)t->micros, w, sl_sched_kind_name(a->kind),
                             a->micro, a->ahead, want);
                passes++;
            }
            assert_int_equal(passes, 2 * t->micros);
        }
        sl_arena_free(&arena);
    }
}

/* Versions by the global clock: a stage of height h in depth D counts its own steps from
 * half the way down the graph and all the way up, h + ceil(r/2) units after those of the clock, so
 * that version v of the stage is W(v + h + ceil(r/2)) of SpecTrain's numbering. For one micro-batch
 * base + s must be one number, on all stages and in both directions. */
static void audit(const struct sl_plan *plan) {
    struct sl_arena arena = {0};
    const struct sl_sched *sched = build(&arena, plan, "spectrain", 1, 60);
    for (int s = 0; s < plan->stage_count; s++) {
        int h = plan->stages[s].height, r = plan->depth - 1 - h, seen = 0;
        const struct sl_actions *list = &sched->lists[SL_PERIOD][s];
        for (int64_t i = 0; i < list->count; i++) {
            const struct sl_action *a = &list->at[i];
            if (a->kind != SL_FORWARD && a->kind != SL_BACKWARD)
                continue;
            int offset = h + (r + 1) / 2;
            assert_int_equal(a->version + a->ahead + offset, a->micro + plan->depth - 1);
            seen++;
        }
        assert_int_equal(seen, 2);
    }
    sl_arena_free(&arena);
}

static void test_audit(void **state) {
    struct sl_arena arena = {0};
    const struct sl_plan *plan;
    (void)state;
    for (int n = 1; n <= 8; n++) {
        assert_int_equal(sl_plan_chain(&arena, n, n, SL_LAYOUT_LOOP, &plan), SL_OK);
        audit(plan);
    }
    /* the short branch a > d > e is as high as its longest way down */
    assert_int_equal(sl_plan_dag(&arena, "a>b,b>c,c>e,a>d,d>e,e>f,g>c", 0, &plan), SL_OK);
    audit(plan);
    sl_arena_free(&arena);
}

/* Slots of true and of predicted weights. */
static void test_memory(void **state) {
    (void)state;
    static const struct {
        const char *policy;
        int64_t micros;
        int true_slots, predicted[4];
    } cases[] = {{"spectrain", 1, 1, {1, 1, 2, 2}}, /* s_b is 0 on the first two */
                 {"xpipe", 4, 1, {1, 1, 2, 2}},       {"pipeoptim", 1, 1, {1, 1, 1, 0}},
                 {"2bw-predict", 4, 1, {2, 2, 2, 2}}, {"pipemare", 2, 1, {1, 1, 1, 1}},
                 {"lr-rescale", 2, 1, {0, 0, 0, 0}}};
    for (int i = 0; i < SL_COUNT(cases); i++) {
        struct sl_arena arena = {0};
        const struct sl_plan *plan;
        assert_int_equal(sl_plan_chain(&arena, 4, 4, SL_LAYOUT_LOOP, &plan), SL_OK);
        const struct sl_sched *sched = build(&arena, plan, cases[i].policy, cases[i].micros, 40);
        for (int s = 0; s < 4; s++) {
            assert_int_equal(sched->pools[s][SL_POOL_WEIGHT].count, cases[i].true_slots);
            assert_int_equal(sched->pools[s][SL_POOL_PREDICT].count, cases[i].predicted[s]);
        }
        sl_arena_free(&arena);
    }
}

/* A schedule whose passes and predictions agree with each other, but not with its policy. */
static void test_other_distance(void **state) {
    static const char *const others[][3] = {
        {"spectrain", "pipeoptim", "weights 1 ahead, policy 'pipeoptim' says 0"},
        {"pipeoptim", "spectrain", "weights 0 ahead, policy 'spectrain' says 1"},
        {"spectrain", "none", "weights 1 ahead, policy 'none' says 0"},
    };
    struct sl_arena arena = {0};
    const struct sl_plan *plan;
    (void)state;
    assert_int_equal(sl_plan_chain(&arena, 3, 3, SL_LAYOUT_LOOP, &plan), SL_OK);
    for (int i = 0; i < SL_COUNT(others); i++) {
        struct sl_sched *sched = sched_copy(&arena, build(&arena, plan, others[i][0], 1, 40));
        assert_int_equal(sl_optim_policy_parse(others[i][1], &sched->policy), SL_OK);
        assert_int_equal(sl_sched_verify(sched), SL_ERR_REFUSED);
        if (!strstr(sl_err_message(), others[i][2]))
            fail_msg("'%s' is not in: %s", others[i][2], sl_err_message());
    }
    sl_arena_free(&arena);
}

static void expect_no(const char *schedule, const char *policy, const char *why) {
    struct sl_arena arena = {0};
    struct sl_policy_use use;
    const struct sl_plan *plan;
    const struct sl_sched *sched;
    assert_int_equal(sl_optim_policy_parse(policy, &use), SL_OK);
    assert_int_equal(sl_plan_chain(&arena, 3, 3, SL_LAYOUT_LOOP, &plan), SL_OK);
    struct sl_schedule_opts opts = {.schedule = schedule, .micros = 3, .policy = &use};
    assert_int_equal(sl_schedules_build(&arena, plan, &opts, &sched), SL_ERR_REFUSED);
    if (!strstr(sl_err_message(), why))
        fail_msg("'%s' is not in: %s", why, sl_err_message());
    sl_arena_free(&arena);
}

static void test_refused(void **state) {
    (void)state;
    for (int i = 0; i < sl_optim_policy_count; i++)
        if (strcmp(sl_optim_policies[i]->name, "none") != 0)
            expect_no("1f1b", sl_optim_policies[i]->name, "synchronous");
    expect_no("stash", "spectrain", "stashed versions");
    expect_no("2bw", "pipemare", "replaces stashed versions");
    expect_no("async", "2bw-predict", "one step everywhere");
    expect_no("vsync", "error-feedback", "one step of delay");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables),  cmocka_unit_test(test_audit),
        cmocka_unit_test(test_memory),  cmocka_unit_test(test_other_distance),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
