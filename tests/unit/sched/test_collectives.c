/* Sabotage of collectives, over random plans with t shards, d replicas, zero1 and ties. One collective is
 * dropped, repeated, exchanged with another one, or sent to the wrong group: the collectives of the
 * shards in the plan (the checker refuses), and REDUCE and STEP of the schedule (the verifier does). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/vec.h"
#include "sched/deps.h"
#include "support/sched_cases.h"

#include <stdio.h>
#include <string.h>

enum { SEED = 270027 };
enum how { DROP, REPEAT, EXCHANGE, MISSEND, HOWS };

struct trial {
    struct sl_arena arena;
    struct dice dice;
    const struct sl_plan *plan; /* expanded */
    struct sl_sched *sched;
    int parts;
};

static int below(struct trial *t, int64_t count) { return (int)dice_below(&t->dice, count); }

/* A chain of stages on workers of their own, or two on each. */
static const struct sl_plan *draw_plan(struct trial *t, const char *schedule) {
    struct sl_text text = {0};
    int stages = 2 + below(t, 3), width = 1 + below(t, 3), parts = 1 + below(t, 4);
    bool zero1 = below(t, 2), tie = width == 1 && below(t, 2), v = strcmp(schedule, "zb-v") == 0;
    int columns = v ? stages / 2 : stages;
    const struct sl_plan *plan;
    stages = v ? 2 * columns : stages;
    t->parts = parts;
    sl_text_printf(&text, "sluice-plan 1\nworkers %d\n", columns * width * parts);
    for (int s = 0; s < stages; s++)
        for (int k = 0; k < parts; k++) {
            int column = s < columns ? s : 2 * columns - 1 - s;
            sl_text_printf(&text, "stage s%d.%d width %d micro 1", s, k, width);
            if (parts > 1)
                sl_text_printf(&text, " part %d of %d", k, parts);
            sl_text_put(&text, zero1 ? " zero1 on" : " on");
            for (int r = 0; r < width; r++)
                sl_text_printf(&text, " %d", (column * width + r) * parts + k);
            sl_text_printf(
                &text, "\nbytes s%d.%d params 9 grads 7 state 5 stash 3 saved 1 kept 2 work 1\n", s,
                k);
            for (int pass = 0; parts > 1 && pass < 2; pass++)
                sl_text_printf(&text,
                               "collective s%d.%d %c sum 4096 2\ncollective s%d.%d %c sum 512\n", s,
                               k, "fb"[pass], s, k, "fb"[pass]);
        }
    for (int s = 1; s < stages; s++)
        for (int k = 0; k < parts; k++)
            sl_text_printf(&text, "edge s%d.%d s%d.%d 11\n", s - 1, k, s, k);
    for (int k = 0; tie && k < parts; k++)
        sl_text_printf(&text, "tie w.%d 5 s0.%d s%d.%d\n", k, k, stages - 1, k);
    if (sl_plan_read(&t->arena, "x.plan", text.at, text.length, &plan) != SL_OK)
        fail_msg("%s", sl_err_message());
    sl_text_free(&text);
    return plan;
}

static void open_trial(struct trial *t, int64_t index) {
    static const char *const schedules[] = {"1f1b",  "gpipe", "zb-h1", "kfkb", "zb-v",
                                            "stash", "async", "vsync", "2bw"};
    const struct sl_sched *sched;
    *t = (struct trial){.dice = {.seed = SEED, .stream = (uint64_t)index}};
    struct sl_schedule_opts opts = {
        .schedule = schedules[below(t, SL_COUNT(schedules))], .micros = 6, .iters = 4};
    t->plan = draw_plan(t, opts.schedule);
    if (sl_schedules_build(&t->arena, t->plan, &opts, &sched) != SL_OK)
        fail_msg("%s: %s", opts.schedule, sl_err_message());
    t->sched = sched_copy(&t->arena, sched);
}

/* ---- the schedule ---- */

static bool is_meeting(const struct trial *t, const struct sl_action *a) {
    const struct sl_stage *stage = &t->plan->stages[a->stage];
    return a->kind == SL_REDUCE || (a->kind == SL_STEP && stage->zero1 && stage->width > 1);
}

/* Is a worker in this meeting? */
static bool is_member(const struct trial *t, const struct sl_action *a, int worker) {
    const struct sl_plan *plan = t->plan;
    for (int i = 0; i < plan->worker_seat_count[worker]; i++) {
        int stage = plan->seats[plan->worker_seats[worker][i]].stage;
        if (a->kind == SL_STEP ? stage == a->stage : sl_sched_in_group(plan, a->slot, stage))
            return true;
    }
    return false;
}

/* The order of two meetings matters if another worker is in both. */
static bool share_worker(const struct trial *t, const struct sl_action *a,
                         const struct sl_action *b, int worker) {
    for (int w = 0; w < t->plan->worker_count; w++)
        if (w != worker && is_member(t, a, w) && is_member(t, b, w))
            return true;
    return false;
}

/* The next meeting in the list after `at`, or -1. */
static int64_t next_meeting(const struct trial *t, const struct sl_actions *list, int64_t at) {
    while (++at < list->count)
        if (is_meeting(t, &list->at[at]))
            return at;
    return -1;
}

/* A meeting of the worker; -1: it has none. */
static int64_t draw_meeting(struct trial *t, int worker, int *segment) {
    int64_t found = -1, seen = 0;
    for (int seg = 0; seg < SL_SEGMENT_COUNT; seg++) {
        const struct sl_actions *list = &t->sched->lists[seg][worker];
        for (int64_t at = -1; (at = next_meeting(t, list, at)) >= 0;)
            if (below(t, ++seen) == 0) {
                found = at;
                *segment = seg;
            }
    }
    return found;
}

static void insert(struct trial *t, struct sl_actions *list, int64_t at, struct sl_action a) {
    struct sl_action *actions = SL_NEW(&t->arena, struct sl_action, list->count + 1);
    memcpy(actions, list->at, sizeof a * (size_t)at);
    actions[at] = a;
    memcpy(actions + at + 1, list->at + at, sizeof a * (size_t)(list->count - at));
    list->at = actions;
    list->count++;
}

static void erase(struct sl_actions *list, int64_t at) {
    memmove(&list->at[at], &list->at[at + 1], sizeof *list->at * (size_t)(list->count - at - 1));
    list->count--;
}

/* false: this action cannot be harmed so. */
static bool harm(struct trial *t, enum how how, int segment, int worker, int64_t at) {
    struct sl_actions *list = &t->sched->lists[segment][worker];
    struct sl_action a = list->at[at];
    int groups = sl_sched_group_count(t->plan);
    int64_t next = next_meeting(t, list, at);
    switch (how) {
    case DROP: erase(list, at); return true;
    case REPEAT: insert(t, list, at + 1, a); return true;
    case EXCHANGE:
        if (next < 0 || !share_worker(t, &a, &list->at[next], worker))
            return false;
        list->at[at] = list->at[next];
        list->at[next] = a;
        return true;
    default:
        if (a.kind == SL_STEP)
            list->at[at].stage = (uint16_t)((a.stage + 1) % t->plan->stage_count);
        else
            list->at[at].slot = (a.slot + 1 + below(t, groups - 1)) % groups;
        return a.kind == SL_STEP || groups > 1;
    }
}

static void test_schedules(void **state) {
    int64_t count = test_count(20000), caught[HOWS] = {0};
    (void)state;
    for (int64_t i = 0; i < count; i++) {
        struct trial t;
        open_trial(&t, i);
        enum how how = (enum how)(i % HOWS);
        int worker = below(&t, t.plan->worker_count), segment = 0;
        int64_t at = draw_meeting(&t, worker, &segment);
        if (at >= 0 && harm(&t, how, segment, worker, at)) {
            if (sl_sched_verify(t.sched) == SL_OK)
                fail_msg("trial %lld: nobody noticed harm %d to action %lld of worker %d",
                         (long long)i, how, (long long)at, worker);
            caught[how]++;
        }
        sl_arena_free(&t.arena);
    }
    printf("count: %lld dropped, %lld repeated, %lld exchanged, %lld missent collectives of "
           "schedules caught\n",
           (long long)caught[DROP], (long long)caught[REPEAT], (long long)caught[EXCHANGE],
           (long long)caught[MISSEND]);
    for (int how = 0; how < HOWS; how++)
        assert_true(caught[how] > 0);
}

/* ---- the plan ---- */

/* Another list for one part; false: the list would be the same. */
static bool harm_list(struct trial *t, enum how how, struct sl_stage *stage) {
    int n = stage->collective_count, at = below(t, n);
    struct sl_collective *list = SL_NEW(&t->arena, struct sl_collective, n + 1), was;
    memcpy(list, stage->collectives, sizeof *list * (size_t)n);
    stage->collectives = list;
    switch (how) {
    case DROP:
        memmove(&list[at], &list[at + 1], sizeof *list * (size_t)(n - at - 1));
        stage->collective_count--;
        return true;
    case REPEAT: list[at].count++; return true;
    case EXCHANGE:
        at = at / 2 * 2; /* of one pass */
        was = list[at];
        list[at] = list[at + 1];
        list[at + 1] = was;
        return true;
    default: /* into the group of another shard */
        stage->part = (stage->part + 1 + below(t, t->parts - 1)) % t->parts;
        return true;
    }
}

static void test_plans(void **state) {
    int64_t count = test_count(20000), caught = 0;
    (void)state;
    for (int64_t i = 0; i < count; i++) {
        struct trial t;
        const struct sl_plan *plan;
        open_trial(&t, i);
        struct sl_plan draft = *t.plan;
        struct sl_stage *stages =
            sl_vec_freeze(&t.arena, draft.stages, draft.stage_count, sizeof *stages);
        draft.stages = stages;
        int s = below(&t, draft.stage_count);
        if (t.parts > 1 && harm_list(&t, (enum how)(i % HOWS), &stages[s])) {
            if (sl_plan_build(&t.arena, &draft, &plan) != SL_ERR_INPUT)
                fail_msg("trial %lld: the checker took stage %s", (long long)i, stages[s].name);
            caught++;
        }
        sl_arena_free(&t.arena);
    }
    printf("count: %lld harmed collectives of plans caught\n", (long long)caught);
    assert_true(caught > count / 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_schedules),
        cmocka_unit_test(test_plans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
