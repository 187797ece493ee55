/* Every importer reads its example; only this one recognizes it; damaged examples do no harm. */
#include "base/vec.h"
#include "interop/importer.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

static void reads_its_example(void **state) {
    (void)state;
    for (int i = 0; sl_interop_importers[i]; i++) {
        const struct sl_importer *row = sl_interop_importers[i];
        struct sl_arena arena = {0};
        const struct sl_layers *layers;
        size_t length = strlen(row->example);
        if (row->read(&arena, row->name, row->example, length, &layers) != SL_OK)
            fail_msg("%s: %s", row->name, sl_err_message());
        assert_true(layers->count > 1 && layers->edge_count > 0);
        assert_ptr_equal(sl_interop_importer_guess(row->example, length), row);
        assert_ptr_equal(sl_interop_importer_find(row->name), row);
        if (i)
            assert_true(strcmp(sl_interop_importers[i - 1]->name, row->name) < 0);
        sl_arena_free(&arena);
    }
}

/* One read of a damaged text: layers, or a message that names the file. */
static int try_text(const struct sl_importer *row, const char *text, size_t length) {
    struct sl_arena arena = {0};
    const struct sl_layers *layers;
    sl_err err = row->read(&arena, "f", text, length, &layers);
    if (err != SL_OK && (err != SL_ERR_INPUT || strncmp(sl_err_message(), "f:", 2) != 0))
        fail_msg("%s: code %d, %s", row->name, (int)err, sl_err_message());
    sl_arena_free(&arena);
    return err != SL_OK;
}

static void survives_damage(void **state) {
    (void)state;
    int tried = 0, refused = 0;
    for (int i = 0; sl_interop_importers[i]; i++) {
        const struct sl_importer *row = sl_interop_importers[i];
        size_t length = strlen(row->example);
        char *text = malloc(length + 1);
        assert_non_null(text);
        for (size_t at = 0; at < length; at++, tried += 3) {
            memcpy(text, row->example, length);
            refused += try_text(row, text, at); /* cut short */
            memmove(text + at, text + at + 1, length - at - 1);
            refused += try_text(row, text, length - 1); /* without this byte */
            memcpy(text, row->example, length);
            text[at] = (char)(text[at] ^ 5);
            refused += try_text(row, text, length);
        }
        free(text);
    }
    printf("count: %d damaged files, %d of them refused\n", tried, refused);
    assert_true(refused > tried / 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_its_example),
        cmocka_unit_test(survives_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
