/* The searches against brute force on random graphs: the bottleneck, and the simulated step. */
#include "base/vec.h"
#include "search/bound.h"
#include "search/cuts.h"
#include "search/search.h"
#include "support/problem_cases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

enum { ALL = 1 << 30 }; /* effort: no limit on nodes */

static const char *const schedules[] = {"1f1b", "gpipe", "2bw", "zb-graph"};

static void bottleneck(void **state) {
    (void)state;
    int64_t count = test_count(5000), fitting = 0, wide = 0;
    for (int64_t i = 0; i < count; i++) {
        struct sl_arena arena = {0};
        struct dice dice = {7, (uint64_t)i, 0};
        struct problem_size max = {i % 8 ? 7 : 10, i % 8 ? 4 : 6, .mixed = false};
        const struct sl_problem *p = problem_draw(&arena, &dice, max);
        const char *schedule = schedules[i % SL_COUNT(schedules)];
        struct sl_search_downsets downsets;
        struct sl_cut_found found;
        struct sl_cut_rules rules = {.recompute = SL_RECOMPUTE_MAY,
                                     .schedule = schedule,
                                     .devices = p->machine->device_count};
        sl_search_downsets_build(&arena, p, 1 << 16, &downsets);
        sl_search_cuts_search(&arena, p, &downsets, &rules, 0, &found);
        int64_t want = problem_brute(p, schedule, 0), got = found.at.count ? found.best : -1;
        if (want != got)
            fail_msg("case %lld (%d units, %d devices, %s): brute %lld, search %lld", (long long)i,
                     p->unit_count, p->machine->device_count, schedule, (long long)want,
                     (long long)got);
        if (found.at.count) { /* the plan has the reported bottleneck */
            struct sl_candidate_detail detail;
            sl_search_candidate_expand(&arena, p, &found.at.at[0], &detail);
            assert_int_equal(sl_search_candidate_bottleneck(&detail, NULL), got);
            wide += detail.device_count > detail.c.stage_count;
        }
        fitting += got >= 0;
        SL_VEC_FREE(&found.at);
        sl_arena_free(&arena);
    }
    printf("count: %lld bottlenecks equal to brute force, %lld fit, %lld with replicas\n",
           (long long)count, (long long)fitting, (long long)wide);
    assert_true(fitting > count / 2 && fitting < count && wide > 0);
}

static struct sl_search_result plan(struct sl_arena *arena, const struct sl_problem *p,
                                    const char *name, const char *schedule, int effort) {
    const struct sl_planner *planner;
    struct sl_search_result result = {0};
    struct sl_search_query query = {
        .problem = p, .schedule = schedule, .threads = 1, .effort = effort};
    assert_int_equal(sl_planners_find(name, &planner), SL_OK);
    assert_int_equal(planner->run(arena, &query, &result), SL_OK);
    return result;
}

/* False: the planner refuses the schedule. */
static bool plan_any(struct sl_arena *arena, const struct sl_problem *p, const char *name,
                     const char *schedule, struct sl_search_result *out) {
    const struct sl_planner *planner;
    struct sl_search_query query = {.problem = p, .schedule = schedule, .threads = 1};
    *out = (struct sl_search_result){0};
    assert_int_equal(sl_planners_find(name, &planner), SL_OK);
    return planner->run(arena, &query, out) == SL_OK;
}

static void compare(const struct sl_problem *p, const char *schedule, int64_t number,
                    const struct sl_search_result *brute, const struct sl_search_result *ours) {
    const char *schedule_list[2] = {schedule, NULL};
    /* sluice also tries groups (k of kFkB above 1) */
    bool better = ours->best.c.group_of && ours->best.score.step_ns < brute->best.score.step_ns;
    if (brute->found != ours->found ||
        (brute->found && brute->best.score.step_ns != ours->best.score.step_ns && !better))
        fail_msg("case %lld (%d units, %d devices, %s): brute %lld, sluice %lld", (long long)number,
                 p->unit_count, p->machine->device_count, schedule,
                 brute->found ? (long long)brute->best.score.step_ns : -1,
                 ours->found ? (long long)ours->best.score.step_ns : -1);
    if (!ours->found)
        return;
    assert_true(ours->best.bound <= ours->best.score.step_ns);
    int64_t bound = sl_search_space_bound(p, schedule_list, strcmp(schedule, "graph") == 0);
    if (bound > ours->best.score.step_ns)
        fail_msg("case %lld (%s): bound %lld, step %lld", (long long)number, schedule,
                 (long long)bound, (long long)ours->best.score.step_ns);
}

static void simulated(void **state) {
    (void)state;
    int64_t count = test_count(5000), fitting = 0, proven = 0, rows = 0;
    for (int64_t i = 0; i < count; i++) {
        struct sl_arena arena = {0};
        struct dice dice = {11, (uint64_t)i, 0};
        struct problem_size max = {i % 8 ? 5 : 7, i % 8 ? 3 : 4, .tied = i % 5 == 0};
        const struct sl_problem *p = problem_draw(&arena, &dice, max);
        const char *schedule = schedules[i % SL_COUNT(schedules)];
        struct sl_search_result brute = plan(&arena, p, "brute", schedule, 0);
        struct sl_search_result ours = plan(&arena, p, "sluice", schedule, ALL);
        compare(p, schedule, i, &brute, &ours);
        fitting += ours.found;
        proven += ours.proven;
        rows += brute.found && brute.best.c.sequential;
        sl_arena_free(&arena);
    }
    printf("count: %lld simulated steps equal to brute force, %lld fit, %lld proven, %lld with "
           "stages in a row that need not be\n",
           (long long)count, (long long)fitting, (long long)proven, (long long)rows);
    assert_true(fitting > count / 2 && proven == fitting);
}

/* The same on machines of different devices. */
static void placed(void **state) {
    (void)state;
    int64_t count = test_count(2000), fitting = 0, moved = 0;
    for (int64_t i = 0; i < count; i++) {
        struct sl_arena arena = {0};
        struct dice dice = {17, (uint64_t)i, 0};
        struct problem_size max = {i % 8 ? 4 : 5, i % 8 ? 3 : 4, .mixed = true};
        const struct sl_problem *p = problem_draw(&arena, &dice, max);
        const char *schedule = schedules[i % SL_COUNT(schedules)];
        struct sl_search_result brute = plan(&arena, p, "brute", schedule, 0);
        struct sl_search_result ours = plan(&arena, p, "sluice", schedule, ALL);
        compare(p, schedule, i, &brute, &ours);
        fitting += ours.found;
        for (int d = 0; ours.found && ours.best.c.order && d < ours.best.c.stage_count; d++)
            if (ours.best.c.order[d] != d) {
                moved++;
                break;
            }
        sl_arena_free(&arena);
    }
    printf(
        "count: %lld simulated steps on mixed machines equal to brute force over all placements, "
        "%lld fit, %lld not on the first devices\n",
        (long long)count, (long long)fitting, (long long)moved);
    assert_true(fitting > count / 2 && moved > count / 20);
}

/* The same with a micro-batch size per stage. */
static void sized(void **state) {
    (void)state;
    int64_t count = test_count(2000), fitting = 0, differ = 0;
    for (int64_t i = 0; i < count; i++) {
        struct sl_arena arena = {0};
        struct dice dice = {29, (uint64_t)i, 0};
        struct problem_size max = {5, 3, .sized = true};
        const struct sl_problem *p = problem_draw(&arena, &dice, max);
        struct sl_search_result brute = plan(&arena, p, "brute", "graph", 0);
        struct sl_search_result ours = plan(&arena, p, "sluice", "graph", ALL);
        compare(p, "graph", i, &brute, &ours);
        fitting += ours.found;
        for (int s = 1; ours.found && s < ours.best.c.stage_count; s++)
            if (sl_search_candidate_size(&ours.best.c, s) !=
                sl_search_candidate_size(&ours.best.c, 0)) {
                differ++;
                break;
            }
        sl_arena_free(&arena);
    }
    printf("count: %lld simulated steps with a micro-batch size per stage equal to brute force, "
           "%lld fit, %lld with sizes that differ\n",
           (long long)count, (long long)fitting, (long long)differ);
    assert_true(fitting > count / 2 && differ > 0);
}

/* The text of a schedule; `plan` may come from a file. */
static struct sl_text sched_text(struct sl_arena *arena, const struct sl_plan *plan,
                                 const int64_t (*dur)[SL_KIND_COUNT]) {
    const struct sl_sched *sched;
    struct sl_text text = {0};
    struct sl_schedule_opts opts = {
        .schedule = plan->schedule, .batch = plan->batch, .iters = 1, .dur_ns = dur};
    assert_int_equal(sl_schedules_build(arena, plan, &opts, &sched), SL_OK);
    sl_sched_write(sched, &text);
    return text;
}

/* A plan read from a file gives the schedule that the planner simulated. */
static void files_run_as_simulated(void **state) {
    (void)state;
    int64_t count = test_count(2000), fitting = 0, timed = 0;
    for (int64_t i = 0; i < count; i++) {
        struct sl_arena arena = {0};
        struct dice dice = {31, (uint64_t)i, 0};
        const struct sl_problem *p =
            problem_draw(&arena, &dice, (struct problem_size){.units = 7, .devices = 4});
        struct sl_search_result ours =
            plan(&arena, p, "sluice", schedules[i % SL_COUNT(schedules)], 0);
        struct sl_text file = {0};
        struct sl_candidate_detail detail;
        const struct sl_plan *made, *reread;
        if (ours.found) {
            sl_search_candidate_expand(&arena, p, &ours.best.c, &detail);
            assert_int_equal(sl_search_candidate_plan(&arena, &detail, NULL, &made), SL_OK);
            int64_t(*dur)[SL_KIND_COUNT] =
                sl_arena_alloc(&arena, (int64_t)sizeof *dur * made->stage_count);
            sl_search_candidate_times(&detail, dur);
            sl_plan_write(made, &file);
            assert_int_equal(sl_plan_read(&arena, "x.plan", file.at, file.length, &reread), SL_OK);
            struct sl_text want = sched_text(&arena, made, (const int64_t(*)[SL_KIND_COUNT])dur);
            struct sl_text got = sched_text(&arena, reread, NULL);
            assert_string_equal(got.at, want.at);
            for (int s = 0; s < made->stage_count; s++)
                for (int k = 0; k < SL_KIND_COUNT; k++)
                    dur[s][k] = k == SL_BACKWARD ? 2 : k < SL_SEND;
            struct sl_text other = sched_text(&arena, made, (const int64_t(*)[SL_KIND_COUNT])dur);
            const char *a = strstr(got.at, "worker 0"), *b = strstr(other.at, "worker 0");
            timed += strcmp(a, b) != 0;
            sl_text_free(&want);
            sl_text_free(&got);
            sl_text_free(&other);
            fitting++;
        }
        sl_text_free(&file);
        sl_arena_free(&arena);
    }
    printf(
        "count: %lld of %lld plans make the simulated schedule from their file; %lld have another "
        "order without times\n",
        (long long)fitting, (long long)count, (long long)timed);
    assert_true(fitting > count / 2 && timed > 0);
}

/* sluice is never worse than another planner. */
static void never_loses(void **state) {
    (void)state;
    int64_t count = test_count(2000);
    for (int64_t i = 0; i < count; i++) {
        struct sl_arena arena = {0};
        struct dice dice = {13, (uint64_t)i, 0};
        static const char *const asked[] = {"1f1b",  "gpipe", "2bw", "zb-graph",
                                            "graph", "kfkb",  NULL};
        struct problem_size max = {i % 2 ? 9 : 12, i % 2 ? 4 : 6, .mixed = i % 2,
                                   .sized = i % 3 == 0};
        const struct sl_problem *p = problem_draw(&arena, &dice, max);
        const char *schedule = asked[i % SL_COUNT(asked)];
        struct sl_search_result ours = plan(&arena, p, "sluice", schedule, 0);
        for (int k = 0; sl_planners_rows[k]; k++) {
            if (strcmp(sl_planners_rows[k]->name, "brute") == 0)
                continue;
            struct sl_search_result other;
            if (!plan_any(&arena, p, sl_planners_rows[k]->name, schedule, &other))
                continue;
            if (other.found && (!ours.found || ours.best.score.step_ns > other.best.score.step_ns))
                fail_msg("case %lld: %s finds %lld, sluice %lld", (long long)i,
                         sl_planners_rows[k]->name, (long long)other.best.score.step_ns,
                         (long long)ours.best.score.step_ns);
        }
        sl_arena_free(&arena);
    }
    printf("count: %lld problems on which no planner beats sluice\n", (long long)count);
}

/* ns of the step that `sluice plan` prints; 0: no plan. */
static int64_t planned_ns(struct sl_arena *arena, const struct sl_problem *p,
                          const struct sl_planner *planner, const char *schedule) {
    struct sl_search_spec spec = {.planner = planner,
                                  .query = {.problem = p, .schedule = schedule, .threads = 1}};
    struct sl_search found;
    return sl_search_run(arena, &spec, &found) == SL_OK ? found.result.best.score.step_ns : 0;
}

/* Nor when planners search again because candidates did not fit. */
static void never_loses_in_rounds(void **state) {
    (void)state;
    int64_t count = test_count(400), fitting = 0;
    const struct sl_planner *sluice;
    assert_int_equal(sl_planners_find("sluice", &sluice), SL_OK);
    for (int64_t i = 0; i < count; i++) {
        struct sl_arena arena = {0};
        struct dice dice = {61, (uint64_t)i, 0};
        struct problem_size max = {9, 4, .sized = i % 3 == 0};
        const struct sl_problem *p = problem_draw(&arena, &dice, max);
        const char *schedule = schedules[i % SL_COUNT(schedules)];
        int64_t ours = planned_ns(&arena, p, sluice, schedule);
        fitting += ours > 0;
        for (int k = 0; sl_planners_rows[k]; k++) {
            const struct sl_planner *row = sl_planners_rows[k];
            int64_t other = row->oracle ? 0 : planned_ns(&arena, p, row, schedule);
            if (other > 0 && (!ours || ours > other))
                fail_msg("case %lld, %s: %s plans %lld, sluice %lld", (long long)i, schedule,
                         row->name, (long long)other, (long long)ours);
        }
        sl_arena_free(&arena);
    }
    printf("count: %lld problems planned in rounds on which no planner beats sluice\n",
           (long long)fitting);
    assert_true(fitting > count / 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(bottleneck),
                                       cmocka_unit_test(simulated),
                                       cmocka_unit_test(placed),
                                       cmocka_unit_test(sized),
                                       cmocka_unit_test(files_run_as_simulated),
                                       cmocka_unit_test(never_loses),
                                       cmocka_unit_test(never_loses_in_rounds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
