/* Wait-for chains lead to the stalled worker, and only that one is reported. */
#include "sched/waits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORKERS = 7 };
static const int64_t second = 1000000000;

struct table {
    struct sl_arena arena;
    const struct sl_plan *plan;
    struct sl_work all[WORKERS];
};

static void open_table(struct table *t) {
    *t = (struct table){0};
    assert_int_equal(sl_plan_chain(&t->arena, WORKERS, WORKERS, SL_LAYOUT_LOOP, &t->plan), SL_OK);
    for (int w = 0; w < WORKERS; w++)
        t->all[w] = (struct sl_work){.known = 1,
                                     .busy = 1,
                                     .kind = SL_BACKWARD,
                                     .stage = w,
                                     .micro = 3,
                                     .still_ns = 11 * second};
}

/* Worker w waits for the gradient of the next stage, or for the activation of the one before. */
static void wait_message(struct table *t, int w, bool grad) {
    struct sl_work *work = &t->all[w];
    work->wait = SL_WAIT_MESSAGE;
    work->grad = grad;
    work->of = grad ? w : w - 1; /* edge e goes from stage e to e + 1 */
    work->peer = grad ? w + 1 : w - 1;
    work->peer_micro = 5;
}

static const struct sl_stall_rule rule = {.floor_ns = 5000000000,
                                          .remote_ns = 2000000000,
                                          .circle_ns = 60000000000,
                                          .first = 2,
                                          .last_here = 3};

/* All workers wait for one that is stuck, at every position of the chain. */
static void test_chain(void **state) {
    (void)state;
    for (int stuck = 0; stuck < WORKERS; stuck++) {
        struct table t;
        int chain[WORKERS], who = -1;
        open_table(&t);
        for (int w = 0; w < WORKERS; w++)
            if (w != stuck)
                wait_message(&t, w, w < stuck);
        for (int w = 0; w < WORKERS; w++)
            assert_int_equal(sl_sched_waits_next(t.plan, t.all, w), w < stuck   ? w + 1
                                                                    : w > stuck ? w - 1
                                                                                : w);
        int longer = stuck > WORKERS - 1 - stuck ? stuck : WORKERS - 1 - stuck;
        int count = sl_sched_waits_chain(t.plan, t.all, stuck, chain);
        assert_int_equal(count, longer + 1);
        assert_int_equal(chain[count - 1], stuck);
        for (int i = 0; i + 1 < count; i++)
            assert_int_equal(sl_sched_waits_next(t.plan, t.all, chain[i]), chain[i + 1]);
        assert_int_equal(sl_sched_stall_judge(t.plan, t.all, &rule, &who), SL_STALLED);
        assert_int_equal(who, stuck);
        sl_arena_free(&t.arena);
    }
}

/* The limit is the max of the floor and ten times the expected time; more for other ranks. */
static void test_limits(void **state) {
    (void)state;
    struct table t;
    int who;
    open_table(&t);
    for (int w = 0; w < WORKERS; w++)
        if (w != 3 && w != 5)
            wait_message(&t, w, w < 3);
    struct {
        int64_t here_ns, there_ns, expect_ns;
        enum sl_verdict want;
        int who;
    } cases[] = {
        {4999999999, 0, 0, SL_MOVES, 0},         {5000000000, 0, 0, SL_STALLED, 3},
        {5000000000, 0, 500000001, SL_MOVES, 0}, {6000000000, 0, 600000000, SL_STALLED, 3},
        {0, 6999999999, 0, SL_MOVES, 0},         {0, 7000000000, 0, SL_STALLED, 5},
        {0, 0, INT64_MAX, SL_MOVES, 0},
    };
    for (int i = 0; i < SL_COUNT(cases); i++) {
        t.all[3].still_ns = cases[i].here_ns;
        t.all[5].still_ns = cases[i].there_ns;
        t.all[3].expect_ns = t.all[5].expect_ns = cases[i].expect_ns;
        if (sl_sched_stall_judge(t.plan, t.all, &rule, &who) != cases[i].want ||
            (cases[i].want == SL_STALLED && who != cases[i].who))
            fail_msg("case %d", i);
    }
    /* "Slow" is reported earlier, and never for a waiting worker. */
    struct sl_work slow = {.known = 1, .busy = 1, .still_ns = second, .expect_ns = second / 3};
    assert_true(sl_sched_stall_is_slow(&slow, rule.floor_ns));
    slow.expect_ns = second / 2;
    assert_false(sl_sched_stall_is_slow(&slow, rule.floor_ns));
    slow.expect_ns = 0;
    slow.wait = SL_WAIT_GROUP;
    assert_false(sl_sched_stall_is_slow(&slow, rule.floor_ns));
    sl_arena_free(&t.arena);
}

/* Waiting workers are reported only for a lasting cycle. */
static void test_circle(void **state) {
    (void)state;
    struct table t;
    int who = -1, chain[WORKERS];
    open_table(&t);
    for (int w = 0; w < WORKERS; w++)
        wait_message(&t, w, w % 2 == 0 && w + 1 < WORKERS);
    assert_int_equal(sl_sched_stall_judge(t.plan, t.all, &rule, &who), SL_MOVES);
    for (int w = 0; w < WORKERS; w++)
        t.all[w].still_ns = (60 + w) * second;
    assert_int_equal(sl_sched_stall_judge(t.plan, t.all, &rule, &who), SL_CIRCLE);
    assert_int_equal(who, WORKERS - 1);
    assert_true(sl_sched_waits_chain(t.plan, t.all, who, chain) >=
                1);                  /* ends, although it is a cycle */
    t.all[4].still_ns = 59 * second; /* one has moved */
    assert_int_equal(sl_sched_stall_judge(t.plan, t.all, &rule, &who), SL_MOVES);
    for (int w = 0; w < WORKERS; w++) /* nobody has anything to do */
        t.all[w] = (struct sl_work){.known = 1, .still_ns = 1000 * second};
    assert_int_equal(sl_sched_stall_judge(t.plan, t.all, &rule, &who), SL_MOVES);
    sl_arena_free(&t.arena);
}

/* A group waits for its missing member. */
static void test_group(void **state) {
    (void)state;
    struct table t;
    struct sl_text text = {0};
    int chain[WORKERS];
    open_table(&t);
    for (int w = 0; w < WORKERS; w++) {
        t.all[w].kind = SL_STEP;
        t.all[w].wait = w == 4 ? SL_WAIT_NONE : SL_WAIT_GROUP;
        t.all[w].of = SL_WAIT_ALL;
    }
    assert_int_equal(sl_sched_waits_next(t.plan, t.all, 1), 4);
    wait_message(&t, 4, true);
    t.all[5].wait = SL_WAIT_NONE;
    assert_int_equal(sl_sched_waits_chain(t.plan, t.all, 5, chain), 3);
    sl_sched_work_put(&text, t.plan, t.all, chain[0]);
    assert_string_equal(text.at, "STEP of stage s0, waits for worker 4 at the step of all");
    sl_text_free(&text);
    text = (struct sl_text){0};
    sl_sched_work_put(&text, t.plan, t.all, 4);
    assert_non_null(strstr(text.at, "waits for the gradient of stage s5, micro-batch 5, from "
                                    "worker 5"));
    sl_text_free(&text);
    sl_arena_free(&t.arena);
}

/* Values from other ranks are checked before use. */
static void test_hostile(void **state) {
    (void)state;
    struct table t;
    int refused = 0, taken = 0;
    open_table(&t);
    srandom(7);
    for (int i = 0; i < 20000; i++) {
        int32_t *words[] = {&t.all[3].kind, &t.all[3].stage, &t.all[3].wait, &t.all[3].of,
                            &t.all[3].peer};
        struct sl_work old = t.all[3];
        for (int k = 0; k < SL_COUNT(words); k++)
            if (random() % 2)
                *words[k] = (int32_t)(random() % 2 ? random() % 12 - 2 : random());
        if (!sl_sched_work_is_valid(t.plan, &t.all[3])) {
            refused++;
            t.all[3] = old;
            continue;
        }
        struct sl_text text = {0};
        int chain[WORKERS], who;
        sl_sched_work_put(&text, t.plan, t.all, 3);
        for (int w = 0; w < WORKERS; w++)
            assert_true(sl_sched_waits_chain(t.plan, t.all, w, chain) <= WORKERS);
        assert_true(sl_sched_stall_judge(t.plan, t.all, &rule, &who) != SL_CIRCLE);
        sl_text_free(&text);
        taken++;
    }
    assert_true(refused > 1000 && taken > 1000);
    printf("count: %d made-up notes refused, %d taken\n", refused, taken);
    sl_arena_free(&t.arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chain), cmocka_unit_test(test_limits),  cmocka_unit_test(test_circle),
        cmocka_unit_test(test_group), cmocka_unit_test(test_hostile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
