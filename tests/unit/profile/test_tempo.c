/* Tempo: measured pass times relative to the table. */
#include "profile/tempo.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_order(void **state) {
    (void)state;
    struct sl_arena arena = {0};
    struct sl_tempo_log log;
    sl_profile_tempo_open(&arena, &log, 2, 3, 2);
    for (int worker = 0; worker < 2; worker++)
        for (int size = 0; size < 2; size++) {
            struct sl_profile_pair took[3];
            for (int k = 0; k < 3; k++)
                took[k] = (struct sl_profile_pair){100 + 10 * k + worker, 400 + 40 * size};
            sl_profile_tempo_add(&log, worker, size, took, (struct sl_profile_pair){100, 400});
        }
    struct sl_tempo tempo = sl_profile_tempo_of(&log);
    assert_true(tempo.workers == 2 && tempo.passes == 12);
    for (int worker = 0; worker < 2; worker++)
        for (int k = 0; k < 6; k++) {
            assert_int_equal(sl_tempo_at(&tempo, worker, 2 * k),
                             1000000 + 100000 * (k % 3) + 10000 * worker);
            assert_int_equal(sl_tempo_at(&tempo, worker, 2 * k + 1), k < 3 ? 1000000 : 1100000);
        }
    sl_arena_free(&arena);
}

/* The room of a table limits the rounds; a pass without time has the share 1. */
static void test_edges(void **state) {
    (void)state;
    enum { ROUNDS = SL_TEMPO_PASSES };
    struct sl_arena arena = {0};
    struct sl_tempo_log log;
    struct sl_profile_pair *took = SL_NEW(&arena, struct sl_profile_pair, ROUNDS);
    sl_profile_tempo_open(&arena, &log, 1, ROUNDS, 1);
    assert_int_equal(log.rounds, SL_TEMPO_PASSES / 2);
    took[0] = (struct sl_profile_pair){INT64_MAX, 5};
    sl_profile_tempo_add(&log, 0, 0, took, (struct sl_profile_pair){1, 0});
    struct sl_tempo tempo = sl_profile_tempo_of(&log);
    assert_int_equal(sl_tempo_at(&tempo, 0, 0), SL_TEMPO_MAX);
    assert_int_equal(sl_tempo_at(&tempo, 0, 1), SL_TEMPO_EVEN);
    assert_int_equal(sl_tempo_at(&tempo, 0, 2), 0);
    sl_arena_free(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_order), cmocka_unit_test(test_edges)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
