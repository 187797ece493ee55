/* Devices as a machine: hardware facts, different kinds, links, and the text round trip. */
#include "profile/devices.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

static const struct sl_device_facts h200 = {"NVIDIA H200", 150000000000, 132,   4.9e12, 66e12,
                                            1070e12,       63e9,         450e9, 18};
static const struct sl_device_facts small = {"NVIDIA H200", 75000000000, 66,   2.4e12, 33e12,
                                             500e12,        31e9,        31e9, 0};

static const struct sl_machine *build(struct sl_arena *arena, const struct sl_device_facts *facts,
                                      int count) {
    const struct sl_machine *built, *read;
    struct sl_text text = {0}, again = {0};
    if (sl_profile_machine_of(arena, facts, count, &built) != SL_OK)
        fail_msg("%s", sl_err_message());
    sl_cost_machine_write(built, &text);
    if (sl_cost_machine_read(arena, "t", text.at, text.length, &read) != SL_OK)
        fail_msg("%s", sl_err_message());
    sl_cost_machine_write(read, &again);
    assert_string_equal(text.at, again.at);
    assert_int_equal(built->device_count, count);
    sl_text_free(&text);
    sl_text_free(&again);
    return read;
}

static void test_alike(void **state) {
    (void)state;
    struct sl_arena arena = {0};
    struct sl_device_facts facts[] = {h200, h200, h200, h200};
    const struct sl_machine *m = build(&arena, facts, 4);
    assert_int_equal(m->kind_count, 1);
    assert_string_equal(m->kinds[0].name, "nvidia-h200");
    assert_int_equal(m->kinds[0].memory_bytes, 150000000000);
    assert_true(m->kinds[0].flops[SL_MATH_BF16] == 1070e12);
    assert_true(m->kinds[0].stream == 4.9e12);
    assert_string_equal(m->links[0].name, "nvlink");
    assert_true(m->links[0].bandwidth == 450e9);
    sl_arena_free(&arena);
}

static void test_mixed(void **state) {
    (void)state;
    struct sl_arena arena = {0};
    struct sl_device_facts facts[] = {h200, small, small, h200};
    const struct sl_machine *m = build(&arena, facts, 4);
    assert_int_equal(m->kind_count, 3);
    assert_string_not_equal(m->kinds[0].name, m->kinds[1].name);
    assert_string_not_equal(m->kinds[1].name, m->kinds[2].name);
    assert_int_equal(m->kind_of[1], m->kind_of[2]);
    assert_string_equal(m->links[0].name, "pcie"); /* the slowest link */
    assert_true(m->links[0].bandwidth == 31e9);
    sl_arena_free(&arena);
}

/* A machine is built even without NVML or with one device. */
static void test_unknown(void **state) {
    (void)state;
    struct sl_arena arena = {0};
    struct sl_device_facts bare = {.memory_bytes = 1 << 30};
    struct sl_device_facts facts[] = {bare, bare};
    assert_string_equal(build(&arena, facts, 2)->kinds[0].name, "gpu");
    assert_string_equal(build(&arena, &h200, 1)->links[0].name, "memory");
    sl_arena_free(&arena);
}

static int list_three(struct sl_device_facts *out, int max) {
    struct sl_device_facts facts[] = {h200, h200, small};
    for (int i = 0; i < 3 && i < max; i++)
        out[i] = facts[i];
    return 3;
}

static void test_text(void **state) {
    (void)state;
    struct sl_arena arena = {0};
    struct sl_device_row row = {.name = "cuda", .list = list_three};
    const char *text = sl_profile_devices_text(&arena, &row);
    assert_non_null(strstr(text, "2 x NVIDIA H200 ("));
    assert_non_null(strstr(text, "132 multiprocessors, 18 NVLinks"));
    assert_non_null(strstr(text, ", 1 x NVIDIA H200 ("));
    row.list = NULL;
    assert_null(sl_profile_devices_text(&arena, &row));
    sl_arena_free(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_alike), cmocka_unit_test(test_mixed),
                                       cmocka_unit_test(test_unknown), cmocka_unit_test(test_text)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
