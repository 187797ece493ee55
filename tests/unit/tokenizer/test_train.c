/* Training of a byte-level BPE: the file that the `tokenizers` package learns (tests/fixtures/make_bpe.py),
 * byte for byte; pieces of a file do not matter; the result encodes and decodes; refusals. */
#include "base/vec.h"
#include "support/data_files.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/train.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *fixture(const char *name, char path[4096]) {
    snprintf(path, 4096, "%s/tests/fixtures/bpe/%s", SL_TEST_SRC_DIR, name);
    return path;
}

static struct sl_tokenizer_train *open_train(int64_t vocab, int64_t min_frequency) {
    static const char *const special[] = {"<|endoftext|>", "the"};
    struct sl_tokenizer_train_config config = {vocab, min_frequency, special, SL_COUNT(special)};
    struct sl_tokenizer_train *train;
    SL_TEST_OK(sl_tokenizer_train_open(&config, &train));
    return train;
}

static struct sl_text finish(struct sl_tokenizer_train *train) {
    struct sl_text out = {0};
    sl_tokenizer_train_run(train);
    sl_tokenizer_train_write(train, &out);
    sl_tokenizer_train_close(train);
    return out;
}

static void test_package(void **state) {
    (void)state;
    char path[4096], *text, *want;
    size_t length, want_length;
    struct sl_tokenizer_train *file = open_train(420, 0), *memory = open_train(420, 0);
    SL_TEST_OK(sl_file_read(fixture("train.json", path), 1 << 20, &want, &want_length));
    SL_TEST_OK(sl_file_read(fixture("train.txt", path), 1 << 20, &text, &length));
    SL_TEST_OK(sl_tokenizer_train_file(file, path));
    SL_TEST_OK(sl_tokenizer_train_add(memory, "text", text, length));
    struct sl_tokenizer_train_facts facts = sl_tokenizer_train_facts(file);
    assert_int_equal(facts.bytes, length);
    struct sl_text a = finish(file), b = finish(memory);
    assert_int_equal(a.length, want_length);
    assert_memory_equal(a.at, want, want_length);
    assert_string_equal(a.at, b.at);
    sl_text_free(&a);
    sl_text_free(&b);
    free(text);
    free(want);
}

/* Lines longer than a piece that is read at a time, and pieces that end inside a line. */
static void test_pieces(void **state) {
    (void)state;
    char path[] = "/tmp/sl-train-XXXXXX";
    enum { LINES = 80000 };
    struct sl_text text = {0};
    struct sl_tokenizer_train *file = open_train(400, 2), *memory = open_train(400, 2);
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    for (int i = 0; i < LINES; i++)
        sl_text_printf(&text, "line %d of %x é%s", i, (unsigned)i * 2654435761U,
                       i % 3 && i > 60000 ? "\n" : " ");
    FILE *f = fdopen(fd, "w");
    assert_int_equal(fwrite(text.at, 1, text.length, f), text.length);
    fclose(f);
    assert_true(text.length > 1 << 20);
    SL_TEST_OK(sl_tokenizer_train_file(file, path));
    SL_TEST_OK(sl_tokenizer_train_add(memory, "text", text.at, text.length));
    remove(path);
    struct sl_text a = finish(file), b = finish(memory);
    assert_string_equal(a.at, b.at);
    sl_text_free(&a);
    sl_text_free(&b);
    sl_text_free(&text);
}

static void test_use(void **state) {
    (void)state;
    static const char text[] = "abab abab \xf0\x9f\x98\x80 abab\n\nabab the <|endoftext|>\r\n";
    struct sl_tokenizer_train *train = open_train(266, 0);
    struct sl_tokenizer *tokenizer;
    struct sl_tokens ids = {0};
    struct sl_text back = {0};
    SL_TEST_OK(sl_tokenizer_train_add(train, "text", text, sizeof text - 1));
    struct sl_text json = finish(train);
    SL_TEST_OK(sl_tokenizer_read("trained", (struct sl_str){json.at, json.length},
                                 (struct sl_str){0}, &tokenizer));
    assert_int_equal(sl_tokenizer_vocab(tokenizer), 266);
    sl_tokenizer_encode(tokenizer, text, sizeof text - 1, SL_TOKENIZER_PLAIN, &ids);
    assert_true(ids.count < (int64_t)sizeof text - 1);
    sl_tokenizer_decode(tokenizer, ids.at, ids.count, false, &back);
    assert_int_equal(back.length, sizeof text - 1);
    assert_memory_equal(back.at, text, back.length);
    assert_int_equal(sl_tokenizer_find(tokenizer, sl_str("<|endoftext|>")), 0);
    sl_tokenizer_close(tokenizer);
    SL_VEC_FREE(&ids);
    sl_text_free(&back);
    sl_text_free(&json);
}

/* The vocabulary may be smaller than asked for, or larger: bytes and special tokens always have ids. */
static void test_sizes(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t vocab, min_frequency, tokens, merges;
    } rows[] = {
        {"", 300, 0, 258, 0},     {"a", 300, 0, 258, 0},       {"ab", 300, 0, 259, 1},
        {"ab", 300, 2, 258, 0},   {"ab ab", 300, 2, 259, 1},   {"ab\nab", 300, 2, 259, 1},
        {"aaaa", 300, 0, 260, 2}, {"the the", 300, 0, 260, 3}, {"abc", 1, 0, 258, 0},
        {"abc", 259, 0, 259, 1},
    };
    for (int i = 0; i < SL_COUNT(rows); i++) {
        struct sl_tokenizer_train *train = open_train(rows[i].vocab, rows[i].min_frequency);
        SL_TEST_OK(sl_tokenizer_train_add(train, "text", rows[i].text, strlen(rows[i].text)));
        sl_tokenizer_train_run(train);
        struct sl_tokenizer_train_facts facts = sl_tokenizer_train_facts(train);
        if (facts.vocab != rows[i].tokens || facts.merges != rows[i].merges)
            fail_msg("'%s': %lld tokens and %lld merges, not %lld and %lld", rows[i].text,
                     (long long)facts.vocab, (long long)facts.merges, (long long)rows[i].tokens,
                     (long long)rows[i].merges);
        sl_tokenizer_train_close(train);
    }
}

static void test_refusals(void **state) {
    (void)state;
    static const char *const twice[] = {"<s>", "<s>"}, *const empty[] = {""},
                             *const bad[] = {"\xff"};
    const struct sl_tokenizer_train_config configs[] = {
        {.vocab = 0},
        {.vocab = 1LL << 40},
        {.vocab = 300, .special = twice, .special_count = 2},
        {.vocab = 300, .special = empty, .special_count = 1},
        {.vocab = 300, .special = bad, .special_count = 1},
    };
    struct sl_tokenizer_train *train = NULL;
    for (int i = 0; i < SL_COUNT(configs); i++)
        assert_int_equal(sl_tokenizer_train_open(&configs[i], &train), SL_ERR_USAGE);
    train = open_train(300, 0);
    assert_int_equal(sl_tokenizer_train_add(train, "x.txt", "a\nb\xff\n", 5), SL_ERR_INPUT);
    assert_non_null(strstr(sl_err_message(), "x.txt: line 2 is not UTF-8"));
    assert_int_equal(sl_tokenizer_train_file(train, "/nonexistent/x"), SL_ERR_INPUT);
    assert_int_not_equal(sl_tokenizer_train_file(train, "/tmp"), SL_OK);
    sl_tokenizer_train_close(train);
    sl_tokenizer_train_close(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_package), cmocka_unit_test(test_pieces),   cmocka_unit_test(test_use),
        cmocka_unit_test(test_sizes),   cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
