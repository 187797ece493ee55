/* Machines: text round trip, links between devices, wrong files. */
#include "cost/machine.h"
#include "support/texts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

static const char good[] = "sluice-machine 1\n"
                           "machine two \"a small one\"\n"
                           "kind a memory 1000 stream 7 fp32 11 fp16 13 efficiency 0.5 overhead 3\n"
                           "kind b memory 2000 stream 17 fp32 19 efficiency 1 overhead 0 half 43 "
                           "score 2.5 launch 47 meet 53 message 59\n"
                           "link fast bandwidth 23 latency 29 sharing pair sum 61 latency 67\n"
                           "link slow bandwidth 31 latency 37 sharing port\n"
                           "link far bandwidth 5 latency 41 sharing bus\n"
                           "host x count 3 inside fast devices a 2 b 1\n"
                           "host y count 3 inside slow devices b 2\n"
                           "level rack hosts 2 over slow\n"
                           "level room hosts 6 over far\n";

static sl_err read_text(struct sl_arena *arena, const char *text, const struct sl_machine **out) {
    return sl_cost_machine_read(arena, "t", text, strlen(text), out);
}

static void round_trip(void **state) {
    (void)state;
    struct sl_arena arena = {0};
    struct sl_text text = {0};
    const struct sl_machine *m;
    assert_int_equal(read_text(&arena, good, &m), SL_OK);
    sl_cost_machine_write(m, &text);
    assert_string_equal(text.at, good);
    assert_int_equal(m->device_count, 15);
    assert_int_equal(m->hosts_in_all, 6);
    sl_text_free(&text);
    sl_arena_free(&arena);
}

/* Devices are numbered host by host: 3 hosts of a a b, then 3 of b b. */
static void between(void **state) {
    (void)state;
    struct sl_arena arena = {0};
    const struct sl_machine *m;
    assert_int_equal(read_text(&arena, good, &m), SL_OK);
    assert_null(sl_cost_machine_between(m, 4, 4));
    assert_string_equal(sl_cost_machine_between(m, 0, 2)->name, "fast");
    assert_string_equal(sl_cost_machine_between(m, 0, 3)->name,
                        "slow"); /* hosts 0 and 1: one rack */
    assert_string_equal(sl_cost_machine_between(m, 5, 6)->name, "far");  /* hosts 1 and 2 */
    assert_string_equal(sl_cost_machine_between(m, 6, 9)->name, "slow"); /* hosts 2 and 3 */
    assert_string_equal(sl_cost_machine_between(m, 0, 14)->name, "far");
    assert_int_equal(m->kind_of[1], 0);
    assert_int_equal(m->kind_of[2], 1);
    assert_int_equal(m->host_of[9], 3);
    assert_true(sl_cost_kind_flops(&m->kinds[0], SL_MATH_FP16) == 6.5);
    assert_true(sl_cost_kind_flops(&m->kinds[1], SL_MATH_BF16) == 19); /* as fp32 */
    sl_arena_free(&arena);
}

/* With constants of sums, or as a ring of messages. */
static void sums(void **state) {
    (void)state;
    struct sl_arena arena = {0};
    const struct sl_machine *m;
    assert_int_equal(read_text(&arena, good, &m), SL_OK);
    assert_true(sl_cost_link_sum_ns(&m->links[0], 1, 61) == 0);
    assert_true(sl_cost_link_sum_ns(&m->links[0], 2, 61) == 67 + 1e9);
    assert_true(sl_cost_link_sum_ns(&m->links[0], 4, 61) == 67 + 1.5e9);
    assert_true(sl_cost_link_sum_ns(&m->links[1], 2, 31) == 74 + 1e9);
    sl_arena_free(&arena);
}

static void first_devices(void **state) {
    (void)state;
    struct sl_arena arena = {0};
    const struct sl_machine *m, *part;
    assert_int_equal(read_text(&arena, good, &m), SL_OK);
    for (int count = 1; count <= m->device_count; count++) {
        assert_int_equal(sl_cost_machine_first(&arena, m, count, &part), SL_OK);
        assert_int_equal(part->device_count, count);
        for (int d = 0; d < count; d++) {
            assert_int_equal(part->kind_of[d], m->kind_of[d]);
            assert_int_equal(part->host_of[d], m->host_of[d]);
        }
    }
    assert_int_equal(sl_cost_machine_first(&arena, m, 16, &part), SL_ERR_REFUSED);
    sl_arena_free(&arena);
}

static sl_err reads(struct sl_arena *arena, const char *text) {
    const struct sl_machine *out;
    return read_text(arena, text, &out);
}

static void sabotage(void **state) {
    (void)state;
    static const struct sabotage rows[] = {
        {"machine two", "machin two", "expected machine, kind"},
        {"memory 1000", "memory 0", "memory must be positive"},
        {"stream 7", "stream 0", "stream and fp32"},
        {"fp32 11 ", "", "stream and fp32"},
        {"efficiency 0.5", "efficiency 1.5", "efficiency is not in"},
        {"overhead 3", "overhead 3000000000", "overhead"},
        {"half 43", "half 1e30", "half or score"},
        {"score 2.5", "score -1", "half or score"},
        {"launch 47", "launch 2000000000", "launch"},
        {"meet 53", "meat 53", "a kind has"},
        {"sum 61", "sum 0.5", "sum is not in"},
        {"sum 61 latency 67", "sum 0 latency 67", "latency of sums"},
        {"sum 61 latency 67", "sum 61", "expected 'latency'"},
        {"kind b", "kind a memory 1 stream 1 fp32 1\nkind b", "two kinds are called a"},
        {"link slow", "link fast bandwidth 1 latency 1 sharing bus\nlink slow",
         "two links are called fast"},
        {"bandwidth 23", "bandwidth 0", "bandwidth is not in"},
        {"sharing pair", "sharing all", "shared by a pair"},
        {"inside fast", "inside fats", "no link is called 'fats'"},
        {"devices a 2 b 1", "devices c 2", "no kind of device is called 'c'"},
        {"devices a 2 b 1", "devices", "needs a count and devices"},
        {"devices b 2", "devices b 65535", "more than 65535 devices"},
        {"count 3", "count 0", "needs a count"},
        {"hosts 2", "hosts 1", "no multiple"},
        {"hosts 6", "hosts 5", "no multiple"},
        {"hosts 6", "hosts 4", "join only 4"},
        {"sluice-machine 1", "sluice-machine 2", "format 2 is not known"},
        {"\"a small one\"", "\"a \\\" one\"", "invalid character"},
    };
    sabotage_text(good, rows, SL_COUNT(rows), reads);
}

static void library(void **state) {
    (void)state;
    for (int i = 0; i < sl_cost_machine_row_count; i++) {
        struct sl_arena arena = {0};
        struct sl_text once = {0}, twice = {0};
        const struct sl_machine *m;
        if (i)
            assert_true(strcmp(sl_cost_machine_rows[i - 1].name, sl_cost_machine_rows[i].name) < 0);
        if (sl_cost_machine_open(&arena, sl_cost_machine_rows[i].name, &m) != SL_OK)
            fail_msg("%s", sl_err_message());
        sl_cost_machine_write(m, &once);
        assert_int_equal(read_text(&arena, once.at, &m), SL_OK);
        sl_cost_machine_write(m, &twice);
        assert_string_equal(once.at, twice.at);
        sl_text_free(&once);
        sl_text_free(&twice);
        sl_arena_free(&arena);
    }
}

static void one_liner(void **state) {
    (void)state;
    struct sl_arena arena = {0};
    const struct sl_machine *m;
    assert_int_equal(
        sl_cost_machine_spec(&arena, "2x4:mem=16G,intra=100GB/s,inter=10Gb/s,flops=1e12", &m),
        SL_OK);
    assert_int_equal(m->device_count, 8);
    assert_true(m->kinds[0].memory_bytes == (int64_t)16 << 30);
    assert_true(sl_cost_machine_between(m, 0, 3)->bandwidth == 100e9);
    assert_true(sl_cost_machine_between(m, 3, 4)->bandwidth == 1.25e9);
    assert_int_equal(sl_cost_machine_spec(&arena, "3", &m), SL_ERR_USAGE);
    assert_int_equal(sl_cost_machine_spec(&arena, "0x4", &m), SL_ERR_USAGE);
    assert_int_equal(sl_cost_machine_spec(&arena, "2x4:mem", &m), SL_ERR_USAGE);
    assert_int_equal(sl_cost_machine_spec(&arena, "2x4:men=1", &m), SL_ERR_USAGE);
    assert_int_equal(sl_cost_machine_open(&arena, "sumit", &m), SL_ERR_USAGE);
    assert_non_null(strstr(sl_err_message(), "summit"));
    sl_arena_free(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),    cmocka_unit_test(between),  cmocka_unit_test(sums),
        cmocka_unit_test(first_devices), cmocka_unit_test(sabotage), cmocka_unit_test(library),
        cmocka_unit_test(one_liner),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
