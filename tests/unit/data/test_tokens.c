/* Token sets: windows, targets, shards, splits, masked objective, and refusals of damaged files. */
#include "support/data_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { T = 7, V = 101 };

static struct sl_data_spec spec_of(const char *source, struct sl_data_input inputs[2],
                                   int64_t below) {
    inputs[0] = sl_test_int("tokens", T, below);
    inputs[1] = sl_test_int("targets", T, below);
    return (struct sl_data_spec){
        .source = source, .inputs = inputs, .input_count = 2, .in_order = true};
}

static int32_t token_no(int64_t i) { return (int32_t)((i * 37 + 11) % V); }

/* A file of `header` and `count` tokens of `width` bytes. */
static const char *token_file(const char *name, const void *header, size_t header_bytes,
                              int64_t count, int width) {
    struct sl_text out = {0};
    sl_text_put_bytes(&out, header, header_bytes);
    for (int64_t i = 0; i < count; i++) {
        int64_t token = token_no(i);
        sl_text_put_bytes(&out, &token, (size_t)width);
    }
    const char *path = sl_test_file(name, out.at, out.length);
    sl_text_free(&out);
    return path;
}

static const char *llmc_file(const char *name, int32_t magic, int32_t version, int32_t said,
                             int64_t count) {
    int32_t header[256] = {magic, version, said};
    return token_file(name, header, sizeof header, count, magic == 20240801 ? 4 : 2);
}

/* Sample n of an unshuffled set of one shard starts at token n * T. */
static void check_windows(const struct sl_data *data, int64_t samples) {
    int32_t tokens[2 * T], targets[2 * T];
    assert_int_equal(sl_data_count(data, SL_DATA_TRAIN), samples);
    for (int64_t n = 0; n + 1 < samples; n++) {
        SL_TEST_OK(sl_data_fill(data, SL_DATA_TRAIN, n, 2, 0, tokens));
        SL_TEST_OK(sl_data_fill(data, SL_DATA_TRAIN, n, 2, 1, targets));
        for (int i = 0; i < 2 * T; i++) {
            assert_int_equal(tokens[i], token_no(n * T + i));
            assert_int_equal(targets[i], token_no(n * T + i + 1));
        }
    }
}

static void check_file(const char *source, int64_t samples) {
    struct sl_data_input inputs[2];
    struct sl_data_spec spec = spec_of(source, inputs, V);
    struct sl_data *data;
    SL_TEST_OK(sl_data_open(&spec, &data));
    check_windows(data, samples);
    SL_TEST_OK(sl_data_check(data));
    sl_data_close(data);
}

static void test_formats(void **state) {
    (void)state;
    check_file(llmc_file("a.bin", 20240520, 1, 100, 100), 14);
    check_file(llmc_file("b.bin", 20240801, 7, 106, 106), 15);
    const char *raw = token_file("c.bin", NULL, 0, 99, 2);
    check_file(raw, 14);
    struct sl_text source = {0};
    sl_text_printf(&source, "u32:%s", token_file("d.bin", NULL, 0, 98, 4));
    check_file(source.at, 13);
    sl_text_free(&source);
    check_file(token_file("e.txt", NULL, 0, 50, 1), 7);
}

/* Compressed text, and two shards: windows do not cross shards. */
static void test_shards(void **state) {
    (void)state;
    struct sl_data_input inputs[2];
    struct sl_text source = {0};
    struct sl_data *data;
    int32_t tokens[T];
    const char *first = sl_test_gzip("s1.txt.gz", "abcdefghijklmnop", 16);
    sl_text_printf(&source, "text:%s,%s", first, sl_test_text("s2.txt", "ABCDEFGHIJKLMNOPQRSTUVW"));
    struct sl_data_spec spec = spec_of(source.at, inputs, 256);
    SL_TEST_OK(sl_data_open(&spec, &data));
    assert_int_equal(sl_data_count(data, SL_DATA_TRAIN), 2 + 3);
    SL_TEST_OK(sl_data_fill(data, SL_DATA_TRAIN, 2, 1, 1, tokens));
    for (int i = 0; i < T; i++)
        assert_int_equal(tokens[i], 'B' + i);
    assert_non_null(sl_data_tokenizer(data));
    sl_data_close(data);
    sl_text_free(&source);
}

/* ---- Megatron ---- */

struct megatron {
    unsigned char idx[512], bin[512];
    size_t idx_bytes, bin_bytes;
};

static void put(unsigned char *at, size_t *used, int64_t value, size_t width) {
    memcpy(at + *used, &value, width);
    *used += width;
}

static struct megatron megatron(int type, int width) {
    static const int lengths[] = {5, 11, 0, 30};
    struct megatron m = {0};
    memcpy(m.idx, "MMIDIDX\0\0", 9);
    m.idx_bytes = 9;
    put(m.idx, &m.idx_bytes, 1, 8);
    put(m.idx, &m.idx_bytes, type, 1);
    put(m.idx, &m.idx_bytes, 4, 8);
    put(m.idx, &m.idx_bytes, 2, 8);
    for (int i = 0; i < 4; i++)
        put(m.idx, &m.idx_bytes, lengths[i], 4);
    int64_t at = 0;
    for (int i = 0; i < 4; i++) {
        put(m.idx, &m.idx_bytes, at * width, 8);
        at += lengths[i];
    }
    put(m.idx, &m.idx_bytes, 0, 8);
    put(m.idx, &m.idx_bytes, 4, 8);
    for (int64_t i = 0; i < at; i++)
        put(m.bin, &m.bin_bytes, token_no(i), (size_t)width);
    return m;
}

static sl_err open_megatron(const struct megatron *m, struct sl_data **data) {
    struct sl_data_input inputs[2];
    struct sl_data_file files[2] = {{"x.idx", m->idx, (int64_t)m->idx_bytes},
                                    {"x.bin", m->bin, (int64_t)m->bin_bytes}};
    struct sl_data_spec spec = spec_of("megatron:", inputs, V);
    return sl_data_open_memory(&spec, files, 2, data);
}

static void test_megatron(void **state) {
    (void)state;
    static const struct { int code, width; } types[] = {{1, 1}, {3, 2}, {4, 4}, {5, 8}, {8, 2}};
    for (int i = 0; i < SL_COUNT(types); i++) {
        struct megatron m = megatron(types[i].code, types[i].width);
        struct sl_data *data;
        SL_TEST_OK(open_megatron(&m, &data));
        check_windows(data, 6);
        sl_data_close(data);
    }
    struct megatron m = megatron(8, 2);
    sl_test_file("m.idx", m.idx, m.idx_bytes);
    const char *path = sl_test_file("m.bin", m.bin, m.bin_bytes);
    check_file(path, 6); /* finds the .idx of the same name */
}

static void test_megatron_sabotage(void **state) {
    (void)state;
    struct sl_data *data;
    struct megatron good = megatron(8, 2), m = good;
    m.idx[0] = 'X';
    SL_TEST_FAILS(open_megatron(&m, &data), SL_ERR_INPUT, "MMIDIDX");
    m = good;
    m.idx[9] = 2;
    SL_TEST_FAILS(open_megatron(&m, &data), SL_ERR_INPUT, "version 2");
    m = good;
    m.idx[17] = 6;
    SL_TEST_FAILS(open_megatron(&m, &data), SL_ERR_INPUT, "type code 6");
    m = good;
    m.idx[25] = 0x7f; /* 2^62 sequences */
    SL_TEST_FAILS(open_megatron(&m, &data), SL_ERR_INPUT, "truncated?");
    m = good;
    m.idx[34]++; /* the first length */
    SL_TEST_FAILS(open_megatron(&m, &data), SL_ERR_INPUT, "sequence 1");
    m = good;
    m.idx[37] = 0x80; /* a negative length */
    SL_TEST_FAILS(open_megatron(&m, &data), SL_ERR_INPUT, "sequence 0");
    m = good;
    m.bin_bytes -= 2;
    SL_TEST_FAILS(open_megatron(&m, &data), SL_ERR_INPUT, "sequence 3");
    m = good;
    m.bin_bytes += 2;
    SL_TEST_FAILS(open_megatron(&m, &data), SL_ERR_INPUT, "its index states");
    for (m = good; m.idx_bytes > 0;) {
        m.idx_bytes--;
        assert_int_equal(open_megatron(&m, &data), SL_ERR_INPUT);
    }
}

/* ---- refusals ---- */

static void refuse(const char *source, int64_t below, const char *reason) {
    struct sl_data_input inputs[2];
    struct sl_data_spec spec = spec_of(source, inputs, below);
    struct sl_data *data;
    SL_TEST_FAILS(sl_data_open(&spec, &data), SL_ERR_INPUT, reason);
}

static void test_sabotage(void **state) {
    (void)state;
    refuse(llmc_file("bad1.bin", 20240520, 1, 101, 100), V, "truncated");
    refuse(llmc_file("bad2.bin", 20240520, 1, 99, 100), V, "longer than stated");
    refuse(llmc_file("bad3.bin", 20240520, 2, 100, 100), V, "version 2");
    refuse(llmc_file("bad4.bin", 20240522, 1, 100, 100), V, "evaluation file");
    refuse(llmc_file("bad5.bin", 20240520, 1, 7, 7), V, "too few");
    refuse(llmc_file("ok.bin", 20240520, 1, 100, 100), 50, "not in [0, 50)");
    refuse(sl_test_text("empty.txt", ""), 256, "is empty");
    refuse(sl_test_file("odd.bin", "abc", 3), V, "truncated or of another kind");
    refuse("/nowhere/at/all.bin", V, "cannot open");
    refuse(sl_test_folder(), V, "has no folders");
    refuse("tekst:x", V, "did you mean text?");
    refuse(sl_test_file("strange", "\x01\x02\x03\x04\x05\x06\x07\x00", 8), V, "cannot tell");
    refuse("llmc:", V, "no file given");
    struct sl_text source = {0};
    sl_text_printf(&source, "llmc:%s", sl_test_text("short.bin", "x"));
    refuse(source.at, V, "1024 bytes of header");
    sl_text_free(&source);
}

static void test_wrong_inputs(void **state) {
    (void)state;
    struct sl_data *data;
    const char *path = sl_test_text("w.txt", "some text that is long enough");
    struct sl_data_input inputs[3] = {sl_test_int("tokens", T, 256), sl_test_int("targets", T, 256),
                                      sl_test_float("image", 3, 8, 8)};
    struct sl_data_spec spec = {.source = path, .inputs = inputs, .input_count = 3};
    SL_TEST_FAILS(sl_data_open(&spec, &data), SL_ERR_INPUT, "'image' float[B,3,8,8]");
    SL_TEST_FAILS(sl_data_open(&spec, &data), SL_ERR_INPUT, "it offers tokens and targets");
    inputs[1] = sl_test_int("targets", T + 1, 256);
    spec.input_count = 2;
    SL_TEST_FAILS(sl_data_open(&spec, &data), SL_ERR_INPUT, "of one length");
    spec.inputs = inputs + 1;
    spec.input_count = 1;
    SL_TEST_FAILS(sl_data_open(&spec, &data), SL_ERR_INPUT, "no input for tokens");
    inputs[1] = sl_test_int("tokens", T, 256);
    spec.validation = 100;
    SL_TEST_FAILS(sl_data_open(&spec, &data), SL_ERR_INPUT, "none to train on");
    spec.validation = -1;
    SL_TEST_FAILS(sl_data_open(&spec, &data), SL_ERR_USAGE, "validation");
}

/* A bad token far from the start is found when it is read. */
static void test_late_bad_token(void **state) {
    (void)state;
    enum { COUNT = 1 << 17 };
    unsigned char *bytes = calloc(COUNT, 2);
    int32_t tokens[T];
    struct sl_data_input inputs[2];
    struct sl_data *data;
    bytes[2 * (COUNT - 5)] = 200;
    struct sl_data_spec spec = spec_of(sl_test_file("late.bin", bytes, 2 * COUNT), inputs, V);
    SL_TEST_OK(sl_data_open(&spec, &data));
    SL_TEST_OK(sl_data_fill(data, SL_DATA_TRAIN, 0, 1, 0, tokens));
    int64_t last = sl_data_count(data, SL_DATA_TRAIN) - 1;
    SL_TEST_FAILS(sl_data_fill(data, SL_DATA_TRAIN, last, 1, 1, tokens), SL_ERR_INPUT,
                  "the value 200 is not in [0, 101)");
    assert_int_equal(sl_data_check(data), SL_ERR_INPUT);
    sl_data_close(data);
    free(bytes);
}

/* A file that shrinks while it is used is an error, not a signal. */
static void test_vanishing(void **state) {
    (void)state;
    int32_t tokens[T];
    struct sl_data_input inputs[2];
    struct sl_data *data;
    const char *path = token_file("gone.bin", NULL, 0, 1000, 2);
    struct sl_data_spec spec = spec_of(path, inputs, V);
    SL_TEST_OK(sl_data_open(&spec, &data));
    assert_int_equal(truncate(path, 100), 0);
    SL_TEST_FAILS(sl_data_fill(data, SL_DATA_TRAIN, 100, 1, 0, tokens), SL_ERR_SYSTEM,
                  "somebody is writing to it");
    sl_data_close(data);
}

/* ---- masked ---- */

static void test_masked(void **state) {
    (void)state;
    enum { LONG = 256, SAMPLES = 100 };
    char *text = malloc(LONG * SAMPLES);
    for (int i = 0; i < LONG * SAMPLES; i++)
        text[i] = (char)('a' + i % 26);
    struct sl_data_input inputs[4] = {
        sl_test_int("tokens", LONG, 300), sl_test_int("targets", LONG, 300),
        sl_test_int("mask", LONG, 2), sl_test_int("segments", LONG, 2)};
    struct sl_data_spec spec = {.source = "text:", .inputs = inputs, .input_count = 4, .seed = 3};
    struct sl_data_file file = {"t", text, LONG * SAMPLES};
    struct sl_data *data;
    int32_t tokens[LONG], targets[LONG], mask[LONG], segments[LONG];
    int64_t hidden = 0, replaced = 0, same = 0, valid;
    SL_TEST_OK(sl_data_open_memory(&spec, &file, 1, &data));
    assert_int_equal(sl_data_count(data, SL_DATA_TRAIN), SAMPLES);
    for (int64_t n = 0; n < SAMPLES; n++) {
        int64_t here = 0;
        SL_TEST_OK(sl_data_fill(data, SL_DATA_TRAIN, n, 1, 0, tokens));
        SL_TEST_OK(sl_data_fill(data, SL_DATA_TRAIN, n, 1, 1, targets));
        SL_TEST_OK(sl_data_fill(data, SL_DATA_TRAIN, n, 1, 2, mask));
        SL_TEST_OK(sl_data_fill(data, SL_DATA_TRAIN, n, 1, 3, segments));
        for (int i = 0; i < LONG; i++) {
            assert_int_equal(mask[i], 1);
            assert_int_equal(segments[i], 0);
            if (targets[i] == SL_DATA_IGNORE) {
                assert_in_range(tokens[i], 'a', 'z');
                continue;
            }
            here++;
            assert_in_range(targets[i], 'a', 'z');
            replaced += tokens[i] == 256; /* the first id that is no byte */
            same += tokens[i] == targets[i];
        }
        SL_TEST_OK(sl_data_count_valid(data, SL_DATA_TRAIN, n, 1, 1, &valid));
        assert_int_equal(valid, here);
        assert_true(here > 0);
        hidden += here;
    }
    double share = (double)hidden / (LONG * SAMPLES);
    assert_true(share > 0.14 && share < 0.16);
    assert_true((double)replaced > 0.77 * (double)hidden &&
                (double)replaced < 0.83 * (double)hidden);
    assert_true((double)same > 0.08 * (double)hidden && (double)same < 0.125 * (double)hidden);
    SL_TEST_OK(sl_data_count_valid(data, SL_DATA_TRAIN, 0, SAMPLES, 1, &valid));
    assert_int_equal(valid, hidden);
    SL_TEST_OK(sl_data_count_valid(data, SL_DATA_TRAIN, 0, SAMPLES, 0, &valid));
    assert_int_equal(valid, LONG * SAMPLES);
    sl_data_close(data);
    free(text);
}

/* An ignore value that is also a token is counted by reading; `masked:` and its ignore value. */
static void test_ignore(void **state) {
    (void)state;
    struct sl_data_input inputs[2];
    struct sl_data *data;
    int64_t valid;
    int32_t targets[T];
    const char *path = sl_test_text("i.txt", "aababbabaaabbbababab");
    struct sl_data_spec spec = spec_of(path, inputs, 256);
    inputs[1].has_ignore = true;
    inputs[1].ignore = 'b';
    SL_TEST_OK(sl_data_open(&spec, &data));
    SL_TEST_OK(sl_data_count_valid(data, SL_DATA_TRAIN, 0, 2, 1, &valid));
    assert_int_equal(valid, 7); /* the a's of ababbab aaabbba */
    sl_data_close(data);
    struct sl_text source = {0};
    sl_text_printf(&source, "masked:text:%s", path);
    spec.source = source.at;
    inputs[1].ignore = -7;
    SL_TEST_OK(sl_data_open(&spec, &data));
    SL_TEST_OK(sl_data_fill(data, SL_DATA_TRAIN, 0, 1, 1, targets));
    int ignored = 0;
    for (int i = 0; i < T; i++)
        ignored += targets[i] == -7;
    assert_in_range(ignored, 1, T - 1);
    sl_data_close(data);
    sl_text_free(&source);
}

/* The mask token of a tokenizer is its [MASK], also if that is number 0. */
static void test_mask_token(void **state) {
    enum { LENGTH = 40 };
    (void)state;
    sl_test_text("tokenizer.json",
                 "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens\":[],"
                 "\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"Whitespace\"},"
                 "\"post_processor\":null,\"decoder\":null,\"model\":{\"type\":\"WordLevel\","
                 "\"vocab\":{\"[MASK]\":0,\"a\":1,\"b\":2},\"unk_token\":\"b\"}}");
    struct sl_text text = {0}, path = {0};
    for (int i = 0; i < 4000; i++)
        sl_text_put(&text, i % 3 ? "a " : "b ");
    sl_text_printf(&path, "masked:text:%s", sl_test_text("words.txt", text.at));
    char tokenizer[512];
    snprintf(tokenizer, sizeof tokenizer, "%s/tokenizer.json", sl_test_folder());
    struct sl_data_input inputs[2] = {sl_test_int("tokens", LENGTH, 50),
                                      sl_test_int("targets", LENGTH, 50)};
    struct sl_data_spec spec = {.source = path.at,
                                .inputs = inputs,
                                .input_count = 2,
                                .tokenizer = tokenizer,
                                .validation = 2};
    struct sl_data *data;
    int32_t tokens[8 * LENGTH];
    int masked = 0;
    SL_TEST_OK(sl_data_open(&spec, &data));
    SL_TEST_OK(sl_data_fill(data, SL_DATA_TRAIN, 0, 8, 0, tokens));
    for (int i = 0; i < 8 * LENGTH; i++) {
        assert_in_range(tokens[i], 0, 2); /* not the first unused id, 3 */
        masked += tokens[i] == 0;
    }
    assert_in_range(masked, 15, 80); /* 12 % of 320 */
    sl_data_close(data);
    sl_text_free(&text);
    sl_text_free(&path);
}

/* ---- real files ---- */

static void test_shakespeare(void **state) {
    (void)state;
    const char *path = sl_test_shared("tinyshakespeare.txt");
    if (!path)
        skip();
    struct sl_data_input inputs[2] = {sl_test_int("tokens", 64, 256),
                                      sl_test_int("targets", 64, 256)};
    struct sl_data_spec spec = {
        .source = path, .inputs = inputs, .input_count = 2, .validation = 0.1, .in_order = true};
    struct sl_data *data;
    int32_t tokens[64];
    struct sl_text line = {0};
    SL_TEST_OK(sl_data_open(&spec, &data));
    assert_int_equal(sl_data_count(data, SL_DATA_TRAIN) + sl_data_count(data, SL_DATA_VALID),
                     1115393 / 64);
    SL_TEST_OK(sl_data_fill(data, SL_DATA_TRAIN, 0, 1, 0, tokens));
    for (int i = 0; i < 13; i++)
        assert_int_equal(tokens[i], "First Citizen"[i]);
    SL_TEST_OK(sl_data_check(data));
    sl_data_describe(data, &line);
    assert_non_null(strstr(line.at, "windows of 64, next token"));
    assert_true(sl_data_bytes(data) < 100000); /* read from the file on demand */
    sl_text_free(&line);
    sl_data_close(data);
    spec.tokenizer = SL_TEST_SRC_DIR "/tests/fixtures/bpe/tokenizer-gpt2.json";
    inputs[0].below = inputs[1].below = 420;
    SL_TEST_OK(sl_data_open(&spec, &data));
    assert_true(sl_data_bytes(data) < 2 * 1115394 + (1 << 20));
    SL_TEST_OK(sl_data_fill(data, SL_DATA_VALID, 0, 1, 0, tokens));
    sl_data_close(data);
    inputs[0].below = 256;
    SL_TEST_FAILS(sl_data_open(&spec, &data), SL_ERR_INPUT, "another tokenizer");
}

static int remove_folder(void **state) {
    (void)state;
    sl_test_folder_remove();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formats),        cmocka_unit_test(test_shards),
        cmocka_unit_test(test_megatron),       cmocka_unit_test(test_megatron_sabotage),
        cmocka_unit_test(test_sabotage),       cmocka_unit_test(test_wrong_inputs),
        cmocka_unit_test(test_late_bad_token), cmocka_unit_test(test_vanishing),
        cmocka_unit_test(test_masked),         cmocka_unit_test(test_ignore),
        cmocka_unit_test(test_mask_token),     cmocka_unit_test(test_shakespeare),
    };
    return cmocka_run_group_tests(tests, NULL, remove_folder);
}
