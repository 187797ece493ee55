/* safetensors: round trips, a file written by Python, and all errors a header can have. */
#include "base/hash.h"
#include "base/rng.h"
#include "base/safetensors.h"
#include "base/sort.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void must(sl_err err) {
    if (err != SL_OK)
        fail_msg("error %d: %s", (int)err, sl_err_message());
}

static sl_err to_text(void *ctx, const void *bytes, size_t length) {
    sl_text_put_bytes(ctx, bytes, length);
    return SL_OK;
}

static unsigned char byte_of(int64_t number, int64_t at) {
    return (unsigned char)(number * 37 + at * 11 + 1);
}

/* Random shapes and dtypes; the bytes are written in uneven pieces. */
static void what_is_written_is_read(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 60; seed++) {
        struct sl_text file = {0}, header = {0};
        struct sl_st_writer writer;
        struct sl_st_tensor made[40] = {{0}};
        struct sl_st st;
        const struct sl_st_entry *entry;
        int count = (int)sl_rng_below(seed, 1, 0, 40);
        sl_st_writer_open(&writer, (struct sl_st_sink){&file, to_text});
        if (seed % 2)
            sl_st_writer_note(&writer, "a \"b\"\n", "line\nü\t\x02");
        for (int i = 0; i < count; i++) {
            char name[40];
            snprintf(name, sizeof name, "t%d.\"\\/ \xe4\xb8\xad", (i * 7) % count);
            made[i].name = strdup(name);
            made[i].dtype = (enum sl_st_dtype)sl_rng_below(seed, 2, (uint64_t)i, SL_ST_DTYPE_COUNT);
            made[i].rank = (int)sl_rng_below(seed, 3, (uint64_t)i, 5);
            for (int k = 0; k < made[i].rank; k++)
                made[i].dim[k] = sl_rng_below(seed, 4, (uint64_t)(i * 8 + k), 6);
        }
        bool unique = count == 0 || count % 7 != 0;
        for (int i = 0; i < count; i++)
            must(sl_st_writer_add(&writer, &made[i]));
        sl_err err = sl_st_writer_start(&writer, &header);
        if (!unique) {
            assert_int_equal(err, SL_ERR_INPUT);
            goto next;
        }
        must(err);
        assert_int_equal(header.length % 8, 0);
        while ((entry = sl_st_writer_next(&writer)) != NULL) {
            int64_t number = entry->number, size = entry->tensor.size_bytes;
            assert_int_equal(entry->tensor.offset % sl_st_dtype_bytes(entry->tensor.dtype), 0);
            for (int64_t at = 0; at < size;) {
                unsigned char piece[7];
                int64_t share = size - at < 7 ? size - at : 7;
                for (int64_t k = 0; k < share; k++)
                    piece[k] = byte_of(number, at + k);
                must(sl_st_writer_put(&writer, piece, share));
                at += share;
            }
        }
        must(sl_st_parse("memory", file.at, file.length, (int64_t)file.length, &st));
        assert_int_equal(st.count, count);
        assert_true(st.header_hash == sl_hash(header.at, header.length));
        for (int i = 0; i < count; i++) {
            struct sl_st_tensor got;
            int64_t index = sl_st_find(&st, made[i].name);
            assert_true(index >= 0);
            sl_st_get(&st, index, &got);
            assert_int_equal(got.dtype, made[i].dtype);
            assert_int_equal(got.rank, made[i].rank);
            assert_memory_equal(got.dim, made[i].dim, sizeof got.dim);
            for (int64_t k = 0; k < got.size_bytes; k++)
                assert_int_equal((unsigned char)file.at[got.offset + k], byte_of(i, k));
        }
        assert_int_equal(sl_st_find(&st, "absent"), -1);
        if (seed % 2)
            assert_string_equal(sl_st_note(&st, "a \"b\"\n"), "line\nü\t\x02");
        sl_st_close(&st);
    next:
        for (int i = 0; i < count; i++)
            free((char *)made[i].name);
        sl_st_writer_close(&writer);
        sl_text_free(&file);
        sl_text_free(&header);
    }
}

static void a_file_of_python_is_read(void **state) {
    (void)state;
    static const struct {
        const char *name, *shape;
        unsigned char first;
    } rows[] = {{"a.f64", "F64 [3]", 0},      {"b.f32", "F32 [3,5]", 0},
                {"c.bf16", "BF16 [7]", 0x80}, {"d.f16", "F16 [1,1,3]", 0},
                {"e.i64", "I64 []", 0xfb},    {"f.i32", "I32 [5]", 0},
                {"g.u8", "U8 [9]", 0},        {"h.bool", "BOOL [2]", 1},
                {"i.empty", "F32 [0,4]", 0},  {"j \xc3\xbc\xe4\xb8\xad \"q\"", "F32 [2]", 0}};
    struct sl_st st;
    must(sl_st_open(SL_TEST_SRC_DIR "/tests/fixtures/python.safetensors", &st));
    assert_int_equal(st.count, SL_COUNT(rows));
    for (int i = 0; i < SL_COUNT(rows); i++) {
        char text[SL_ST_TEXT];
        unsigned char bytes[256] = {0};
        struct sl_st_tensor tensor;
        int64_t index = sl_st_find(&st, rows[i].name);
        if (index < 0)
            fail_msg("'%s' is not found", rows[i].name);
        sl_st_get(&st, index, &tensor);
        assert_string_equal(sl_st_shape_text(&tensor, text), rows[i].shape);
        must(sl_st_read(&st, &tensor, 0, tensor.size_bytes, bytes));
        assert_int_equal(bytes[0], rows[i].first);
    }
    assert_string_equal(sl_st_note(&st, "from"), "python");
    assert_string_equal(sl_st_note(&st, "note"), "a \"quoted\"\nline");
    assert_null(sl_st_note(&st, "nothing"));
    sl_st_close(&st);
}

/* Parse a file with this header and `data` bytes. */
static sl_err parse(const char *header, int64_t data, struct sl_st *out) {
    struct sl_text text = {0};
    size_t length = strlen(header);
    for (int i = 0; i < 8; i++)
        sl_text_put_bytes(&text, &(char){(char)(unsigned char)(length >> (8 * i))}, 1);
    sl_text_put(&text, header);
    sl_err err = sl_st_parse("x", text.at, text.length, (int64_t)text.length + data, out);
    sl_text_free(&text);
    return err;
}

#define U8(name, begin, end)                                                                       \
    "\"" name "\":{\"dtype\":\"U8\",\"shape\":[" #end "],\"data_offsets\":[" #begin "," #end "]}"

static void wrong_headers_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *header;
        int64_t data;
        const char *says;
    } rows[] = {
        {"", 0, "does not begin with '{'"},
        {" {}", 0, "does not begin with '{'"},
        {"[]", 0, "does not begin with '{'"},
        {"{}x", 0, "text after the end"},
        {"{", 0, "the text ends"},
        {"{}", 5, "5 bytes follow the last tensor"},
        {"{" U8("a", 0, 4) "}", 3, "truncated"},
        {"{" U8("a", 0, 4) "}", 5, "1 bytes follow"},
        {"{" U8("a", 0, 4) "," U8("a", 0, 4) "}", 4, "appears twice"},
        {"{" U8("a", 0, 4) "," U8("b", 0, 4) "}", 4, "overlaps"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},"
         "\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}",
         0, "appears twice"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},"
         "\"\\u0061\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}",
         0, "appears twice"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[1,4]}}", 4, "leaves a hole"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,4]}}", 4,
         "do not hold its shape"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4,
         "end before they begin"},
        {"{\"a\":{\"dtype\":\"F33\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
         "unknown dtype 'F33'"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1.5],\"data_offsets\":[0,4]}}", 4, "whole numbers"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, "whole numbers"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4,
         "more than 8 axes"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[9007199254740992,9007199254740992,1024],"
         "\"data_offsets\":[0,0]}}",
         0, "do not hold its shape"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,9007199254740993]}}", 4,
         "whole number"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "lacks dtype, shape or data_offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
         "appears twice"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":1}}", 4,
         "unknown or given twice"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,4]}}", 4, "expected"},
        {"{\"\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0, "name is empty"},
        {"{\"a\\u0000b\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0, "name is"},
        {"{\"a\\n\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0, "name is"},
        {"{\"a\\uD83D\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0, "name is"},
        {"{\"a\xff\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0, "name is"},
        {"{\"__metadata__\":{\"a\":1}}", 0, "expected a string"},
        {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "appears twice"},
        {"{\"__metadata__\":{\"a\":\"\\u0000\"}}", 0, "malformed escape"},
        {"{\"a\":3}", 0, "expected an object"},
    };
    struct sl_st st;
    for (int i = 0; i < SL_COUNT(rows); i++)
        if (parse(rows[i].header, rows[i].data, &st) != SL_ERR_INPUT ||
            !strstr(sl_err_message(), rows[i].says))
            fail_msg("%s: '%s' does not say '%s'", rows[i].header, sl_err_message(), rows[i].says);
    must(parse("{" U8("a", 0, 4) "}  ", 4, &st));
    sl_st_close(&st);
    must(parse("{}", 0, &st));
    sl_st_close(&st);
}

static void wrong_files_are_refused(void **state) {
    (void)state;
    struct sl_st st;
    static const unsigned char large[16] = {0, 0, 0, 0, 0, 0, 0, 0x80};
    static const unsigned char beyond[16] = {9, 0, 0, 0, 0, 0, 0, 0, '{', '}'};
    assert_int_equal(sl_st_parse("x", "", 0, 0, &st), SL_ERR_INPUT);
    assert_int_equal(sl_st_parse("x", large, 16, 16, &st), SL_ERR_INPUT);
    assert_int_equal(sl_st_parse("x", beyond, 16, 16, &st), SL_ERR_INPUT);
    assert_int_equal(sl_st_open("/nowhere/x", &st), SL_ERR_INPUT);
    assert_int_equal(sl_st_open("/", &st), SL_ERR_INPUT);
    assert_int_equal(sl_st_open("/dev/null", &st), SL_ERR_INPUT);
    sl_st_close(&st);
}

static int by_value(const void *a, const void *b) {
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

static void sorting_sorts(void **state) {
    (void)state;
    for (int count = 0; count < 70; count++) {
        int x[70], y[70];
        for (int i = 0; i < count; i++)
            y[i] = x[i] = (int)sl_rng_below(3, (uint64_t)count, (uint64_t)i, 40);
        sl_sort(x, count, sizeof *x, by_value);
        qsort(y, (size_t)count, sizeof *y, by_value);
        assert_memory_equal(x, y, sizeof(int) * (size_t)count);
    }
}

static void hashing_in_pieces_is_hashing(void **state) {
    (void)state;
    unsigned char bytes[3001];
    uint64_t parsed;
    char text[SL_HASH_TEXT];
    struct sl_hasher *hasher = sl_hasher_open();
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * i);
    for (size_t at = 0, share = 1; at < sizeof bytes; at += share, share = share * 3 % 257 + 1) {
        share = share < sizeof bytes - at ? share : sizeof bytes - at;
        sl_hasher_add(hasher, bytes + at, share);
    }
    assert_true(sl_hasher_value(hasher) == sl_hash(bytes, sizeof bytes));
    sl_hasher_reset(hasher);
    assert_true(sl_hasher_value(hasher) == sl_hash("", 0));
    sl_hasher_close(hasher);
    sl_hash_text(0x0123456789abcdefu, text);
    assert_string_equal(text, "0123456789abcdef");
    assert_true(sl_hash_parse(sl_str(text), &parsed) && parsed == 0x0123456789abcdefu);
    assert_false(sl_hash_parse(SL_STR("0123456789ABCDEF"), &parsed));
    assert_false(sl_hash_parse(SL_STR("0123456789abcde"), &parsed));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(a_file_of_python_is_read),
        cmocka_unit_test(wrong_headers_are_refused),
        cmocka_unit_test(wrong_files_are_refused),
        cmocka_unit_test(sorting_sorts),
        cmocka_unit_test(hashing_in_pieces_is_hashing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
