/* The published planners' objectives on their own inputs: reached or beaten, and the printed plan
 * re-evaluates to the printed objective. Skips where ../shared/data is absent. */
#include "interop/importer.h"
#include "report/peer_plan.h"
#include "support/plan_eval.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define GIB 1073741824.0
#define FOLDER SL_TEST_SRC_DIR "/../shared/data/planner-inputs/"
#define FOLDER_BESIDE SL_TEST_SRC_DIR "/../../shared/data/planner-inputs/"

struct golden {
    const char *model, *file;
    int64_t level[2]; /* second 0: flat */
    double bandwidth[2], memory;
    int64_t micro, cpus;
    double published;
    bool beaten; /* ours is better; else equal to the printed digits */
};

static const struct golden goldens[] = {
    {"piper", "bert32a100.json", {8}, {25 * GIB}, 8 * GIB, 1920, 0, .16585575, false},
    {"piper", "bert32a100.json", {16}, {25 * GIB}, 8 * GIB, 1920, 0, .082962217, false},
    {"piper", "bert32a100.json", {64}, {25 * GIB}, 8 * GIB, 1920, 0, .02020055, false},
    {"piper", "bert32a100.json", {64}, {25 * GIB}, 2 * GIB, 1920, 0, .032030081, false},
    {"piper", "bert32a100.json", {128}, {25 * GIB}, GIB, 1920, 0, .03887175, false},
    {"piper", "bert32a100.json", {8}, {25 * GIB}, 80 * GIB, 1920, 0, .12200727, false},
    {"piper", "bert32a100.json", {512}, {25 * GIB}, 8 * GIB, 1920, 0, .0025611278, false},
    {"piper", "bert32a100.json", {2048}, {25 * GIB}, 8 * GIB, 1920, 0, .00070359118, false},
    {"piper", "gnmt.json", {2}, {25 * GIB}, 2.5 * GIB, 256, 0, 263.35429, false},
    {"piper", "gnmt.json", {4}, {25 * GIB}, 1.2 * GIB, 256, 0, 137.13099, false},
    {"piper", "gnmt.json", {8}, {25 * GIB}, 1.2 * GIB, 256, 0, 68.565564, false},
    {"dnn-partitioning",
     "LayerGraphs-bert24_training.json",
     {6},
     {1},
     17185374208,
     1,
     1,
     41.7458,
     false},
    {"dnn-partitioning",
     "LayerGraphs-gnmt_training.json",
     {6},
     {1},
     17185374208,
     1,
     1,
     107.004,
     false},
    {"dnn-partitioning",
     "OperatorGraphs-bert_l-3_training.json",
     {3},
     {1},
     17185374208,
     1,
     1,
     65.3031,
     false},
    {"dnn-partitioning",
     "OperatorGraphs-bert_l-6_training.json",
     {3},
     {1},
     17185374208,
     1,
     1,
     72.865,
     false},
    {"pipedream", "alexnet.graph.txt", {4}, {1e9}, 0, 1, 0, .0342171413, false},
    {"pipedream", "vgg16.graph.txt", {4}, {1e9}, 0, 1, 0, .205520896, false},
    {"pipedream", "gnmt.graph.txt", {4}, {1e9}, 0, 1, 0, .025868, false},
    {"pipedream", "resnet50.graph.txt", {4}, {1e9}, 0, 1, 0, .162880924, false},
    {"pipedream", "resnet50.graph.txt", {16}, {1e9}, 0, 1, 0, .047801, false},
    {"pipedream", "vgg16.graph.txt", {8, 2}, {3e10, 3.125e9}, 0, 1, 0, .065767, false},
    {"pipedream", "gnmt.graph.txt", {4, 4}, {1e10, 1.25e9}, 0, 1, 0, .011081, false},
    {"pipedream", "resnet50.graph.txt", {8, 2}, {3e10, 3.125e9}, 0, 1, 0, .031989, false},
};

static bool find_file(const struct golden *golden, char *path, size_t room) {
    snprintf(path, room, "%s%s/%s", FOLDER, golden->model, golden->file);
    if (sl_file_exists(path))
        return true;
    snprintf(path, room, "%s%s/%s", FOLDER_BESIDE, golden->model, golden->file);
    return sl_file_exists(path);
}

static void check_printed(const struct sl_layers *layers, const struct sl_peers_query *query,
                          const struct sl_peers_plan *plan, const char *model) {
    struct sl_arena arena = {0};
    struct sl_text text = {0};
    struct sl_peers_plan read;
    const char *reason;
    struct sl_report_peer_plan report = {.file = "x",
                                         .planner = "sluice",
                                         .model = sl_peers_cost_model_of(model),
                                         .layers = layers,
                                         .plan = plan};
    sl_report_peer_plan_json(&report, &text);
    assert_true(sl_eval_read(&arena, layers, text.at, text.length, &read));
    double again = sl_eval_plan(model, layers, query, &read, &reason);
    if (again < 0)
        fail_msg("the plan breaks a rule: %s", reason);
    assert_true(fabs(again - read.objective) <= 1e-9 * read.objective);
    sl_text_free(&text);
    sl_arena_free(&arena);
}

static void check_golden(const struct golden *golden, const char *path) {
    struct sl_arena arena = {0};
    const struct sl_layers *layers;
    struct sl_peers_plan plan;
    char *text;
    size_t length;
    assert_int_equal(sl_file_read(path, SL_IMPORT_LIMIT_BYTES, &text, &length), SL_OK);
    assert_int_equal(
        sl_interop_importer_find(golden->model)->read(&arena, path, text, length, &layers), SL_OK);
    assert_ptr_equal(sl_interop_importer_guess(text, length),
                     sl_interop_importer_find(golden->model));
    struct sl_peers_query query = {.level_count = golden->level[1] ? 2 : 1,
                                   .level = {golden->level[0], golden->level[1]},
                                   .bandwidth = {golden->bandwidth[0], golden->bandwidth[1]},
                                   .memory_bytes = golden->memory,
                                   .micro = golden->micro,
                                   .cpus = golden->cpus};
    query.devices = golden->level[0] * (golden->level[1] ? golden->level[1] : 1);
    assert_int_equal(sl_peers_cost_model_of(golden->model)->plan(&arena, layers, &query, &plan),
                     SL_OK);
    double relative = plan.objective / golden->published - 1;
    if (relative > 2e-5 || (!golden->beaten && relative < -2e-5) || !plan.proven)
        fail_msg("%s on %lld: %.9g, published %.9g, proven %d", golden->file,
                 (long long)query.devices, plan.objective, golden->published, plan.proven);
    check_printed(layers, &query, &plan, golden->model);
    free(text);
    sl_arena_free(&arena);
}

/* The results of Scotch and of ten local searches in dnn-partitioning, without contiguity. */
static void test_scattered(void **state) {
    static const struct golden rows[] = {
        {.file = "LayerGraphs-bert24_training.json", .level = {6}, .published = 39.9432},
        {.file = "LayerGraphs-gnmt_training.json", .level = {6}, .published = 93.8855},
        {.file = "OperatorGraphs-bert_l-6_training.json", .level = {3}, .published = 72.865},
    };
    int done = 0;
    (void)state;
    for (int i = 0; i < SL_COUNT(rows); i++) {
        struct golden row = rows[i];
        struct sl_arena arena = {0};
        const struct sl_layers *layers;
        struct sl_peers_plan plan;
        char path[512], *text;
        size_t length;
        row.model = "dnn-partitioning";
        if (!find_file(&row, path, sizeof path))
            continue;
        assert_int_equal(sl_file_read(path, SL_IMPORT_LIMIT_BYTES, &text, &length), SL_OK);
        assert_int_equal(
            sl_interop_importer_find(row.model)->read(&arena, path, text, length, &layers), SL_OK);
        struct sl_peers_query query = {
            .devices = row.level[0], .memory_bytes = 17185374208, .cpus = 1, .scattered = true};
        assert_int_equal(sl_peers_cost_model_of(row.model)->plan(&arena, layers, &query, &plan),
                         SL_OK);
        if (plan.objective > row.published)
            fail_msg("%s: %.9g, published %.9g", row.file, plan.objective, row.published);
        assert_true(plan.lower_bound <= plan.objective);
        check_printed(layers, &query, &plan, row.model);
        free(text);
        sl_arena_free(&arena);
        done++;
    }
    printf("count: %d of %d published objectives without contiguity\n", done, SL_COUNT(rows));
    if (!done)
        skip();
}

static void test_goldens(void **state) {
    int done = 0;
    (void)state;
    for (int i = 0; i < SL_COUNT(goldens); i++) {
        char path[512];
        if (!find_file(&goldens[i], path, sizeof path))
            continue;
        check_golden(&goldens[i], path);
        done++;
    }
    printf("count: %d of %d published objectives\n", done, SL_COUNT(goldens));
    if (!done)
        skip();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_goldens),
                                       cmocka_unit_test(test_scattered)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
