/* Tokenizers of all models against the `tokenizers` package (tests/fixtures/make_tokenizers.py): ids
 * and decoded texts are equal. Damaged files are refused with a reason. */
#include "base/vec.h"
#include "support/data_files.h"
#include "tokenizer/tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const names[] = {
    "affixes",  "albert",        "bert",      "deepseek", "distilbert-multilingual",
    "gemma",    "gpt2",          "gpt-4o",    "llama2",   "llama3",
    "gpt-neox", "qwen2",         "roberta",   "ruby",     "t5",
    "xlnet",    "unigram-bytes", "wordlevel",
};

static const char *fixture(const char *name, const char *end) {
    static char path[2][4096];
    static int turn;
    turn ^= 1;
    snprintf(path[turn], sizeof path[turn], "%s/tests/fixtures/tokenizers/%s%s", SL_TEST_SRC_DIR,
             name, end);
    return path[turn];
}

static __attribute__((noinline)) char *slurp(const char *path, size_t *length) {
    char *text = NULL;
    SL_TEST_OK(sl_file_read(path, 1 << 26, &text, length));
    return text;
}

static void check_ids(struct sl_json_in *json, const struct sl_tokens *ids, const char *name,
                      const char *text) {
    SL_TEST_OK(sl_json_take(json, SL_JSON_KEY));
    SL_TEST_OK(sl_json_take(json, SL_JSON_ARRAY));
    for (int64_t i = 0;; i++) {
        SL_TEST_OK(sl_json_next(json));
        if (json->event == SL_JSON_ARRAY_END) {
            if (i != ids->count)
                fail_msg("%s, '%s': %lld tokens, expected %lld", name, text, (long long)ids->count,
                         (long long)i);
            return;
        }
        if (i >= ids->count || ids->at[i] != (int32_t)json->number)
            fail_msg("%s, '%s': token %lld is %d, expected %g", name, text, (long long)i,
                     i < ids->count ? ids->at[i] : -1, json->number);
    }
}

static void check_text(struct sl_json_in *json, const struct sl_tokenizer *t,
                       const struct sl_tokens *ids, bool skip_special, const char *name) {
    struct sl_arena arena = {0};
    struct sl_text text = {0};
    struct sl_str want;
    SL_TEST_OK(sl_json_take(json, SL_JSON_KEY));
    SL_TEST_OK(sl_json_take(json, SL_JSON_STRING));
    want = sl_json_unescape_str(json, &arena);
    sl_tokenizer_decode(t, ids->at, ids->count, skip_special, &text);
    if (!sl_str_equal(want, (struct sl_str){text.at, text.length}))
        fail_msg("%s decodes '%s', expected '%s'", name, text.at, want.at);
    sl_text_free(&text);
    sl_arena_free(&arena);
}

static int check_tokenizer(const char *name) {
    struct sl_tokenizer *t;
    struct sl_json_in texts, expect;
    struct sl_arena arena = {0};
    size_t length[2];
    int count = 0;
    char *text[2] = {slurp(fixture("texts", ".json"), &length[0]),
                     slurp(fixture(name, ".expect.json"), &length[1])};
    SL_TEST_OK(sl_tokenizer_open(fixture(name, ".json"), &t));
    assert_true(sl_tokenizer_bytes(t) > 0);
    sl_json_read(&texts, "texts", text[0], length[0]);
    sl_json_read(&expect, name, text[1], length[1]);
    SL_TEST_OK(sl_json_take(&texts, SL_JSON_ARRAY));
    SL_TEST_OK(sl_json_take(&expect, SL_JSON_ARRAY));
    for (;; count++) {
        struct sl_tokens ids = {0};
        SL_TEST_OK(sl_json_next(&texts));
        if (texts.event == SL_JSON_ARRAY_END)
            break;
        struct sl_str one = sl_json_unescape_str(&texts, &arena);
        sl_tokenizer_encode(t, one.at, one.length, SL_TOKENIZER_WHOLE, &ids);
        SL_TEST_OK(sl_json_take(&expect, SL_JSON_OBJECT));
        check_ids(&expect, &ids, name, one.at);
        check_text(&expect, t, &ids, false, name);
        check_text(&expect, t, &ids, true, name);
        SL_TEST_OK(sl_json_take(&expect, SL_JSON_OBJECT_END));
        SL_VEC_FREE(&ids);
    }
    sl_tokenizer_close(t);
    sl_arena_free(&arena);
    free(text[0]);
    free(text[1]);
    return count;
}

static void test_package(void **state) {
    int count = 0;
    (void)state;
    for (int i = 0; i < SL_COUNT(names); i++)
        count += check_tokenizer(names[i]);
    assert_true(count > 800);
    printf("count: %d texts and tokenizers\n", count);
}

/* Any bytes: nothing crashes, and ids are in range. Parts that are not UTF-8 count as U+FFFD. */
static void test_any_bytes(void **state) {
    (void)state;
    srand(11);
    for (int k = 0; k < SL_COUNT(names); k++) {
        struct sl_tokenizer *t;
        SL_TEST_OK(sl_tokenizer_open(fixture(names[k], ".json"), &t));
        for (int round = 0; round < 60; round++) {
            char text[6000];
            size_t length = (size_t)rand() % (round % 10 ? 100 : sizeof text);
            struct sl_tokens ids = {0};
            struct sl_text back = {0};
            for (size_t i = 0; i < length; i++)
                text[i] = (char)(rand() % (round % 2 ? 256 : 0xe4));
            sl_tokenizer_encode(t, text, length, SL_TOKENIZER_WHOLE, &ids);
            for (int64_t i = 0; i < ids.count; i++)
                assert_in_range(ids.at[i], 0, sl_tokenizer_vocab(t) - 1);
            sl_tokenizer_decode(t, ids.at, ids.count, true, &back);
            sl_text_free(&back);
            SL_VEC_FREE(&ids);
        }
        sl_tokenizer_close(t);
    }
    struct sl_tokenizer *t;
    struct sl_tokens a = {0}, b = {0};
    static const char broken[] = "x\xe2\x82y\xf0\x9f\x98 \xc3\xff";
    static const char fixed[] = "x\xef\xbf\xbdy\xef\xbf\xbd \xef\xbf\xbd\xef\xbf\xbd";
    SL_TEST_OK(sl_tokenizer_open(fixture("gpt2", ".json"), &t));
    sl_tokenizer_encode(t, broken, sizeof broken - 1, SL_TOKENIZER_MATCH, &a);
    sl_tokenizer_encode(t, fixed, sizeof fixed - 1, SL_TOKENIZER_MATCH, &b);
    assert_int_equal(a.count, b.count);
    assert_memory_equal(a.at, b.at, sizeof *a.at * (size_t)a.count);
    SL_VEC_FREE(&a);
    SL_VEC_FREE(&b);
    sl_tokenizer_close(t);
}

/* Pieces: what sl_tokenizer_piece gives for each id is what decoding adds. */
static void test_pieces(void **state) {
    static const struct {
        const char *name, *text, *pieces;
    } cases[] = {
        {"llama2", "the water\n", " the water\n"},
        {"bert", "the water opens", " the water opens"},
        {"t5", "the water gate", " the water gate"},
        {"gpt2", "the water\n", "the water\n"},
        {"llama2", "\xe2\x80\xa6", " \xe2\x80\xa6"},
    };
    (void)state;
    for (int i = 0; i < SL_COUNT(cases); i++) {
        struct sl_tokenizer *t;
        struct sl_tokens ids = {0};
        struct sl_text text = {0};
        SL_TEST_OK(sl_tokenizer_open(fixture(cases[i].name, ".json"), &t));
        sl_tokenizer_encode(t, cases[i].text, strlen(cases[i].text), SL_TOKENIZER_MATCH, &ids);
        sl_text_put(&text, "");
        for (int64_t k = 0; k < ids.count; k++) {
            struct sl_str piece = sl_tokenizer_piece(t, ids.at[k]);
            sl_text_put_bytes(&text, piece.at, piece.length);
        }
        assert_string_equal(text.at, cases[i].pieces);
        SL_VEC_FREE(&ids);
        sl_text_free(&text);
        sl_tokenizer_close(t);
    }
}

/* Replace the first `old` of a fixture by `fresh`; reading must then fail. */
static void refuse_change(const char *name, const char *old, const char *fresh,
                          const char *reason) {
    struct sl_tokenizer *t;
    struct sl_text changed = {0};
    size_t length;
    char *text = slurp(fixture(name, ".json"), &length);
    char *at = strstr(text, old);
    if (!at)
        fail_msg("%s has no %s", name, old);
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
    refuse_change("bert", "\"WordPiece\",\"unk", "\"Piecewise\",\"unk", "model 'Piecewise'");
    refuse_change("bert", "BertNormalizer", "AlbertNormalizer", "normalizer 'AlbertNormalizer'");
    refuse_change("bert", "BertPreTokenizer", "Jieba", "pre-tokenizer 'Jieba'");
    refuse_change("bert", "TemplateProcessing", "Mould", "post-processor 'Mould'");
    refuse_change("bert", "\"decoder\":{\"type\":\"WordPiece\"", "\"decoder\":{\"type\":\"Magic\"",
                  "decoder 'Magic'");
    refuse_change("bert", "\"clean_text\"", "\"polish_text\"", "setting 'polish_text'");
    refuse_change("bert", "\"unk_token\":\"[UNK]\"", "\"unk_token\":\"[WHAT]\"",
                  "'[WHAT]' is not in");
    refuse_change("bert", "\"ids\":[2]", "\"ids\":[99999]", "expected an id below");
    refuse_change("bert", "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}},", "", "has it 0 times");
    refuse_change("gpt2", "\"dropout\":null", "\"dropout\":0.1", "dropout 0.1");
    refuse_change("t5", "\"unk_id\":2", "\"unk_id\":null", "without unk_id");
    refuse_change("t5", "\"unk_id\":2", "\"unk_id\":99999", "expected a whole number");
    refuse_change("t5", "\"precompiled_charsmap\":\"", "\"precompiled_charsmap\":\"////", "states");
    refuse_change("t5", "\"precompiled_charsmap\":\"", "\"precompiled_charsmap\":\"#", "base64");
    refuse_change("t5", "\"prepend_scheme\":\"always\"", "\"prepend_scheme\":\"often\"", "'often'");
    refuse_change("llama3", "{\"Regex\":\"", "{\"Regex\":\"(", "cannot be used");
    refuse_change("llama3", "{\"Regex\":\"", "{\"Regex\":\"\\\\p{Klingon}", "'Klingon'");
    refuse_change("llama3", "\"Isolated\"", "\"Insulated\"", "'Insulated'");
    refuse_change("llama3", "\"merges\":[", "\"merges\":[\"a b c\",", "two tokens and a blank");
    refuse_change("llama3", "\"merges\":[", "\"merges\":[[\"a\",\"zzzz\"],",
                  "the second is not in");
    refuse_change("llama3", "\"id\":1,", "\"id\":0,", "two tokens have the id 0");
    refuse_change("llama3", "\"id\":1,", "\"id\":99999,", "ids up to 99999");
    refuse_change("llama3", "\"model\":", "\"mode\":", "setting 'mode'");
}

static void test_every_truncation(void **state) {
    (void)state;
    for (int k = 0; k < SL_COUNT(names); k += 4) {
        size_t length;
        char *text = slurp(fixture(names[k], ".json"), &length);
        for (size_t cut = 0; cut < length; cut += 29) {
            struct sl_tokenizer *t;
            char *part = malloc(cut + 1);
            memcpy(part, text, cut);
            assert_int_equal(sl_tokenizer_read("t.json", (struct sl_str){part, cut},
                                               (struct sl_str){NULL, 0}, &t),
                             SL_ERR_INPUT);
            free(part);
        }
        free(text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_package),          cmocka_unit_test(test_any_bytes),
        cmocka_unit_test(test_pieces),           cmocka_unit_test(test_sabotage),
        cmocka_unit_test(test_every_truncation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
