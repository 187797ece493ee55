/* Importers: a good file of each format, and broken ones: SL_ERR_INPUT with position and reason. */
#include "interop/importer.h"

#include "base/vec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

static size_t read_seed(const char *name, char **text) {
    char path[512];
    size_t length;
    snprintf(path, sizeof path, "%s/tests/fuzz/corpus/%s", SL_TEST_SRC_DIR, name);
    assert_int_equal(sl_file_read(path, 1 << 20, text, &length), SL_OK);
    return length;
}

static const struct {
    const char *format, *seed;
    int layers, edges;
} seeds[] = {
    {"dnn-partitioning", "dnnpart/train.json", 6, 5},
    {"pipedream", "pipedream/branch.graph.txt", 5, 5},
    {"piper", "piper/chain.json", 3, 2},
};

static void test_good(void **state) {
    (void)state;
    for (int i = 0; i < SL_COUNT(seeds); i++) {
        struct sl_arena arena = {0};
        const struct sl_layers *layers;
        char *text;
        size_t length = read_seed(seeds[i].seed, &text);
        assert_int_equal(
            sl_interop_importer_find(seeds[i].format)->read(&arena, "f", text, length, &layers),
            SL_OK);
        assert_int_equal(layers->count, seeds[i].layers);
        assert_int_equal(layers->edge_count, seeds[i].edges);
        assert_string_equal(layers->format, seeds[i].format);
        assert_string_equal(sl_interop_importer_guess(text, length)->name, seeds[i].format);
        sl_arena_free(&arena);
        free(text);
    }
}

/* Replaces `old` by `new` in a seed; the message must hold `place` and `reason`. */
static const struct {
    const char *format, *seed, *old, *new, *place, *reason;
} broken[] = {
    {"piper", "piper/chain.json", "\"destId\": 8", "\"destId\": 7", "f:10:", "layer 7"},
    {"piper", "piper/chain.json", "\"destId\": 8", "\"destId\": 3", "f:3:", "lists 0 neighbours"},
    {"pipedream", "pipedream/branch.graph.txt", "node2 -- node3", "node4 -- node3",
     "f:3:", "cycle"},
    {"pipedream", "pipedream/branch.graph.txt", "node2 -- node3", "node3 -- node3",
     "f:7:", "itself"},
    {"piper", "piper/chain.json", "\"id\": 5", "\"id\": 3", "f:5:", "same id twice"},
    {"piper", "piper/chain.json", "{\"8\": 0}", "{}", "f:6:", "lists 0 neighbours"},
    {"piper", "piper/chain.json", "{\"8\": 37}", "{\"9\": 37}", "f:7:", "no such edge"},
    {"piper", "piper/chain.json", "{\"8\": 37}", "{\"x\": 37}", "f:7:", "number of a node"},
    {"piper", "piper/chain.json", "\"2\": [", "\"0\": [", "f:7:", "out of range"},
    {"piper", "piper/chain.json", "\"parameterSize\": 19, ", "", "f:6:", "a TMPC needs"},
    {"piper", "piper/chain.json", "\"timePerSample\": 5", "\"timePerSample\": -5",
     "f:5:", "negative"},
    {"piper", "piper/chain.json", "\"communicationCost\": 43", "\"communicationCost\": -1",
     "f:10:", "negative"},
    {"piper", "piper/chain.json", "\"mbsInBatch\": 6", "\"mbsInBatch\": 0", "f:1:", ""},
    {"piper", "piper/chain.json", "\"edges\": [", "\"edges\": {", "f:10:", ""},
    {"dnn-partitioning", "dnnpart/train.json", "\"fpgaLatency\": 5, ", "", "f:2:", "a node needs"},
    {"dnn-partitioning", "dnnpart/train.json", "\"id\": 9", "\"id\": 2", "f:4:", "same id"},
    {"dnn-partitioning", "dnnpart/train.json", "\"supportedOnFpga\": true",
     "\"supportedOnFpga\": 2", "f:3:", "true, false"},
    {"dnn-partitioning", "dnnpart/train.json", "\"destId\": 6", "\"destId\": 66",
     "f:9:", "layer 66"},
    {"dnn-partitioning", "dnnpart/train.json", "\"sourceId\": 4", "\"sourceId\": 3",
     "f:9:", "different cost"},
    {"dnn-partitioning", "dnnpart/train.json", "\"size\": 7}", "\"size\": 1e999}", "f:2:", "range"},
    {"pipedream", "pipedream/branch.graph.txt", "node3 -- node4", "node3 -- node7",
     "f:9:", "layer 7"},
    {"pipedream", "pipedream/branch.graph.txt", "node3 -- node4", "node3 - node4",
     "f:9:", "expected ' -- '"},
    {"pipedream", "pipedream/branch.graph.txt", "node3 -- node4", "node4 -- node3", "", ""},
    {"pipedream", "pipedream/branch.graph.txt", "node3 -- node4", "node2 -- node4",
     "f:9:", "same edge twice"},
    {"pipedream", "pipedream/branch.graph.txt", "64.0; 32.0]", "64.0; 32.0",
     "f:2:", "expected ']'"},
    {"pipedream", "pipedream/branch.graph.txt", "=11.5,", "=x,", "f:2:", "expected a number"},
    {"pipedream", "pipedream/branch.graph.txt", "=11.5,", "=-11.5,", "f:2:", "negative"},
    {"pipedream", "pipedream/branch.graph.txt", "node4 -- Add", "nodex -- Add",
     "f:4:", "expected a node"},
    {"pipedream", "pipedream/branch.graph.txt", "node4 -- Add", "node3 -- Add", "f:4:", "same id"},
};

static bool check_broken(int i) {
    bool good = true;
    struct sl_arena arena = {0};
    struct sl_text made = {0};
    const struct sl_layers *layers;
    char *text;
    read_seed(broken[i].seed, &text);
    const char *at = strstr(text, broken[i].old);
    assert_non_null(at);
    sl_text_put_bytes(&made, text, (size_t)(at - text));
    sl_text_put(&made, broken[i].new);
    sl_text_put(&made, at + strlen(broken[i].old));
    sl_err err = sl_interop_importer_find(broken[i].format)
                     ->read(&arena, "f", made.at, made.length, &layers);
    /* an empty place: the change is harmless */
    if (!*broken[i].place) {
        assert_int_equal(err, SL_OK);
    } else if (err != SL_ERR_INPUT ||
               strncmp(sl_err_message(), broken[i].place, strlen(broken[i].place)) != 0 ||
               !strstr(sl_err_message(), broken[i].reason)) {
        print_message("%d (%s): %d, %s\n", i, broken[i].new, err, err ? sl_err_message() : "");
        good = false;
    }
    sl_text_free(&made);
    sl_arena_free(&arena);
    free(text);
    return good;
}

static void test_broken(void **state) {
    bool good = true;
    (void)state;
    for (int i = 0; i < SL_COUNT(broken); i++)
        good &= check_broken(i);
    assert_true(good);
    printf("count: %d broken files\n", SL_COUNT(broken));
}

/* Any prefix of a file is an error or a valid file, never a crash. */
static void test_truncated(void **state) {
    (void)state;
    for (int i = 0; i < SL_COUNT(seeds); i++) {
        char *text;
        size_t length = read_seed(seeds[i].seed, &text);
        for (size_t cut = 0; cut < length; cut++) {
            struct sl_arena arena = {0};
            const struct sl_layers *layers;
            sl_err err =
                sl_interop_importer_find(seeds[i].format)->read(&arena, "f", text, cut, &layers);
            assert_true(err == SL_OK || err == SL_ERR_INPUT);
            sl_arena_free(&arena);
        }
        free(text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_broken),
        cmocka_unit_test(test_truncated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
