/* Messages of rejections, text round trip, and schedules of passes only. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lower/lower.h"
#include "schedules/schedule.h"
#include "support/sched_cases.h"

#include <string.h>

static struct sl_sched *build(struct sl_arena *arena, const char *schedule, int stages, int micros,
                              int iters) {
    const struct sl_plan *plan;
    const struct sl_sched *sched;
    struct sl_schedule_opts opts = {.schedule = schedule, .micros = micros, .iters = iters};
    assert_int_equal(sl_plan_chain(arena, stages, stages, SL_LAYOUT_LOOP, &plan), SL_OK);
    assert_int_equal(sl_schedules_build(arena, plan, &opts, &sched), SL_OK);
    return sched_copy(arena, sched);
}

static void refused(const struct sl_sched *sched, const char *message) {
    assert_int_equal(sl_sched_verify(sched), SL_ERR_REFUSED);
    if (!strstr(sl_err_message(), message))
        fail_msg("'%s' is not in '%s'", message, sl_err_message());
}

static struct sl_action *find(struct sl_actions *list, enum sl_kind kind, int nth) {
    for (int64_t i = 0; i < list->count; i++)
        if (list->at[i].kind == kind && nth-- == 0)
            return &list->at[i];
    fail_msg("no such action");
    return NULL;
}

static void swap(struct sl_action *a, struct sl_action *b) {
    struct sl_action t = *a;
    *a = *b;
    *b = t;
}

/* Two workers that both send before either has posted: the classic deadlock, as a cycle. */
static void test_cycle(void **state) {
    struct sl_arena arena = {0};
    struct sl_sched *sched = build(&arena, "1f1b", 2, 4, 1);
    (void)state;
    for (int w = 0; w < 2; w++) { /* receive just before use */
        struct sl_actions *list = &sched->lists[SL_PERIOD][w];
        for (int64_t i = list->count - 1; i >= 0; i--)
            for (int64_t j = i; list->at[j].kind == SL_RECV; j++) {
                const struct sl_action *next = &list->at[j + 1];
                if (next->kind <= SL_BACKWARD && next->micro == list->at[j].micro &&
                    (next->kind == SL_BACKWARD) == (list->at[j].flags & SL_GRAD))
                    break;
                swap(&list->at[j], &list->at[j + 1]);
            }
    }
    refused(sched, "deadlock: cycle of waits: worker 0 at SEND act s0 1 to worker 1");
    refused(sched, "worker 1 at SEND grad s1 0 to worker 0");
    sl_arena_free(&arena);
}

static void test_reasons(void **state) {
    struct sl_arena arena = {0};
    (void)state;
    struct sl_sched *sched = build(&arena, "2bw", 3, 2, 20);
    find(&sched->lists[SL_PERIOD][0], SL_FORWARD, 1)->version--;
    refused(sched, "reads version 0, rule twobw says 1");
    sched = build(&arena, "2bw", 3, 2, 20);
    find(&sched->lists[SL_PERIOD][0], SL_FORWARD, 1)->weight_slot ^= 1;
    refused(sched, "version 1 (0 ahead) expected, version 0 (0 ahead) found");
    sched = build(&arena, "1f1b", 3, 6, 1);
    find(&sched->lists[SL_PERIOD][0], SL_FORWARD, 1)->slot = 0;
    refused(sched, "stash slot 0 is overwritten while live: micro-batch 0 is in it");
    sched = build(&arena, "1f1b", 3, 6, 1);
    find(&sched->lists[SL_PERIOD][1], SL_RECV, 0)->peer = 2;
    refused(sched, "the other end is on worker 0, not on worker 2");
    sched = build(&arena, "1f1b", 3, 6, 1);
    swap(find(&sched->lists[SL_PERIOD][2], SL_BACKWARD, 0),
         find(&sched->lists[SL_PERIOD][2], SL_FORWARD, 0));
    refused(sched, "runs before its F");
    sched = build(&arena, "gpipe", 2, 3, 1);
    swap(find(&sched->lists[SL_PERIOD][1], SL_BACKWARD, 0),
         find(&sched->lists[SL_PERIOD][1], SL_BACKWARD, 1));
    refused(sched, "");
    sched = build(&arena, "zb-h1", 3, 5, 1);
    swap(find(&sched->lists[SL_PERIOD][2], SL_BACKWARD_WEIGHT, 0),
         find(&sched->lists[SL_PERIOD][2], SL_BACKWARD_WEIGHT, 1));
    refused(sched, "");
    sl_arena_free(&arena);
}

static void test_memory(void **state) {
    struct sl_arena arena = {0};
    struct sl_sched *sched = build(&arena, "1f1b", 2, 4, 1);
    (void)state;
    struct sl_plan draft = *sched->plan;
    int64_t exact[] = {sl_sched_worker_bytes(sched, 0), sl_sched_worker_bytes(sched, 1)};
    draft.memory_bytes = exact;
    assert_int_equal(sl_plan_build(&arena, &draft, &sched->plan), SL_OK);
    assert_int_equal(sl_sched_verify(sched), SL_OK);
    exact[1]--;
    assert_int_equal(sl_plan_build(&arena, &draft, &sched->plan), SL_OK);
    refused(sched, "worker 1 needs");
    /* built for that limit: worker 1 posts its receives later, with a buffer less */
    struct sl_schedule_opts opts = {.schedule = "1f1b", .micros = 4};
    const struct sl_sched *late;
    assert_int_equal(sl_schedules_build(&arena, sched->plan, &opts, &late), SL_OK);
    assert_true(sl_sched_worker_bytes(late, 1) < sl_sched_worker_bytes(sched, 1));
    assert_int_equal(sl_sched_worker_bytes(late, 0), exact[0]);
    exact[1] = sl_sched_worker_bytes(late, 1) - 1;
    assert_int_equal(sl_plan_build(&arena, &draft, &sched->plan), SL_OK);
    assert_int_equal(sl_schedules_build(&arena, sched->plan, &opts, &late), SL_ERR_REFUSED);
    sl_arena_free(&arena);
}

/* A period that does not restore its slots is refused, although two repetitions run. */
static void test_not_periodic(void **state) {
    struct sl_arena arena = {0};
    struct sl_sched *sched = build(&arena, "2bw", 2, 3, 30);
    struct sl_slot_pool *pool = &sched->pools[0][SL_POOL_STASH];
    (void)state;
    assert_int_equal(pool->count, 2);
    assert_int_equal(sl_sched_verify(sched), SL_OK);
    pool->turn = 0;
    assert_int_equal(sl_sched_verify(sched), SL_ERR_REFUSED);
    sl_arena_free(&arena);
}

static void test_text(void **state) {
    int rows;
    const struct sl_schedule *const *registry = sl_schedules_row_registry(&rows);
    (void)state;
    for (int r = 0; r < rows; r++)
        for (int i = 0; i < 20; i++) {
            struct sl_arena arena = {0};
            struct dice dice = {99, (uint64_t)r, (uint64_t)i << 20};
            struct sched_case c = sched_case_draw(&arena, &dice, registry[r], 5);
            struct sl_sched *passes, *lowered, *again;
            struct sl_text one = {0}, two = {0}, three = {0};
            if (sl_schedules_generate(&arena, c.plan, &c.opts, &passes) != SL_OK ||
                sl_lower_passes(&arena, passes, &lowered) != SL_OK)
                fail_msg("%s %d: %s", registry[r]->name, i, sl_err_message());
            sl_sched_write(lowered, &one);
            assert_int_equal(sl_sched_read(&arena, "x", one.at, one.length, &again), SL_OK);
            if (sl_sched_verify(again) != SL_OK)
                fail_msg("%s %d: %s", registry[r]->name, i, sl_err_message());
            sl_sched_write(again, &two);
            assert_string_equal(one.at, two.at);
            /* passes only: read, lowered, the same program */
            sl_sched_write(passes, &three);
            assert_int_equal(sl_sched_read(&arena, "x", three.at, three.length, &again), SL_OK);
            assert_int_equal(sl_lower_passes(&arena, again, &lowered), SL_OK);
            two.length = 0;
            sl_sched_write(lowered, &two);
            assert_string_equal(one.at, two.at);
            sl_text_free(&one);
            sl_text_free(&two);
            sl_text_free(&three);
            sl_arena_free(&arena);
        }
}

static void bad_text(const char *text, const char *message) {
    struct sl_arena arena = {0};
    struct sl_sched *sched;
    assert_int_equal(sl_sched_read(&arena, "x.sched", text, strlen(text), &sched), SL_ERR_INPUT);
    if (!strstr(sl_err_message(), message))
        fail_msg("'%s' is not in '%s'", message, sl_err_message());
    sl_arena_free(&arena);
}

#define HEAD                                                                                       \
    "sluice-sched 1\nworkers 1\nstage a width 1 micro 1 on 0\nprogram \"mine\" rule sync passes\n"

static void test_bad_text(void **state) {
    (void)state;
    bad_text("", "expected 'sluice-sched'");
    bad_text("sluice-sched 2\n", "not in 1..1");
    bad_text(HEAD "samples 0 last 1 iters 1 reps 1\n", "samples 0");
    bad_text(HEAD "samples 99999999999 last 1 iters 99 reps 1\n", "too many micro-batches");
    bad_text(HEAD "samples 1 last 1 iters 1 reps 1\nF a 0\n", "after a worker and a segment");
    bad_text(HEAD "samples 1 last 1 iters 1 reps 1\nworker 1\n", "worker 1 is not in 0..0");
    bad_text(HEAD "samples 1 last 1 iters 1 reps 1\nworker 0\nperiod\nF b 0\n",
             "x.sched:8:3: no stage is called 'b'");
    bad_text(HEAD "samples 1 last 1 iters 1 reps 1\nworker 0\nperiod\nF a 0 peer 3\n",
             "does not belong to F");
}

/* A hand-written schedule of passes: correct, incomplete, and not runnable. */
static void test_own(void **state) {
    struct sl_arena arena = {0};
    struct sl_sched *sched, *lowered;
    static const char text[] =
        "sluice-sched 1\nworkers 2\nstage a width 1 micro 1 on 0\nstage b width 1 micro 1 on 1\n"
        "edge a b 4\nprogram \"mine\" rule sync passes\nsamples 2 last 2 iters 1 reps 1\n"
        "worker 0\nperiod\nF a 0\nF a 1\nB a 0\nB a 1\n"
        "worker 1\nperiod\nF b 0\nB b 0\nF b 1\nI b 1\nW b 1\n";
    (void)state;
    assert_int_equal(sl_sched_read(&arena, "x", text, strlen(text), &sched), SL_OK);
    assert_int_equal(sl_lower_passes(&arena, sched, &lowered), SL_OK);
    assert_int_equal(sl_sched_verify(lowered), SL_OK);
    sched->lists[SL_PERIOD][1].count--; /* without W */
    assert_int_equal(sl_lower_passes(&arena, sched, &lowered), SL_ERR_REFUSED);
    assert_non_null(strstr(sl_err_message(), "micro-batch 1 never runs W"));
    sched->lists[SL_PERIOD][1].count++;
    swap(&sched->lists[SL_PERIOD][0].at[1], &sched->lists[SL_PERIOD][0].at[2]);
    swap(&sched->lists[SL_PERIOD][1].at[1], &sched->lists[SL_PERIOD][1].at[2]); /* F F B */
    assert_int_equal(sl_lower_passes(&arena, sched, &lowered), SL_ERR_REFUSED);
    assert_non_null(strstr(sl_err_message(), "deadlock: cycle of waits: worker"));
    sl_arena_free(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cycle),  cmocka_unit_test(test_reasons),
        cmocka_unit_test(test_memory), cmocka_unit_test(test_not_periodic),
        cmocka_unit_test(test_text),   cmocka_unit_test(test_bad_text),
        cmocka_unit_test(test_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
