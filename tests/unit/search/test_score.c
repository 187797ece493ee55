/* Planners simulate what a run does.
 *
 * Two stages with F 11 and B 30, and a wire of 31 ns: a micro-batch takes
 * 11 + 31 + 11 + 30 + 31 + 30 = 144 ns. With 2 in flight, the window of 1F1B, one ends every 72 ns.
 * The default slack of 2bw makes it 3 in flight: every 48 ns. If a receive started only after the
 * previous pass: every 30 + 31 = 61 ns.
 */
#include "search/bound.h"
#include "search/candidate.h"
#include "support/problem_cases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { STASH_BYTES = 300, MICROS = 8, TWO_NS = 72 * MICROS, THREE_NS = 48 * MICROS };

static const struct sl_unit units[] = {{.name = "a", .params = 40, .stash = STASH_BYTES},
                                       {.name = "b", .params = 40, .stash = STASH_BYTES}};
static const struct sl_unit_time times[] = {{11, 13, 17, 0}, {11, 13, 17, 0}};
static const struct sl_search_tensor wire = {.to = (int[]){1}, .to_count = 1, .sample_bytes = 31};

/* With a `tempo`, out->step_ns is the forecast. */
static struct sl_candidate_score score_at(const char *schedule, int64_t memory,
                                          struct sl_tempo tempo, bool recompute) {
    struct sl_arena arena = {0};
    struct sl_candidate_detail detail;
    struct sl_candidate_score out;
    struct sl_problem p = {.model = "two",
                           .precision = "none",
                           .units = units,
                           .unit_count = 2,
                           .tensors = &wire,
                           .tensor_count = 1,
                           .machine = flat_machine(&arena, 2, 1e9, 0),
                           .memory = (int64_t[]){memory, memory},
                           .batch = MICROS,
                           .sizes = (int64_t[]){1},
                           .size_count = 1,
                           .tempo = tempo,
                           .times = times};
    struct sl_candidate c = {.stage_count = 2,
                             .stage_of = (int[]){0, 1},
                             .width = (int[]){1, 1},
                             .recompute = (bool[]){recompute, recompute},
                             .schedule = schedule};
    sl_search_problem_finish(&arena, &p);
    sl_search_candidate_expand(&arena, &p, &c, &detail);
    assert_int_equal(sl_search_candidate_simulate(&detail, NULL, &out), SL_OK);
    assert_true(sl_search_candidate_bound(&detail) <= out.step_ns);
    if (tempo.passes)
        assert_int_equal(sl_search_candidate_forecast(&detail, NULL, &out.step_ns), SL_OK);
    sl_arena_free(&arena);
    return out;
}

static struct sl_candidate_score score(const char *schedule, int64_t memory) {
    return score_at(schedule, memory, (struct sl_tempo){0}, false);
}

/* The mean counts from the first step, which is late because it waits for the global step: the mean
 * of 63 is up to 1/64 too short. */
static void assert_pace(struct sl_candidate_score score, int64_t step_ns) {
    assert_in_range(score.sim_ns, step_ns - step_ns / 64 - 1, step_ns);
}

static void test_2bw_takes_slack(void **state) {
    (void)state;
    struct sl_candidate_score loose = score("2bw", 1 << 20);
    assert_true(loose.over_bytes <= 0);
    assert_pace(loose, THREE_NS);
}

/* Without memory for a third stash, the simulation has no slack, like the run. */
static void test_2bw_without_memory(void **state) {
    (void)state;
    int64_t enough = score("2bw", 1 << 20).peak_bytes;
    assert_pace(score("2bw", enough), THREE_NS);
    struct sl_candidate_score tight = score("2bw", enough - STASH_BYTES);
    assert_true(tight.over_bytes <= 0 && tight.peak_bytes <= enough - STASH_BYTES);
    assert_pace(tight, TWO_NS);
    assert_true(score("2bw", 1).over_bytes > 0);
}

/* Schedules that save memory have no default slack. */
static void test_others_take_none(void **state) {
    (void)state;
    assert_pace(score("stash", 1 << 20), TWO_NS);
}

static int64_t forecast(const char *schedule, const int32_t *millionths, int workers, int passes) {
    return score_at(schedule, 1 << 20, (struct sl_tempo){workers, passes, millionths}, false)
        .step_ns;
}

/* 1f1b on two stages: the last stage is idle only until the first micro-batch arrives and while the
 * last gradient goes back. */
static void test_forecast(void **state) {
    (void)state;
    const int32_t even[] = {SL_TEMPO_EVEN}, twice[] = {2 * SL_TEMPO_EVEN};
    const int32_t slow[] = {SL_TEMPO_EVEN, 2 * SL_TEMPO_EVEN}; /* the second worker */
    const int32_t turns[] = {SL_TEMPO_EVEN, 3 * SL_TEMPO_EVEN, 3 * SL_TEMPO_EVEN, SL_TEMPO_EVEN};
    static const char *const names[] = {"1f1b", "gpipe", "stash"};
    for (int i = 0; i < 3; i++) {
        int64_t plain = score(names[i], 1 << 20).sim_ns, all = forecast(names[i], twice, 1, 1);
        assert_int_equal(forecast(names[i], even, 1, 1), plain);
        assert_true(all > plain && all <= 2 * plain); /* the time of messages does not change */
        int64_t one = forecast(names[i], slow, 2, 1);
        assert_true(one > plain && one < all);
        /* Mean factor 2, never on both workers at once: the slow one delays the other. */
        assert_true(forecast(names[i], turns, 2, 2) > plain);
    }
    int64_t pass = 11 + 30; /* upper bound: one worker waits for the other */
    assert_true(forecast("gpipe", slow, 2, 1) - score("gpipe", 1 << 20).sim_ns >=
                (MICROS - 2) * pass / 2);
}

/* The first stage recomputes while the first gradient is in transit, as in a run. */
static void test_forecast_recomputes_early(void **state) {
    (void)state;
    const int32_t even[] = {SL_TEMPO_EVEN};
    struct sl_candidate_score said =
        score_at("gpipe", 1 << 20, (struct sl_tempo){1, 1, even}, true);
    assert_int_equal(said.step_ns, said.sim_ns);
}

struct told {
    const char *schedule;
    double version_bytes_per_s, ratio; /* recompute_ratio; > 0: all stages recompute */
    int64_t f;
};

/* Two replicas of each stage, and enough micro-batches for a folded simulation. */
static struct sl_candidate_score replicas(bool fast, struct told told, int64_t *bound) {
    enum { MANY = 1000, PARAMS = 100000 };
    const struct sl_unit large[] = {{.name = "a", .params = PARAMS}, {.name = "b"}};
    const struct sl_unit_time slow[] = {{told.f, 13, 17, PARAMS}, {told.f, 13, 17, 0}};
    struct sl_arena arena = {0};
    struct sl_candidate_detail detail;
    struct sl_candidate_score out;
    struct sl_problem p = {.model = "two",
                           .precision = "none",
                           .units = large,
                           .unit_count = 2,
                           .tensors = &wire,
                           .tensor_count = 1,
                           .machine = flat_machine(&arena, 4, 1e9, 0),
                           .memory = (int64_t[]){1 << 24, 1 << 24, 1 << 24, 1 << 24},
                           .batch = MANY,
                           .sizes = (int64_t[]){1},
                           .size_count = 1,
                           .version_bytes_per_s = told.version_bytes_per_s,
                           .recompute_ratio = told.ratio,
                           .times = slow};
    struct sl_candidate c = {.stage_count = 2,
                             .stage_of = (int[]){0, 1},
                             .width = (int[]){2, 2},
                             .recompute = (bool[]){told.ratio > 0, told.ratio > 0},
                             .schedule = told.schedule};
    sl_search_problem_finish(&arena, &p);
    sl_search_candidate_expand(&arena, &p, &c, &detail);
    *bound = sl_search_candidate_bound(&detail);
    if (fast)
        assert_int_equal(sl_search_candidate_simulate_folded(&detail, &out), SL_OK);
    else
        assert_int_equal(sl_search_candidate_simulate(&detail, NULL, &out), SL_OK);
    const char *const names[] = {told.schedule, NULL};
    assert_true(sl_search_space_bound(&p, names, false) <= out.step_ns);
    sl_arena_free(&arena);
    return out;
}

/* Steps into a new version may be faster than other steps; then the bounds are smaller, too.
 * Replicas still reduce before them. */
static void test_versions(void **state) {
    (void)state;
    const double rates[] = {0, 1e8, 1e9, 1e10};
    for (int i = 0; i < SL_COUNT(rates); i++) {
        int64_t bound;
        struct sl_candidate_score fast =
            replicas(true, (struct told){"2bw", rates[i], 0, 11}, &bound);
        struct sl_candidate_score all =
            replicas(false, (struct told){"2bw", rates[i], 0, 11}, &bound);
        assert_true(bound <= all.step_ns && bound <= fast.step_ns);
        assert_in_range(fast.step_ns, all.step_ns - all.step_ns / 10,
                        all.step_ns + all.step_ns / 10);
    }
}

/* A recomputation may be faster than the forward pass, also in bounds. */
static void test_recompute_ratio(void **state) {
    (void)state;
    const char *const schedules[] = {"1f1b", "gpipe", "2bw"};
    for (int i = 0; i < SL_COUNT(schedules); i++)
        for (int share = 1; share <= 4; share++) {
            int64_t bound;
            struct told told = {schedules[i], 1e12, 0.25 * share, 2000};
            struct sl_candidate_score all = replicas(false, told, &bound);
            assert_true(bound <= all.step_ns);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_2bw_takes_slack),
                                       cmocka_unit_test(test_2bw_without_memory),
                                       cmocka_unit_test(test_others_take_none),
                                       cmocka_unit_test(test_forecast),
                                       cmocka_unit_test(test_forecast_recomputes_early),
                                       cmocka_unit_test(test_versions),
                                       cmocka_unit_test(test_recompute_ratio)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
