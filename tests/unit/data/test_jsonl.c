/* JSON lines: samples padded and packed, targets of texts and of answers, refusals with their line. */
#include "support/data_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { T = 4, NO = SL_DATA_IGNORE };

static const char *path_of(const char *text) { return sl_test_text("a.jsonl", text); }

static sl_err open_lines(const char *prefix, const char *path, int64_t length, const char *template,
                         struct sl_data **out) {
    static struct sl_data_input inputs[3];
    static struct sl_text source;
    source.length = 0;
    sl_text_printf(&source, "%s%s", prefix, path);
    inputs[0] = sl_test_int("tokens", length, 256);
    inputs[1] = sl_test_int("targets", length, 256);
    inputs[2] = sl_test_int("attention_mask", length, 2);
    struct sl_data_spec spec = {.source = source.at,
                                .inputs = inputs,
                                .input_count = 3,
                                .in_order = true,
                                .objective = SL_DATA_NEXT,
                                .chat_template = template};
    return sl_data_open(&spec, out);
}

static void check_sample(const struct sl_data *data, int64_t n, const char *tokens,
                         const int32_t *targets, int count) {
    int32_t got[3][T];
    int64_t valid, expected = 0;
    for (int i = 0; i < 3; i++)
        SL_TEST_OK(sl_data_fill(data, SL_DATA_TRAIN, n, 1, i, got[i]));
    for (int i = 0; i < T; i++) {
        assert_int_equal(got[0][i], i < count ? tokens[i] : 0);
        assert_int_equal(got[1][i], targets[i]);
        assert_int_equal(got[2][i], i < count);
        expected += targets[i] != NO;
    }
    SL_TEST_OK(sl_data_count_valid(data, SL_DATA_TRAIN, n, 1, 1, &valid));
    assert_int_equal(valid, expected);
}

static const char lines[] =
    "{\"text\": \"abcdef\", \"id\": 7}\n\n{\"text\":\"xy\"}\n"
    "{\"text\":\"q\"}\n{\"text\":\"\"}\n{\"meta\":[1],\"text\":\"\\u0001\\nz\"}";

static void test_padded(void **state) {
    struct sl_data *data;
    (void)state;
    SL_TEST_OK(open_lines("", path_of(lines), T, NULL, &data));
    assert_int_equal(sl_data_count(data, SL_DATA_TRAIN), 4);
    check_sample(data, 0, "abcd", (int32_t[]){'b', 'c', 'd', 'e'}, 4);
    check_sample(data, 1, "ef", (int32_t[]){'f', NO, NO, NO}, 2);
    check_sample(data, 2, "xy", (int32_t[]){'y', NO, NO, NO}, 2);
    check_sample(data, 3, "\1\nz", (int32_t[]){'\n', 'z', NO, NO}, 3);
    SL_TEST_OK(sl_data_check(data));
    sl_data_close(data);
}

/* abcdef xy q 1nz: a target is never the first token of another text. */
static void test_packed(void **state) {
    struct sl_data *data;
    (void)state;
    SL_TEST_OK(open_lines("packed:", path_of(lines), T, NULL, &data));
    assert_int_equal(sl_data_count(data, SL_DATA_TRAIN), 3);
    check_sample(data, 0, "abcd", (int32_t[]){'b', 'c', 'd', 'e'}, 4);
    check_sample(data, 1, "efxy", (int32_t[]){'f', NO, 'y', NO}, 4);
    check_sample(data, 2, "q\1\nz", (int32_t[]){NO, '\n', 'z', NO}, 4);
    sl_data_close(data);
}

static void test_messages(void **state) {
    enum { LONG = 120 };
    static const char talk[] =
        "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"},{\"role\":\"assistant\",\"content\":"
        "\"ok\",\"tool_calls\":null}]}";
    static const char wanted[] = "ok<|im_end|>";
    int32_t tokens[LONG], targets[LONG];
    struct sl_data *data;
    int found = 0;
    (void)state;
    SL_TEST_FAILS(open_lines("", path_of(talk), LONG, NULL, &data), SL_ERR_INPUT,
                  "no chat template");
    SL_TEST_OK(open_lines("jsonl:", path_of(talk), LONG, "chatml", &data));
    assert_int_equal(sl_data_count(data, SL_DATA_TRAIN), 1);
    SL_TEST_OK(sl_data_fill(data, SL_DATA_TRAIN, 0, 1, 0, tokens));
    SL_TEST_OK(sl_data_fill(data, SL_DATA_TRAIN, 0, 1, 1, targets));
    for (int i = 0; i < LONG; i++) {
        if (targets[i] == NO)
            continue;
        assert_int_equal(targets[i], wanted[found++]);
        assert_int_equal(targets[i], tokens[i + 1]);
    }
    assert_int_equal(found, (int)strlen(wanted));
    sl_data_close(data);
}

static void refuse(const char *text, const char *reason) {
    struct sl_data *data;
    SL_TEST_FAILS(open_lines("", path_of(text), T, "mistral", &data), SL_ERR_INPUT, reason);
}

static void test_refused(void **state) {
    struct sl_data *data;
    struct sl_text deep = {0};
    (void)state;
    refuse("{\"text\":\"ab\"}\n{\"text\":7}\n", "a.jsonl:2:10: `text` must");
    refuse("{\"text\":7}", "must be a string");
    refuse("[1]", "expected an object");
    refuse("{\"body\":\"ab\"}", "one of `text` and `messages`");
    refuse("{\"text\":\"ab\",\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}", "one of");
    refuse("{\"text\":\"ab\"", "ends inside");
    refuse("{\"text\":\"ab\"} x", "after the end");
    refuse("{\"text\":\"a\"}\n", "no token to train on");
    refuse("{\"messages\":[]}", "is empty");
    refuse("{\"messages\":[{\"role\":\"tool\",\"content\":\"a\"}]}", "role 'tool'");
    refuse("{\"messages\":[{\"role\":\"user\"}]}", "needs role and content");
    refuse("{\"messages\":[{\"role\":\"user\",\"content\":[]}]}", "'content' of a message");
    refuse("{\"messages\":[{\"role\":\"system\",\"content\":\"a\"}]}", "a.jsonl:1: message 1");
    refuse("{\"messages\":[{\"role\":\"user\",\"content\":\"a\",\"tool_calls\":[1]}]}",
           "tool_calls");
    sl_text_put(&deep, "{\"x\":");
    for (int i = 0; i < 100000; i++)
        sl_text_put(&deep, "[");
    refuse(deep.at, "nested deeper");
    sl_text_free(&deep);
    SL_TEST_FAILS(open_lines("text:", path_of(lines), T, NULL, &data), SL_ERR_INPUT,
                  "not plain text");
    SL_TEST_FAILS(
        open_lines("text:", sl_test_gzip("c.jsonl.gz", lines, sizeof lines - 1), T, NULL, &data),
        SL_ERR_INPUT, "not plain text");
    SL_TEST_FAILS(open_lines("packed:", sl_test_text("b.txt", "abcdefgh"), T, NULL, &data),
                  SL_ERR_INPUT, "packed: is for JSON lines");
    SL_TEST_FAILS(open_lines("masked:", path_of(lines), T, NULL, &data), SL_ERR_INPUT,
                  "not implemented");
    sl_test_folder_remove();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_padded),
        cmocka_unit_test(test_packed),
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
