/* Arrays of NumPy: types, byte orders, index orders, versions; archives; binding; refusals. */
#include "base/half.h"
#include "base/vec.h"
#include "support/data_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <zlib.h>

#include <cmocka.h>

enum { N = 6, H = 3, W = 4 };

struct bytes {
    SL_VEC(unsigned char) v;
};

static void put(struct bytes *b, const void *at, int64_t size) {
    for (int64_t i = 0; i < size; i++)
        SL_PUSH(&b->v, ((const unsigned char *)at)[i]);
}

static void put_le(struct bytes *b, uint64_t value, int width) {
    for (int i = 0; i < width; i++)
        SL_PUSH(&b->v, (unsigned char)(value >> (8 * i)));
}

/* The bits of a whole number in a type of NumPy. */
static uint64_t bits_of(const char *type, int64_t value) {
    float f = (float)value;
    double d = (double)value;
    uint32_t word;
    uint64_t both;
    if (type[0] != 'f')
        return (uint64_t)value;
    if (type[1] == '2')
        return sl_fp16_of(f);
    memcpy(&word, &f, sizeof word);
    memcpy(&both, &d, sizeof both);
    return type[1] == '4' ? word : both;
}

static void put_header(struct bytes *b, int version, const char *dict) {
    size_t length = strlen(dict);
    put(b, "\x93NUMPY", 6);
    put_le(b, (uint64_t)version, 2);
    put_le(b, length, version == 1 ? 2 : 4);
    put(b, dict, (int64_t)length);
}

/* Value i of the array (last index fastest) is (i * 7 + 1) % 50, or i % 2 for b1. */
static int64_t value_at(const char *type, int64_t i) {
    return type[0] == 'b' ? i % 2 : (i * 7 + 1) % 50;
}

struct form {
    const char *type; /* "f4" */
    bool big, fortran;
    int version, rank;
    int64_t dim[4];
};

static void put_array(struct bytes *b, const struct form *f) {
    char dict[200];
    struct sl_text shape = {0};
    int64_t numel = 1;
    int width = f->type[1] - '0';
    for (int i = 0; i < f->rank; i++) {
        sl_text_printf(&shape, "%lld,%s", (long long)f->dim[i], i + 1 < f->rank ? " " : "");
        numel *= f->dim[i];
    }
    snprintf(dict, sizeof dict, "{'descr': '%c%s', 'fortran_order': %s, 'shape': (%s), }   \n",
             width == 1 ? '|'
             : f->big   ? '>'
                        : '<',
             f->type, f->fortran ? "True" : "False", shape.at);
    sl_text_free(&shape);
    put_header(b, f->version, dict);
    for (int64_t i = 0; i < numel; i++) {
        int64_t from = i;
        if (f->fortran) { /* the i-th stored value has its first index fastest */
            int64_t rest = i, stride = numel;
            from = 0;
            for (int k = 0; k < f->rank; k++) {
                stride /= f->dim[k];
                from += rest % f->dim[k] * stride;
                rest /= f->dim[k];
            }
        }
        uint64_t bits = bits_of(f->type, value_at(f->type, from));
        for (int k = 0; k < width; k++)
            SL_PUSH(&b->v, (unsigned char)(bits >> (8 * (f->big ? width - 1 - k : k))));
    }
}

static sl_err open_bytes(const struct bytes *x, const struct sl_data_input *inputs, int count,
                         struct sl_data **data) {
    struct sl_data_file file = {"dir/x.npy", x->v.at, x->v.count};
    struct sl_data_spec spec = {
        .source = "npy:", .inputs = inputs, .input_count = count, .in_order = true};
    return sl_data_open_memory(&spec, &file, 1, data);
}

static void check_values(const struct bytes *x, const struct form *f, bool is_int,
                         bool channels_last) {
    struct sl_data_input input = is_int ? sl_test_int("x", 0, 50) : sl_test_float("x", H, W, 0);
    if (is_int && f->rank > 1)
        input = sl_test_int("x", H * W, 50);
    if (channels_last)
        input = sl_test_float("image", 2, H, W);
    struct sl_data *data;
    float out[2 * H * W];
    int64_t each = f->rank == 1 ? 1 : channels_last ? 2 * H * W : H * W;
    SL_TEST_OK(open_bytes(x, &input, 1, &data));
    assert_int_equal(sl_data_count(data, SL_DATA_TRAIN), N);
    for (int64_t n = 0; n < N; n++) {
        SL_TEST_OK(sl_data_fill(data, SL_DATA_TRAIN, n, 1, 0, out));
        for (int64_t i = 0; i < each; i++) {
            int32_t whole;
            int64_t place = channels_last ? i % (H * W) * 2 + i / (H * W) : i;
            memcpy(&whole, &out[i], sizeof whole);
            int64_t want = value_at(f->type, n * each + place);
            assert_true(is_int ? whole == want : out[i] == (float)want);
        }
    }
    sl_data_close(data);
}

static void test_forms(void **state) {
    static const char *const types[] = {"f2", "f4", "f8", "i1", "i2", "i4",
                                        "i8", "u1", "u2", "u4", "u8", "b1"};
    (void)state;
    int count = 0;
    for (int t = 0; t < SL_COUNT(types); t++)
        for (int bits = 0; bits < 4; bits++)
            for (int version = 1; version <= 3; version++)
                for (int is_int = 0; is_int < 2; is_int++) {
                    struct form f = {types[t], bits & 1, bits & 2, version, 3, {N, H, W}};
                    struct bytes x = {{0}};
                    put_array(&x, &f);
                    check_values(&x, &f, is_int, false);
                    SL_VEC_FREE(&x.v);
                    count++;
                }
    for (int fortran = 0; fortran < 2; fortran++) {
        struct form f = {"u1", false, fortran, 1, 4, {N, H, W, 2}};
        struct bytes x = {{0}};
        put_array(&x, &f);
        check_values(&x, &f, false, true);
        SL_VEC_FREE(&x.v);
        f = (struct form){"i8", true, fortran, 1, 1, {N}};
        put_array(&x, &f);
        check_values(&x, &f, true, false);
        SL_VEC_FREE(&x.v);
    }
    printf("count: %d arrays\n", count + 4);
}

/* ---- archives ---- */

struct archive {
    struct bytes file, directory;
    int members;
    bool wide;    /* 64-bit sizes in the directory */
    bool stored;  /* else deflated */
    bool overlay; /* a comment at the end */
};

static struct bytes deflated(const struct bytes *x) {
    struct bytes out = {{0}};
    z_stream z = {0};
    SL_VEC_RESERVE(&out.v, x->v.count * 2 + 100);
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = x->v.at;
    z.avail_in = (unsigned)x->v.count;
    z.next_out = out.v.at;
    z.avail_out = (unsigned)out.v.room;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    out.v.count = (int64_t)z.total_out;
    deflateEnd(&z);
    return out;
}

static void add(struct archive *a, const char *name, const struct form *form) {
    struct bytes x = {{0}}, packed = {{0}};
    put_array(&x, form);
    if (a->stored)
        put(&packed, x.v.at, x.v.count);
    else
        packed = deflated(&x);
    uint64_t crc = crc32_z(0, x.v.at, (size_t)x.v.count);
    uint64_t at = (uint64_t)a->file.v.count, length = strlen(name);
    for (int dir = 0; dir < 2; dir++) {
        struct bytes *b = dir ? &a->directory : &a->file;
        uint64_t all = dir && a->wide ? 0xffffffff : 0;
        put(b, dir ? "PK\1\2" : "PK\3\4", 4);
        put_le(b, 45, 2);
        if (dir)
            put_le(b, 45, 2);
        put_le(b, 0, 2); /* flags */
        put_le(b, a->stored ? 0 : 8, 2);
        put_le(b, 0, 4);
        put_le(b, crc, 4);
        put_le(b, all ? all : (uint64_t)packed.v.count, 4);
        put_le(b, all ? all : (uint64_t)x.v.count, 4);
        put_le(b, length, 2);
        put_le(b, dir && a->wide ? 28 : 0, 2);
        if (dir) {
            put_le(b, 0, 2); /* comment */
            put_le(b, 0, 8); /* volume, attributes */
            put_le(b, all ? all : at, 4);
        }
        put(b, name, (int64_t)length);
        if (dir && a->wide) {
            put_le(b, 1, 2);
            put_le(b, 24, 2);
            put_le(b, (uint64_t)x.v.count, 8);
            put_le(b, (uint64_t)packed.v.count, 8);
            put_le(b, at, 8);
        }
    }
    put(&a->file, packed.v.at, packed.v.count);
    a->members++;
    SL_VEC_FREE(&x.v);
    SL_VEC_FREE(&packed.v);
}

static void finish(struct archive *a) {
    struct bytes *b = &a->file;
    uint64_t at = (uint64_t)b->v.count, size = (uint64_t)a->directory.v.count;
    put(b, a->directory.v.at, (int64_t)size);
    uint64_t end = (uint64_t)b->v.count, count = (uint64_t)a->members;
    if (a->wide) {
        put(b, "PK\6\6", 4);
        put_le(b, 44, 8);
        put_le(b, 45, 2);
        put_le(b, 45, 2);
        put_le(b, 0, 8);
        put_le(b, count, 8);
        put_le(b, count, 8);
        put_le(b, size, 8);
        put_le(b, at, 8);
        put(b, "PK\6\7", 4);
        put_le(b, 0, 4);
        put_le(b, end, 8);
        put_le(b, 1, 4);
        count = 0xffff;
        size = at = 0xffffffff;
    }
    put(b, "PK\5\6", 4);
    put_le(b, 0, 4);
    put_le(b, count, 2);
    put_le(b, count, 2);
    put_le(b, size, 4);
    put_le(b, at, 4);
    put_le(b, a->overlay ? 5 : 0, 2);
    if (a->overlay)
        put(b, "hello", 5);
    SL_VEC_FREE(&a->directory.v);
}

static const struct form forms[2] = {{"f4", false, false, 1, 3, {N, H, W}},
                                     {"u1", false, false, 1, 1, {N}}};

static struct archive pair(bool stored, bool wide, const char *x, const char *y) {
    struct archive a = {.stored = stored, .wide = wide, .overlay = wide};
    add(&a, x, &forms[0]);
    add(&a, y, &forms[1]);
    finish(&a);
    return a;
}

static void test_archives(void **state) {
    static const char *const names[][2] = {{"image.npy", "label.npy"},
                                           {"X.npy", "Y.npy"},
                                           {"x_train.npy", "y_train.npy"},
                                           {"arr_0.npy", "arr_1.npy"},
                                           {"inputs.npy", "targets.npy"}};
    struct sl_data_input inputs[2] = {sl_test_float("image", 1, H, W), sl_test_int("label", 0, 50)};
    (void)state;
    for (int n = 0; n < SL_COUNT(names); n++)
        for (int bits = 0; bits < 4; bits++) {
            struct archive a = pair(bits & 1, bits & 2, names[n][0], names[n][1]);
            struct sl_data *data;
            float out[N * H * W];
            int32_t label[N];
            SL_TEST_OK(open_bytes(&a.file, inputs, 2, &data));
            SL_TEST_OK(sl_data_fill(data, SL_DATA_TRAIN, 0, N, 0, out));
            SL_TEST_OK(sl_data_fill(data, SL_DATA_TRAIN, 0, N, 1, label));
            for (int i = 0; i < N * H * W; i++)
                assert_true(out[i] == (float)value_at("f4", i));
            for (int i = 0; i < N; i++)
                assert_int_equal(label[i], value_at("u1", i));
            sl_data_close(data);
            SL_VEC_FREE(&a.file.v);
        }
}

/* Every truncation and every damaged byte of the directory is refused or harmless. */
static void test_damage(void **state) {
    struct sl_data_input inputs[2] = {sl_test_float("image", 1, H, W), sl_test_int("label", 0, 50)};
    (void)state;
    for (int bits = 0; bits < 4; bits++) {
        struct archive a = pair(bits & 1, bits & 2, "x.npy", "y.npy");
        struct sl_data *data;
        int64_t size = a.file.v.count;
        for (a.file.v.count = 0; a.file.v.count < size; a.file.v.count++)
            assert_int_not_equal(open_bytes(&a.file, inputs, 2, &data), SL_OK);
        for (int64_t at = 0; at < size; at++)
            for (int flip = 1; flip < 256; flip *= 4) {
                a.file.v.at[at] ^= (unsigned char)flip;
                if (open_bytes(&a.file, inputs, 2, &data) == SL_OK) {
                    sl_err err = sl_data_check(data);
                    assert_true(err == SL_OK || err == SL_ERR_INPUT);
                    sl_data_close(data);
                }
                a.file.v.at[at] ^= (unsigned char)flip;
            }
        SL_VEC_FREE(&a.file.v);
    }
}

static void refuse(const char *dict, const char *part) {
    struct sl_data_input input = sl_test_float("x", 2, 0, 0);
    struct bytes x = {{0}};
    struct sl_data *data;
    put_header(&x, 1, dict);
    put_le(&x, 0, 8);
    SL_TEST_FAILS(open_bytes(&x, &input, 1, &data), SL_ERR_INPUT, part);
    SL_VEC_FREE(&x.v);
}

static void test_refusals(void **state) {
    (void)state;
    refuse("{'descr': '|O', 'fortran_order': False, 'shape': (1, 2)}", "'|O' are not read");
    refuse("{'descr': '<U3', 'fortran_order': False, 'shape': (1, 2)}", "'<U3' are not read");
    refuse("{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}", "'<c8' are not read");
    refuse("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}", "records");
    refuse("{'descr': '<f4', 'fortran_order': False, 'shape': (4, 4611686018427387904)}", "shape");
    refuse("{'descr': '<f4', 'fortran_order': False, 'shape': (4000000000, 4000000000)}",
           "fewer than its header states");
    refuse("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 3)}",
           "fewer than its header states");
    refuse("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1)}", "its header states 4");
    refuse("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 2)}", "empty");
    refuse("{'descr': '<f4', 'shape': (1, 2)}", "lacks");
    refuse("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2)} x", "damaged");
    refuse("{'descr': '<f4', 'fortran_order': 1, 'shape': (1, 2)}", "not a bool");
    refuse("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1)}", "does not fit");
    refuse("{'descr': '<f4', 'fortran_order': False, 'shape': ()}", "its header states 4");
}

/* A stated size that the compressed bytes cannot have is refused before any memory is taken. */
static void test_bomb(void **state) {
    struct sl_data_input inputs[2] = {sl_test_float("image", 1, H, W), sl_test_int("label", 0, 50)};
    (void)state;
    struct archive a = pair(false, true, "x.npy", "y.npy");
    struct sl_data *data;
    for (int64_t at = 0; at + 24 < a.file.v.count; at++)
        if (a.file.v.at[at] == 1 && a.file.v.at[at + 2] == 24 && !a.file.v.at[at + 1] &&
            !a.file.v.at[at + 3])
            a.file.v.at[at + 4 + 5] = 1; /* a terabyte */
    SL_TEST_FAILS(open_bytes(&a.file, inputs, 2, &data), SL_ERR_INPUT, "200 times");
    SL_VEC_FREE(&a.file.v);
}

/* ---- files and binding ---- */

static void test_files(void **state) {
    struct sl_data_input inputs[2] = {sl_test_float("image", 1, H, W), sl_test_int("label", 0, 50)};
    struct bytes x = {{0}}, y = {{0}};
    struct sl_text source = {0};
    struct sl_data *data;
    float out[H * W];
    int32_t label;
    (void)state;
    put_array(&x, &forms[0]);
    put_array(&y, &forms[1]);
    const char *a = sl_test_file("first.npy", x.v.at, (size_t)x.v.count);
    const char *b = sl_test_file("second.npy", y.v.at, (size_t)y.v.count);
    sl_text_printf(&source, "label=%s,image=%s", b, a);
    struct sl_data_spec spec = {
        .source = source.at, .inputs = inputs, .input_count = 2, .in_order = true};
    SL_TEST_OK(sl_data_open(&spec, &data));
    SL_TEST_OK(sl_data_fill(data, SL_DATA_TRAIN, 2, 1, 0, out));
    SL_TEST_OK(sl_data_fill(data, SL_DATA_TRAIN, 2, 1, 1, &label));
    assert_true(out[1] == (float)value_at("f4", 2 * H * W + 1));
    assert_int_equal(label, value_at("u1", 2));
    sl_data_close(data);
    source.length = 0;
    sl_text_printf(&source, "%s,%s", a, b); /* neither name says which */
    spec.source = source.at;
    SL_TEST_FAILS(sl_data_open(&spec, &data), SL_ERR_INPUT, "first f4[6,3,4], second u1[6]");
    source.length = 0;
    sl_text_printf(&source, "image=%s,other=%s", a, b);
    spec.source = source.at;
    SL_TEST_OK(sl_data_open(&spec, &data)); /* the one array that is left */
    sl_data_close(data);
    const char *csv = sl_test_text("t.csv", "1,2\n");
    source.length = 0;
    sl_text_printf(&source, "x=%s", csv);
    spec.source = source.at;
    SL_TEST_FAILS(sl_data_open(&spec, &data), SL_ERR_INPUT, "have no NAME=");
    sl_text_free(&source);
    SL_VEC_FREE(&x.v);
    SL_VEC_FREE(&y.v);
    sl_test_folder_remove();
}

static void test_tokens(void **state) {
    enum { T = 4 };
    struct sl_data_input inputs[3] = {sl_test_int("tokens", T, 50), sl_test_int("targets", T, 50),
                                      sl_test_float("attention_mask", T, 0, 0)};
    struct form rows = {"i8", false, false, 1, 2, {N, T + 1}},
                text = {"u2", false, false, 1, 1, {21}};
    struct bytes x = {{0}};
    struct sl_data *data;
    int32_t tokens[T], targets[T];
    (void)state;
    for (int form = 0; form < 2; form++) {
        put_array(&x, form ? &text : &rows);
        struct sl_data_file file = {"t.npy", x.v.at, x.v.count};
        struct sl_data_spec spec = {
            .source = "next:npy:", .inputs = inputs, .input_count = 3, .in_order = true};
        SL_TEST_OK(sl_data_open_memory(&spec, &file, 1, &data));
        assert_int_equal(sl_data_count(data, SL_DATA_TRAIN), form ? 5 : N);
        SL_TEST_OK(sl_data_fill(data, SL_DATA_TRAIN, 2, 1, 0, tokens));
        SL_TEST_OK(sl_data_fill(data, SL_DATA_TRAIN, 2, 1, 1, targets));
        for (int i = 0; i < T; i++) {
            assert_int_equal(tokens[i], value_at("i8", 2 * (form ? T : T + 1) + i));
            assert_int_equal(targets[i], value_at("i8", 2 * (form ? T : T + 1) + i + 1));
        }
        int64_t valid;
        SL_TEST_OK(sl_data_count_valid(data, SL_DATA_TRAIN, 0, 3, 1, &valid));
        assert_int_equal(valid, 3 * T);
        sl_data_close(data);
        SL_VEC_FREE(&x.v);
    }
}

static void test_values(void **state) {
    struct sl_data_input input = sl_test_int("label", 0, 40);
    struct form f = {"i2", false, false, 1, 1, {N}};
    struct bytes x = {{0}};
    struct sl_data *data;
    int32_t label;
    int64_t valid;
    (void)state;
    put_array(&x, &f); /* 1 8 15 22 29 36 */
    x.v.at[x.v.count - 2] = 43;
    SL_TEST_OK(open_bytes(&x, &input, 1, &data));
    SL_TEST_FAILS(sl_data_fill(data, SL_DATA_TRAIN, 5, 1, 0, &label), SL_ERR_INPUT, "43");
    sl_data_close(data);
    x.v.at[x.v.count - 2] = 0x9c; /* -100: ignored */
    x.v.at[x.v.count - 1] = 0xff;
    SL_TEST_OK(open_bytes(&x, &input, 1, &data));
    SL_TEST_OK(sl_data_count_valid(data, SL_DATA_TRAIN, 0, N, 0, &valid));
    assert_int_equal(valid, N - 1);
    sl_data_close(data);
    SL_VEC_FREE(&x.v);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),  cmocka_unit_test(test_archives),
        cmocka_unit_test(test_damage), cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_bomb),   cmocka_unit_test(test_files),
        cmocka_unit_test(test_tokens), cmocka_unit_test(test_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
