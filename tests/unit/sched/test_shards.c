/* Schedules of expanded plans: expansion, and the proof that shards meet. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sched/shards.h"
#include "schedules/schedule.h"
#include "support/sched_cases.h"

#include <stdio.h>
#include <string.h>

/* A chain of `stages` stages in `parts` shards, with a tie and collectives. */
static const struct sl_plan *plan_of(struct sl_arena *arena, int stages, int parts, int width,
                                     int workers) {
    struct sl_text text = {0};
    const struct sl_plan *plan;
    sl_text_printf(&text, "sluice-plan 1\nworkers %d\n", workers * parts);
    for (int s = 0; s < stages; s++)
        for (int k = 0; k < parts; k++) {
            sl_text_printf(&text, "stage s%d.%d width %d micro 1 part %d of %d on", s, k, width, k,
                           parts);
            for (int r = 0; r < width; r++)
                sl_text_printf(&text, " %d", (s * width + r) % workers * parts + k);
            sl_text_printf(&text,
                           "\nbytes s%d.%d params 9 grads 7 state 5 stash 3 saved 1 kept 2 work 1\n"
                           "collective s%d.%d f sum 4096 2\ncollective s%d.%d b sum 4096 2\n",
                           s, k, s, k, s, k);
        }
    for (int s = 1; s < stages; s++)
        for (int k = 0; k < parts; k++)
            sl_text_printf(&text, "edge s%d.%d s%d.%d 11\n", s - 1, k, s, k);
    for (int k = 0; stages > 1 && k < parts; k++)
        sl_text_printf(&text, "tie wte.%d 5 s0.%d s%d.%d\n", k, k, stages - 1, k);
    if (sl_plan_read(arena, "x.plan", text.at, text.length, &plan) != SL_OK)
        fail_msg("%s", sl_err_message());
    sl_text_free(&text);
    return plan;
}

static struct sl_sched *build(struct sl_arena *arena, const struct sl_plan *plan,
                              const char *schedule, int micros, int iters) {
    const struct sl_sched *sched;
    struct sl_schedule_opts opts = {.schedule = schedule, .micros = micros, .iters = iters};
    if (sl_schedules_build(arena, plan, &opts, &sched) != SL_OK)
        fail_msg("%s: %s", schedule, sl_err_message());
    return sched_copy(arena, sched);
}

/* Every schedule that trains, as far as it takes the chain. */
static void test_schedules(void **state) {
    static const char *const names[] = {"1f1b",  "gpipe", "zb-h1", "zb-graph", "2bw",
                                        "stash", "async", "paci",  "vsync",    "kfkb"};
    (void)state;
    for (int i = 0; i < SL_COUNT(names); i++)
        for (int parts = 2; parts <= 4; parts++)
            for (int width = 1; width <= 2; width++) {
                struct sl_arena arena = {0};
                struct sl_text text = {0}, again = {0};
                struct sl_sched *read;
                const struct sl_plan *plan = plan_of(&arena, 3, parts, width, 3 * width);
                struct sl_sched *sched = build(&arena, plan, names[i], 4, 12);
                assert_int_equal(sl_sched_verify(sched), SL_OK);
                sl_sched_write(sched, &text);
                if (sl_sched_read(&arena, "x.sched", text.at, text.length, &read) != SL_OK)
                    fail_msg("%s", sl_err_message());
                sl_sched_write(read, &again);
                assert_string_equal(text.at, again.at);
                assert_int_equal(sl_sched_verify(read), SL_OK);
                sl_text_free(&text);
                sl_text_free(&again);
                sl_arena_free(&arena);
            }
}

/* Passes of one shard dropped, repeated, swapped or given to another micro-batch. The proof of
 * meeting must notice on its own, whatever else the verifier would say. */
static void test_sabotage(void **state) {
    enum { DROP, REPEAT, SWAP, OTHER, KINDS };
    int caught = 0;
    (void)state;
    for (int kind = 0; kind < KINDS; kind++)
        for (int at = 0; at < 12; at++) {
            struct sl_arena arena = {0};
            const struct sl_plan *plan = plan_of(&arena, 2, 2, 1, 2);
            struct sl_sched *sched = build(&arena, plan, "1f1b", 4, 1);
            struct sl_actions *list = &sched->lists[SL_PERIOD][1]; /* shard 1 of the first stage */
            if (!list->count)
                list = &sched->lists[SL_PROLOGUE][1];
            int64_t i = 0, next;
            for (int seen = 0; i < list->count; i++)
                if (list->at[i].kind <= SL_BACKWARD && seen++ == at)
                    break;
            for (next = i + 1; next < list->count && list->at[next].kind > SL_BACKWARD;)
                next++;
            if (i < list->count && next < list->count) {
                struct sl_action was = list->at[i];
                if (kind == DROP)
                    list->at[i].kind = SL_PREDICT;
                else if (kind == REPEAT)
                    list->at[next] = list->at[i];
                else if (kind == OTHER)
                    list->at[i].micro++;
                else {
                    list->at[i] = list->at[next];
                    list->at[next] = was;
                }
                assert_int_equal(sl_sched_verify_shards(sched), SL_ERR_REFUSED);
                assert_non_null(strstr(sl_err_message(), "shards of one stage and do not meet"));
                caught++;
            }
            sl_arena_free(&arena);
        }
    assert_true(caught >= 20);
}

static void refuse_plan(const char *from, const char *to, const char *message) {
    struct sl_arena arena = {0};
    struct sl_text text = {0}, changed = {0};
    const struct sl_plan *plan = plan_of(&arena, 2, 2, 1, 2);
    sl_plan_write(plan, &text);
    const char *at = strstr(text.at, from);
    assert_non_null(at);
    sl_text_put_bytes(&changed, text.at, (size_t)(at - text.at));
    sl_text_put(&changed, to);
    sl_text_put(&changed, at + strlen(from));
    assert_int_equal(sl_plan_read(&arena, "x.plan", changed.at, changed.length, &plan),
                     SL_ERR_INPUT);
    if (!strstr(sl_err_message(), message))
        fail_msg("'%s' is not in '%s'", message, sl_err_message());
    sl_text_free(&text);
    sl_text_free(&changed);
    sl_arena_free(&arena);
}

/* Collectives dropped, repeated, reordered, or with the shards of another stage. */
static void test_plans(void **state) {
    const char *other = "do not meet in the same collectives";
    (void)state;
    refuse_plan("collective s0.1 f sum 4096 2\n", "", other);
    refuse_plan("collective s0.1 f sum 4096 2\n", "collective s0.1 f sum 4096 3\n", other);
    refuse_plan("collective s0.1 f sum 4096 2\n",
                "collective s0.1 f sum 4096 2\ncollective s0.1 f sum 4096\n", other);
    refuse_plan("collective s0.1 f sum 4096 2\n", "collective s0.1 f sum 4100 2\n", other);
    refuse_plan("collective s0.1 f sum 4096 2\n", "collective s0.1 f gather 4096 2\n", other);
    refuse_plan("part 1 of 2 on 1", "part 0 of 2 on 1", "is not part 1 of them");
    refuse_plan("part 1 of 2 on 1", "on 1", "is not part 1 of them");
    refuse_plan("part 1 of 2 on 1", "part 1 of 2 on 0", "on one worker, 0");
    refuse_plan("part 1 of 2 on 1", "part 1 of 3 on 1", "is not part 1 of them");
    refuse_plan("part 1 of 2 on 3", "part 3 of 4 on 3", "is not part");
}

/* Workers that interleave their stages differently would wait for each other. */
static void test_interleaving(void **state) {
    struct sl_arena arena = {0};
    const struct sl_plan *plan = plan_of(&arena, 4, 2, 1, 2);
    struct sl_sched *sched = build(&arena, plan, "interleaved", 4, 1);
    struct sl_actions *list = NULL;
    (void)state;
    for (int seg = 0; seg < SL_SEGMENT_COUNT; seg++)
        if (sched->lists[seg][1].count)
            list = &sched->lists[seg][1];
    assert_non_null(list);
    for (int64_t i = 0; i + 1 < list->count; i++) {
        struct sl_action *a = &list->at[i], *b = &list->at[i + 1];
        if (a->kind > SL_BACKWARD || b->kind > SL_BACKWARD || a->stage == b->stage)
            continue;
        struct sl_action was = *a;
        *a = *b;
        *b = was;
        assert_int_equal(sl_sched_verify_shards(sched), SL_ERR_REFUSED);
        assert_non_null(strstr(sl_err_message(), "in different orders"));
        break;
    }
    sl_arena_free(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_schedules),
        cmocka_unit_test(test_sabotage),
        cmocka_unit_test(test_plans),
        cmocka_unit_test(test_interleaving),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
