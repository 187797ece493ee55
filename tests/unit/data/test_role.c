/* What an input is for, by its name and type. */
#include "data/source.h"
#include "support/data_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

static enum sl_data_role of_int(const char *name) {
    struct sl_data_input input = sl_test_int(name, 4, 9);
    return sl_data_role(&input);
}

static enum sl_data_role of_float(const char *name) {
    struct sl_data_input input = sl_test_float(name, 1, 4, 4);
    return sl_data_role(&input);
}

static void test_names(void **state) {
    (void)state;
    static const struct {
        const char *name;
        enum sl_data_role is_int, is_float;
    } rows[] = {
        {"tokens", SL_ROLE_TOKENS, SL_ROLE_FEATURE},
        {"x", SL_ROLE_TOKENS, SL_ROLE_FEATURE},
        {"text_tokens", SL_ROLE_TOKENS, SL_ROLE_FEATURE},
        {"a.input_ids", SL_ROLE_TOKENS, SL_ROLE_FEATURE},
        {"mytokens", SL_ROLE_FEATURE, SL_ROLE_FEATURE}, /* a word of its own */
        {"tokens_", SL_ROLE_FEATURE, SL_ROLE_FEATURE},
        {"token", SL_ROLE_FEATURE, SL_ROLE_FEATURE},
        {"targets", SL_ROLE_TARGET, SL_ROLE_TARGET},
        {"y", SL_ROLE_TARGET, SL_ROLE_TARGET},
        {"a_y", SL_ROLE_FEATURE, SL_ROLE_FEATURE}, /* too short to be the end of a name */
        {"a.label", SL_ROLE_TARGET, SL_ROLE_TARGET},
        {"a-label", SL_ROLE_FEATURE, SL_ROLE_FEATURE},
        {"mask", SL_ROLE_MASK, SL_ROLE_MASK},
        {"pad_mask", SL_ROLE_MASK, SL_ROLE_MASK},
        {"segments", SL_ROLE_SEGMENT, SL_ROLE_FEATURE},
        {"position_ids", SL_ROLE_POSITION, SL_ROLE_FEATURE}, /* longer than ids */
        {"pos", SL_ROLE_POSITION, SL_ROLE_FEATURE},
        {"image", SL_ROLE_FEATURE, SL_ROLE_IMAGE},
        {"left.pixels", SL_ROLE_FEATURE, SL_ROLE_IMAGE},
        {"row", SL_ROLE_ROW, SL_ROLE_FEATURE},
        {"match", SL_ROLE_MATCH, SL_ROLE_FEATURE},
        {"anything", SL_ROLE_FEATURE, SL_ROLE_FEATURE},
    };
    for (int i = 0; i < SL_COUNT(rows); i++) {
        if (of_int(rows[i].name) != rows[i].is_int)
            fail_msg("int %s", rows[i].name);
        if (of_float(rows[i].name) != rows[i].is_float)
            fail_msg("float %s", rows[i].name);
    }
}

static void test_text(void **state) {
    char text[SL_DATA_INPUT_TEXT], name[200];
    (void)state;
    struct sl_data_input input = sl_test_int("tokens", 7, 9);
    assert_string_equal(sl_data_input_text(&input, text), "'tokens' int[B,7]");
    input = sl_test_float("image", 3, 32, 32);
    assert_string_equal(sl_data_input_text(&input, text), "'image' float[B,3,32,32]");
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = 0;
    input.name = name;
    sl_data_input_text(&input, text);
    assert_memory_equal(text, "'nnnnnn", 7);
    assert_true(strlen(text) < SL_DATA_INPUT_TEXT && text[strlen(text) - 1] == ']');
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_names), cmocka_unit_test(test_text)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
