/* Byte-level BPE against the `tokenizers` package (tests/fixtures/make_bpe.py); decoding restores
 * the text; damaged files are refused with a reason. */
#include "base/vec.h"
#include "support/data_files.h"
#include "tokenizer/pretok.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *fixture(const char *name) {
    static char path[2][4096];
    static int turn;
    turn ^= 1;
    snprintf(path[turn], sizeof path[turn], "%s/tests/fixtures/bpe/%s", SL_TEST_SRC_DIR, name);
    return path[turn];
}

static __attribute__((noinline)) char *slurp(const char *path, size_t *length) {
    char *text = NULL;
    SL_TEST_OK(sl_file_read(path, 1 << 26, &text, length));
    return text;
}

static void decode_all(const struct sl_tokenizer *t, const struct sl_tokens *ids,
                       struct sl_text *out) {
    out->length = 0;
    sl_text_put(out, "");
    for (int64_t i = 0; i < ids->count; i++) {
        struct sl_str bytes = sl_tokenizer_piece(t, ids->at[i]);
        sl_text_put_bytes(out, bytes.at, bytes.length);
    }
}

/* Check one case {"text": ..., "ids": [...]}, read up to its '{'. */
static void check_case(const struct sl_tokenizer *t, struct sl_json_in *json,
                       struct sl_arena *arena, bool prefix) {
    const char *text;
    struct sl_tokens ids = {0};
    struct sl_text back = {0};
    SL_TEST_OK(sl_json_take(json, SL_JSON_KEY));
    SL_TEST_OK(sl_json_take_string(json, arena, &text));
    SL_TEST_OK(sl_json_take(json, SL_JSON_KEY));
    SL_TEST_OK(sl_json_take(json, SL_JSON_ARRAY));
    sl_tokenizer_encode(t, text, strlen(text), SL_TOKENIZER_MATCH, &ids);
    for (int64_t i = 0;; i++) {
        SL_TEST_OK(sl_json_next(json));
        if (json->event == SL_JSON_ARRAY_END) {
            if (i != ids.count)
                fail_msg("'%s': %lld tokens, expected %lld", text, (long long)ids.count,
                         (long long)i);
            break;
        }
        if (i >= ids.count || ids.at[i] != (int32_t)json->number)
            fail_msg("'%s': token %lld is %d, expected %g", text, (long long)i,
                     i < ids.count ? ids.at[i] : -1, json->number);
    }
    SL_TEST_OK(sl_json_take(json, SL_JSON_OBJECT_END));
    decode_all(t, &ids, &back);
    bool added = prefix && text[0] && text[0] != ' ';
    assert_string_equal(back.at + (added ? 1 : 0), text);
    sl_text_free(&back);
    SL_VEC_FREE(&ids);
}

static void check_cases(const char *tokenizer, const char *cases, bool prefix) {
    struct sl_tokenizer *t;
    struct sl_arena arena = {0};
    struct sl_json_in json;
    size_t length;
    int count = 0;
    char *text = slurp(fixture(cases), &length);
    SL_TEST_OK(sl_tokenizer_open(fixture(tokenizer), &t));
    sl_json_read(&json, cases, text, length);
    SL_TEST_OK(sl_json_take(&json, SL_JSON_ARRAY));
    for (;; count++) {
        SL_TEST_OK(sl_json_next(&json));
        if (json.event == SL_JSON_ARRAY_END)
            break;
        check_case(t, &json, &arena, prefix);
    }
    assert_true(count > 100);
    printf("count: %d texts of %s\n", count, cases);
    sl_tokenizer_close(t);
    sl_arena_free(&arena);
    free(text);
}

static void test_gpt2(void **state) {
    (void)state;
    check_cases("tokenizer-gpt2.json", "cases-gpt2.json", false);
}

static void test_prefix(void **state) {
    (void)state;
    check_cases("tokenizer-prefix.json", "cases-prefix.json", true);
}

static void test_llama3(void **state) {
    (void)state;
    check_cases("tokenizer-llama3.json", "cases-llama3.json", false);
}

/* vocab.json + merges.txt give the tokens of tokenizer.json, except special tokens. */
static void test_vocab_and_merges(void **state) {
    (void)state;
    static const char text[] =
        "The gate opens; they've said it's 12345 metres. Höhe 水門 \r\n\r\n x";
    struct sl_tokenizer *a, *b;
    struct sl_tokens ids_a = {0}, ids_b = {0};
    SL_TEST_OK(sl_tokenizer_open(fixture("tokenizer-gpt2.json"), &a));
    SL_TEST_OK(sl_tokenizer_open(fixture("gpt2-vocab.json"), &b));
    sl_tokenizer_encode(a, text, strlen(text), SL_TOKENIZER_MATCH, &ids_a);
    sl_tokenizer_encode(b, text, strlen(text), SL_TOKENIZER_MATCH, &ids_b);
    assert_int_equal(sl_tokenizer_vocab(a), sl_tokenizer_vocab(b));
    assert_int_equal(ids_a.count, ids_b.count);
    assert_memory_equal(ids_a.at, ids_b.at, sizeof *ids_a.at * (size_t)ids_a.count);
    assert_int_equal(sl_tokenizer_find(a, SL_STR("<|endoftext|>")), 0);
    assert_int_equal(sl_tokenizer_find(a, SL_STR("no such token")), -1);
    assert_int_equal(sl_tokenizer_piece(a, -1).length, 0);
    assert_int_equal(sl_tokenizer_piece(a, 1 << 20).length, 0);
    SL_VEC_FREE(&ids_a);
    SL_VEC_FREE(&ids_b);
    sl_tokenizer_close(a);
    sl_tokenizer_close(b);
}

static void test_bytes(void **state) {
    (void)state;
    static const char text[] = "\x00\xff\x80 a\n";
    struct sl_tokenizer *t;
    struct sl_tokens ids = {0};
    SL_TEST_OK(sl_tokenizer_open(NULL, &t));
    sl_tokenizer_encode(t, text, sizeof text - 1, SL_TOKENIZER_MATCH, &ids);
    assert_int_equal(ids.count, sizeof text - 1);
    for (int64_t i = 0; i < ids.count; i++) {
        assert_int_equal(ids.at[i], (unsigned char)text[i]);
        assert_memory_equal(sl_tokenizer_piece(t, ids.at[i]).at, &text[i], 1);
    }
    SL_VEC_FREE(&ids);
    sl_tokenizer_close(t);
}

/* Random bytes and ASCII: any text can be encoded, and split where sl_tokenizer_cut allows. */
static void test_any_bytes(void **state) {
    (void)state;
    struct sl_tokenizer *t;
    struct sl_text back = {0};
    SL_TEST_OK(sl_tokenizer_open(fixture("tokenizer-llama3.json"), &t));
    srand(5);
    for (int round = 0; round < 200; round++) {
        char text[3000];
        size_t length = (size_t)rand() % sizeof text, at = 0;
        for (size_t i = 0; i < length; i++)
            text[i] = (char)(rand() % (round % 2 ? 256 : 128));
        struct sl_tokens whole = {0}, parts = {0};
        sl_tokenizer_encode(t, text, length, SL_TOKENIZER_PLAIN, &whole);
        while (at < length) {
            size_t end = sl_tokenizer_cut(t, text, length, at + 1 + (size_t)rand() % 100);
            sl_tokenizer_encode(t, text + at, end - at, SL_TOKENIZER_PLAIN, &parts);
            at = end;
        }
        assert_int_equal(whole.count, parts.count);
        if (whole.count)
            assert_memory_equal(whole.at, parts.at, sizeof *whole.at * (size_t)whole.count);
        decode_all(t, &whole, &back);
        if (round % 2 == 0) {
            assert_int_equal(back.length, length);
            assert_memory_equal(back.at, text, length);
        }
        SL_VEC_FREE(&whole);
        SL_VEC_FREE(&parts);
    }
    sl_text_free(&back);
    sl_tokenizer_close(t);
}

/* The heap (long words) and the scan (short words) give the same merges for "a...a". */
static void test_long_word(void **state) {
    (void)state;
    struct sl_tokenizer *t;
    struct sl_tokens ids = {0};
    struct sl_text back = {0};
    size_t length = 300000;
    char *text = malloc(length);
    for (size_t i = 0; i < length; i++)
        text[i] = "water"[i % 5];
    SL_TEST_OK(sl_tokenizer_open(fixture("tokenizer-gpt2.json"), &t));
    sl_tokenizer_encode(t, text, length, SL_TOKENIZER_PLAIN, &ids);
    decode_all(t, &ids, &back);
    assert_int_equal(back.length, length);
    assert_memory_equal(back.at, text, length);
    free(text);
    SL_VEC_FREE(&ids);
    sl_text_free(&back);
    sl_tokenizer_close(t);
}

static void test_words(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t gpt2, llama3;
    } cases[] = {{"'ll do", 3, 3},  {"'LL do", 1, 3},  {"hello", 5, 5},    {" hello", 6, 6},
                 {"  hello", 1, 1}, {"\thello", 1, 6}, {"12345", 5, 3},    {"!!\n\nx", 2, 4},
                 {"\n\n x", 2, 2},  {"   ", 3, 3},     {"\xff\xfe", 2, 2}, {"(hi", 1, 3}};
    for (int i = 0; i < SL_COUNT(cases); i++) {
        size_t length = strlen(cases[i].text);
        assert_int_equal(sl_tokenizer_pretok_word(SL_PRETOK_GPT2, cases[i].text, length),
                         cases[i].gpt2);
        assert_int_equal(sl_tokenizer_pretok_word(SL_PRETOK_LLAMA3, cases[i].text, length),
                         cases[i].llama3);
        assert_int_equal(sl_tokenizer_pretok_word(SL_PRETOK_NONE, cases[i].text, length), length);
    }
}

/* Replace the first `old` of a text by `fresh`; reading must then fail. */
static void refuse_change(const char *old, const char *fresh, const char *reason) {
    struct sl_tokenizer *t;
    struct sl_text changed = {0};
    size_t length;
    char *text = slurp(fixture("tokenizer-llama3.json"), &length);
    char *at = strstr(text, old);
    if (!at)
        fail_msg("the fixture has no %s", old);
    sl_text_put_bytes(&changed, text, (size_t)(at - text));
    sl_text_put(&changed, fresh);
    sl_text_put(&changed, at + strlen(old));
    SL_TEST_FAILS(sl_tokenizer_read("t.json", (struct sl_str){changed.at, changed.length},
                                    (struct sl_str){NULL, 0}, &t),
                  SL_ERR_INPUT, reason);
    sl_text_free(&changed);
    free(text);
}

static void test_sabotage(void **state) {
    (void)state;
    refuse_change("\"BPE\"", "\"Wordy\"", "model 'Wordy' is not known");
    refuse_change("\"id\":1,", "\"id\":0,", "two tokens have the id 0");
    refuse_change("\"id\":1,", "\"id\":99999,", "ids up to 99999");
    refuse_change("\"merges\":[", "\"merges\":[\"a b c\",", "two tokens and a blank");
    refuse_change("\"merges\":[", "\"merges\":[[\"a\",\"zzzz\"],", "the second is not in");
    refuse_change("\"merges\":[", "\"merges\":[7,", "expected a merge");
    refuse_change("\"vocab\":{", "\"vocab\":[{", "expected");
}

static void test_every_truncation(void **state) {
    (void)state;
    size_t length;
    char *text = slurp(fixture("tokenizer-gpt2.json"), &length);
    for (size_t cut = 0; cut < length; cut += cut < 900 ? 1 : 37) {
        struct sl_tokenizer *t;
        char *part = malloc(cut + 1);
        memcpy(part, text, cut);
        assert_int_equal(
            sl_tokenizer_read("t.json", (struct sl_str){part, cut}, (struct sl_str){NULL, 0}, &t),
            SL_ERR_INPUT);
        free(part);
    }
    free(text);
}

static void test_missing(void **state) {
    (void)state;
    struct sl_tokenizer *t;
    SL_TEST_FAILS(sl_tokenizer_open("/nowhere/tokenizer.json", &t), SL_ERR_INPUT, "cannot open");
    const char *lonely = sl_test_text("vocab.json", "{}");
    SL_TEST_FAILS(sl_tokenizer_open(lonely, &t), SL_ERR_INPUT, "needs its merges");
    sl_test_text("merges.txt", "#version: 0.2\n");
    SL_TEST_FAILS(sl_tokenizer_open(sl_test_folder(), &t), SL_ERR_INPUT, "0 tokens");
    sl_test_folder_remove();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpt2),      cmocka_unit_test(test_prefix),
        cmocka_unit_test(test_llama3),    cmocka_unit_test(test_vocab_and_merges),
        cmocka_unit_test(test_bytes),     cmocka_unit_test(test_any_bytes),
        cmocka_unit_test(test_long_word), cmocka_unit_test(test_words),
        cmocka_unit_test(test_sabotage),  cmocka_unit_test(test_every_truncation),
        cmocka_unit_test(test_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
