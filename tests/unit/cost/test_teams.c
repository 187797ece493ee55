/* Machines of teams: who is in a team, and which wires its members share. */
#include "cost/machine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

static const char two_levels[] = "sluice-machine 1\n"
                                 "machine m \"\"\n"
                                 "kind a memory 1000 stream 7 fp32 11 efficiency 1 overhead 3\n"
                                 "kind b memory 2000 stream 17 fp32 19 efficiency 1 overhead 0\n"
                                 "link fast bandwidth 120 latency 29 sharing port\n"
                                 "link bus bandwidth 240 latency 31 sharing bus\n"
                                 "link rack bandwidth 60 latency 37 sharing port\n"
                                 "link room bandwidth 30 latency 41 sharing port\n";
static const char equal_hosts[] = "host x count 8 inside fast devices a 4\n"
                                  "level rack hosts 2 over rack\n"
                                  "level room hosts 8 over room\n";
static const char mixed_hosts[] = "host x count 1 inside bus devices a 5 b 4\n"
                                  "host y count 1 inside fast devices b 2\n"
                                  "level rack hosts 2 over rack\n";

static const struct sl_machine *open_with(struct sl_arena *arena, const char *hosts) {
    const struct sl_machine *m;
    const char *text = sl_arena_printf(arena, "%s%s", two_levels, hosts);
    assert_int_equal(sl_cost_machine_read(arena, "t", text, strlen(text), &m), SL_OK);
    return m;
}

static void inside_hosts(void **state) {
    (void)state;
    struct sl_arena arena = {0};
    struct sl_team_link link;
    const struct sl_machine *m = open_with(&arena, equal_hosts), *teams;
    assert_int_equal(sl_cost_machine_teams(&arena, m, 1, &teams, &link), SL_OK);
    assert_ptr_equal(teams, m);
    assert_int_equal(sl_cost_machine_teams(&arena, m, 2, &teams, &link), SL_OK);
    assert_int_equal(teams->device_count, 16);
    assert_true(link.bandwidth == 120 && link.latency_ns == 29);
    assert_true(sl_cost_machine_between(teams, 0, 1)->bandwidth == 120);
    assert_true(sl_cost_machine_between(teams, 1, 2)->bandwidth == 30); /* two share 60 */
    assert_true(sl_cost_machine_between(teams, 0, 15)->bandwidth == 15);
    sl_arena_free(&arena);
}

static void whole_hosts(void **state) {
    (void)state;
    struct sl_arena arena = {0};
    struct sl_team_link link;
    const struct sl_machine *m = open_with(&arena, equal_hosts), *teams;
    assert_int_equal(sl_cost_machine_teams(&arena, m, 8, &teams, &link), SL_OK);
    assert_int_equal(teams->device_count, 4);
    assert_true(link.bandwidth == 60 && link.latency_ns == 37);
    assert_int_equal(teams->level_count, 1); /* racks are teams */
    assert_true(sl_cost_machine_between(teams, 0, 3)->bandwidth ==
                7.5); /* four of a host share 30 */
    assert_int_equal(sl_cost_machine_teams(&arena, m, 6, &teams, &link), SL_ERR_REFUSED);
    assert_int_equal(sl_cost_machine_teams(&arena, m, 64, &teams, &link), SL_ERR_REFUSED);
    sl_arena_free(&arena);
}

/* Devices of one kind make a team; a bus carries the messages of all its members. */
static void mixed(void **state) {
    (void)state;
    struct sl_arena arena = {0};
    struct sl_team_link link;
    const struct sl_machine *m = open_with(&arena, mixed_hosts), *teams;
    assert_int_equal(sl_cost_machine_teams(&arena, m, 2, &teams, &link), SL_OK);
    assert_int_equal(teams->device_count, 5); /* a a b b | b */
    assert_int_equal(teams->kind_of[1], 0);
    assert_int_equal(teams->kind_of[2], 1);
    assert_true(link.bandwidth == 120);
    assert_true(sl_cost_machine_between(teams, 0, 1)->bandwidth == 120);
    assert_int_equal(sl_cost_machine_teams(&arena, m, 6, &teams, &link), SL_ERR_REFUSED);
    sl_arena_free(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inside_hosts),
        cmocka_unit_test(whole_hosts),
        cmocka_unit_test(mixed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
