/* Pictures: pixels and resizing as in Pillow, samples as in torchvision (fixtures), folders of classes,
 * random changes that depend on the sample only, refusals, hostile files. */
#include "image/image.h"
#include "support/data_files.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

#define FIXTURES SL_TEST_SRC_DIR "/tests/fixtures/images/"

static unsigned char *read_all(const char *name, size_t *length) {
    char *bytes, path[512];
    snprintf(path, sizeof path, FIXTURES "%s", name);
    SL_TEST_OK(sl_file_read(path, 1 << 24, &bytes, length));
    return (unsigned char *)bytes;
}

static bool can_read(const char *name) {
    return strstr(name, ".png") ? sl_image_has_png : sl_image_has_jpeg;
}

/* The picture in a .raw file that begins at `from`. */
static void check_raw(const struct sl_image *image, const unsigned char *raw, size_t length) {
    assert_true(length >= 6);
    int w = raw[0] | raw[1] << 8, h = raw[2] | raw[3] << 8, c = raw[4] | raw[5] << 8;
    assert_int_equal(image->width, w);
    assert_int_equal(image->height, h);
    assert_int_equal(image->channels, c);
    assert_memory_equal(image->at, raw + 6, (size_t)(w * h * c));
}

static void test_pixels(void **state) {
    static const char *const names[][2] = {
        {"photo.png", "photo"},     {"grey.png", "grey"},   {"bit.png", "bit"},
        {"palette.png", "palette"}, {"alpha.png", "alpha"}, {"clear.png", "clear"},
        {"deep.png", "deep"},       {"base.jpg", "base"},   {"progressive.jpg", "progressive"},
        {"grey.jpg", "greyjpg"},    {"turn1.jpg", "turn1"}, {"turn2.jpg", "turn2"},
        {"turn3.jpg", "turn3"},     {"turn4.jpg", "turn4"}, {"turn5.jpg", "turn5"},
        {"turn6.jpg", "turn6"},     {"turn7.jpg", "turn7"}, {"turn8.jpg", "turn8"},
    };
    (void)state;
    for (int i = 0; i < SL_COUNT(names); i++) {
        char raw_name[64];
        size_t length, raw_length;
        struct sl_image image;
        if (!can_read(names[i][0]))
            continue;
        snprintf(raw_name, sizeof raw_name, "%s.raw", names[i][1]);
        unsigned char *bytes = read_all(names[i][0], &length),
                      *raw = read_all(raw_name, &raw_length);
        print_message("%s\n", names[i][0]);
        SL_TEST_OK(sl_image_decode(names[i][0], bytes, (int64_t)length, raw[4], &image));
        check_raw(&image, raw, raw_length);
        sl_image_free(&image);
        SL_TEST_OK(sl_image_decode(names[i][0], bytes, (int64_t)length, 4 - raw[4], &image));
        assert_int_equal(image.channels, 4 - raw[4]);
        sl_image_free(&image);
        free(bytes);
        free(raw);
    }
}

static void test_resize(void **state) {
    size_t length, raw_length;
    struct sl_image image, out;
    struct sl_image_box box = {5, 3, 53, 41};
    (void)state;
    if (!sl_image_has_png)
        skip();
    unsigned char *bytes = read_all("photo.png", &length),
                  *raw = read_all("resized.raw", &raw_length);
    SL_TEST_OK(sl_image_decode("photo", bytes, (int64_t)length, 3, &image));
    SL_TEST_OK(sl_image_resize(&image, &box, 24, 31, &out));
    check_raw(&out, raw, raw_length);
    sl_image_free(&out);
    SL_TEST_OK(sl_image_resize(&image, &box, 90, 70, &out));
    check_raw(&out, raw + 6 + 24 * 31 * 3, raw_length - 6 - 24 * 31 * 3);
    sl_image_free(&out);
    sl_image_free(&image);
    free(bytes);
    free(raw);
}

/* Truncated and damaged files are refused, or harmless. */
static void test_damage(void **state) {
    static const char *const names[] = {"grey.png", "palette.png",     "alpha.png",
                                        "grey.jpg", "progressive.jpg", "turn6.jpg"};
    (void)state;
    for (int i = 0; i < SL_COUNT(names); i++) {
        size_t length;
        struct sl_image image;
        unsigned char *bytes = read_all(names[i], &length);
        for (size_t at = 0; at < length && can_read(names[i]); at++) {
            unsigned char was = bytes[at];
            if (at + 2 < length && strstr(names[i], ".png"))
                assert_int_not_equal(sl_image_decode("cut", bytes, (int64_t)at, 3, &image), SL_OK);
            for (int flip = 1; flip < 256; flip *= 8) {
                bytes[at] = (unsigned char)(was ^ flip);
                if (sl_image_decode("damaged", bytes, (int64_t)length, 3, &image) == SL_OK)
                    sl_image_free(&image);
            }
            bytes[at] = was;
        }
        free(bytes);
    }
}

static void test_refusals(void **state) {
    size_t length;
    struct sl_image image;
    (void)state;
    SL_TEST_FAILS(sl_image_decode("x", (const unsigned char *)"GIF89a..", 8, 3, &image),
                  SL_ERR_INPUT, "neither PNG nor JPEG");
    if (sl_image_has_png) {
        unsigned char *bytes = read_all("photo.png", &length);
        for (int i = 0; i < 2; i++) { /* 60,000 x 60,000 */
            static const unsigned char side[4] = {0, 0, 0xea, 0x60};
            memcpy(bytes + 16 + 4 * i, side, 4);
        }
        uint32_t crc = (uint32_t)crc32_z(0, bytes + 12, 17);
        for (int i = 0; i < 4; i++)
            bytes[29 + i] = (unsigned char)(crc >> (24 - 8 * i));
        SL_TEST_FAILS(sl_image_decode("huge.png", bytes, (int64_t)length, 3, &image), SL_ERR_INPUT,
                      "more than 256 MiB");
        free(bytes);
    }
    if (sl_image_has_jpeg) {
        unsigned char *bytes = read_all("cmyk.jpg", &length);
        SL_TEST_FAILS(sl_image_decode("c.jpg", bytes, (int64_t)length, 3, &image), SL_ERR_INPUT,
                      "CMYK");
        free(bytes);
        bytes = read_all("base.jpg", &length);
        SL_TEST_FAILS(sl_image_decode("c.jpg", bytes, (int64_t)length / 2, 3, &image), SL_ERR_INPUT,
                      "damaged JPEG");
        for (size_t at = 0; at + 9 < length; at++)
            if (bytes[at] == 0xff && bytes[at + 1] == 0xc0) /* size of the frame */
                memset(bytes + at + 5, 0xff, 4);
        SL_TEST_FAILS(sl_image_decode("huge.jpg", bytes, (int64_t)length, 3, &image), SL_ERR_INPUT,
                      "huge.jpg");
        free(bytes);
    }
}

/* ---- folders ---- */

static const char *root;

static void copy_to(const char *folder, const char *name, const char *fixture) {
    char path[600];
    size_t length;
    unsigned char *bytes = read_all(fixture, &length);
    snprintf(path, sizeof path, "%s/%s", root, folder);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/%s/%s", root, folder, name);
    SL_TEST_OK(sl_file_write(path, bytes, length));
    free(bytes);
}

static void make_folder(void) {
    static char path[64];
    snprintf(path, sizeof path, "/tmp/sluice-images-XXXXXX");
    root = mkdtemp(path);
    assert_non_null(root);
    copy_to("zebra", "a.png", "photo.png");
    copy_to("zebra", "b.PNG", "grey.png");
    copy_to("ant", "x.png", "palette.png");
    copy_to("ant", "notes.txt", "photo.raw");
}

static void remove_folder(void) {
    struct sl_text command = {0};
    sl_text_printf(&command, "rm -rf '%s'", root);
    assert_int_equal(system(command.at), 0); /* NOLINT(cert-env33-c): a folder of this test */
    sl_text_free(&command);
}

static struct sl_data *open_folder(const char *images, const char *categories, bool in_order) {
    static struct sl_data_input inputs[2];
    inputs[0] = sl_test_float("image", 3, 24, 24);
    inputs[1] = sl_test_int("label", 0, 5);
    struct sl_data_spec spec = {.source = root,
                                .inputs = inputs,
                                .input_count = 2,
                                .seed = 9,
                                .images = images,
                                .categories = categories,
                                .in_order = in_order};
    struct sl_data *data = NULL;
    SL_TEST_OK(sl_data_open(&spec, &data));
    return data;
}

static void test_folder(void **state) {
    static const int32_t want[3] = {0, 1, 1};
    float *value = malloc(sizeof *value * 3 * 24 * 24);
    size_t length;
    int32_t label;
    (void)state;
    if (!sl_image_has_png)
        skip();
    make_folder();
    struct sl_data *data = open_folder("resize=32", NULL, true);
    struct sl_text names = {0};
    assert_int_equal(sl_data_count(data, SL_DATA_TRAIN), 3);
    for (int i = 0; i < 3; i++) {
        SL_TEST_OK(sl_data_fill(data, SL_DATA_TRAIN, i, 1, 1, &label));
        assert_int_equal(label, want[i]);
    }
    SL_TEST_OK(sl_data_fill(data, SL_DATA_TRAIN, 1, 1, 0, value));
    unsigned char *torch = read_all("value.f32", &length);
    assert_int_equal(length, 4 * 3 * 24 * 24);
    for (int i = 0; i < 3 * 24 * 24; i++) {
        float expected;
        memcpy(&expected, torch + 4 * i, 4);
        assert_true(fabsf(expected - value[i]) < 1e-6F);
    }
    free(torch);
    assert_true(sl_data_categories(data, &names));
    assert_string_equal(names.at, "{\"classes\": [\"ant\", \"zebra\"]}\n");
    sl_data_close(data);
    /* The list of a run gives the numbers. */
    const char *known = sl_test_text("c.json", "{\"classes\": [\"zebra\", \"lion\", \"ant\"]}");
    data = open_folder("resize=32", known, true);
    SL_TEST_OK(sl_data_fill(data, SL_DATA_TRAIN, 0, 1, 1, &label));
    assert_int_equal(label, 2);
    sl_data_close(data);
    known = sl_test_text("d.json", "{\"classes\": [\"zebra\"]}");
    struct sl_data_input input = sl_test_float("image", 3, 24, 24);
    struct sl_data_spec spec = {
        .source = root, .inputs = &input, .input_count = 1, .categories = known};
    SL_TEST_FAILS(sl_data_open(&spec, &data), SL_ERR_INPUT, "'ant' is not one of the 1 categories");
    spec.categories = NULL;
    spec.images = "resize=20";
    SL_TEST_FAILS(sl_data_open(&spec, &data), SL_ERR_USAGE, "less than the input");
    static const char *const wrong[] = {"mean=0.5/0.5", "std=0",  "std=1/1/1/1", "mean=x",
                                        "zoom=2",       "flip=2", "crop"};
    for (int i = 0; i < SL_COUNT(wrong); i++) {
        spec.images = wrong[i];
        assert_int_equal(sl_data_open(&spec, &data), SL_ERR_USAGE);
    }
    static const char *const right[] = {"mean=0.5,std=0.25", "mean=0.1/0.2/0.3,std=1/1/2"};
    for (int i = 0; i < SL_COUNT(right); i++) {
        spec.images = right[i];
        SL_TEST_OK(sl_data_open(&spec, &data));
        sl_data_close(data);
    }
    spec.images = "crop=left";
    SL_TEST_FAILS(sl_data_open(&spec, &data), SL_ERR_USAGE, "centre, random or scaled");
    copy_to("lion", "x.webp", "grey.png");
    spec.images = NULL;
    SL_TEST_FAILS(sl_data_open(&spec, &data), SL_ERR_INPUT, "x.webp: only PNG and JPEG");
    remove_folder();
    sl_text_free(&names);
    free(value);
    sl_test_folder_remove();
}

/* Random changes are those of the sample and its epoch; none in validation and prediction. */
static void test_random(void **state) {
    enum { NUMEL = 3 * 24 * 24, EPOCHS = 40 };
    static const char *const ways[] = {"crop=random,resize=30", "crop=scaled", "flip=1"};
    float *a = malloc(sizeof *a * NUMEL), *b = malloc(sizeof *b * NUMEL);
    (void)state;
    if (!sl_image_has_png)
        skip();
    make_folder();
    for (int w = 0; w < SL_COUNT(ways); w++) {
        struct sl_data *one = open_folder(ways[w], NULL, false),
                       *two = open_folder(ways[w], NULL, false),
                       *calm = open_folder(ways[w], NULL, true);
        double sum[2] = {0};
        int changed = 0;
        for (int64_t n = 0; n < 3 * EPOCHS; n++) {
            int64_t other = 3 * EPOCHS - 1 - n; /* in another order */
            SL_TEST_OK(sl_data_fill(one, SL_DATA_TRAIN, n, 1, 0, a));
            SL_TEST_OK(sl_data_fill(two, SL_DATA_TRAIN, other, 1, 0, b));
            SL_TEST_OK(sl_data_fill(two, SL_DATA_TRAIN, n, 1, 0, b));
            assert_memory_equal(a, b, sizeof *a * NUMEL);
            SL_TEST_OK(sl_data_fill(calm, SL_DATA_TRAIN, n % 3, 1, 0, b));
            SL_TEST_OK(sl_data_fill(calm, SL_DATA_TRAIN, n % 3 + 3, 1, 0, a));
            assert_memory_equal(a, b, sizeof *a * NUMEL);
        }
        SL_TEST_OK(sl_data_fill(one, SL_DATA_TRAIN, 0, 1, 0, b));
        for (int64_t n = 0; n < 3 * EPOCHS; n++) {
            int32_t label;
            SL_TEST_OK(sl_data_fill(one, SL_DATA_TRAIN, n, 1, 1, &label));
            SL_TEST_OK(sl_data_fill(one, SL_DATA_TRAIN, n, 1, 0, a));
            changed += memcmp(a, b, sizeof *a * NUMEL) != 0;
            sum[0] += (double)a[0];
            sum[1] += (double)a[23];
        }
        assert_true(changed > EPOCHS);
        assert_true(isfinite(sum[0] + sum[1]));
        sl_data_close(one);
        sl_data_close(two);
        sl_data_close(calm);
    }
    remove_folder();
    free(a);
    free(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pixels), cmocka_unit_test(test_resize),
        cmocka_unit_test(test_damage), cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_folder), cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
