/* Buffers that sends assume: lowering needs none; crossing sends need as many as cross. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "interop/send_buffers.h"
#include "interop/torch_csv.h"
#include "lower/lower.h"
#include "support/sched_cases.h"

#include <stdio.h>
#include <string.h>

static void test_lowered(void **state) {
    int rows, built = 0;
    const struct sl_schedule *const *registry = sl_schedules_row_registry(&rows);
    (void)state;
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < 10; c++) {
            struct dice dice = {.seed = 241, .stream = (uint64_t)(r * 100 + c)};
            struct sl_arena arena = {0};
            struct sched_case one = sched_case_draw(&arena, &dice, registry[r], 5);
            const struct sl_sched *sched;
            if (sl_schedules_build(&arena, one.plan, &one.opts, &sched) == SL_OK) {
                assert_int_equal(sl_interop_send_buffers(sched), 0);
                built++;
            }
            sl_arena_free(&arena);
        }
    printf("count: %d lowered schedules need no buffer\n", built);
    assert_true(built > 100);
}

static sl_err read(struct sl_arena *arena, const char *text, struct sl_sched **out) {
    return sl_interop_torch_csv_read(arena, "t.csv", text, strlen(text), out);
}

static void test_crossing(void **state) {
    static const struct {
        const char *text;
        int32_t buffers;
    } cases[] = {
        /* each RECV stands before the SEND of its partner */
        {"0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n", 0},
        /* 0 sends F1 while 1 sends B0: one of them must not wait */
        {"0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
         "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n",
         1},
        /* two forwards cross the backward */
        {"0F0,0SEND_F0,0F1,0SEND_F1,0F2,0SEND_F2,0RECV_B0,0B0,0RECV_B1,0B1,0RECV_B2,0B2\n"
         "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1,1RECV_F2,1F2,1B2,1SEND_B2\n",
         1},
    };
    (void)state;
    for (int i = 0; i < SL_COUNT(cases); i++) {
        struct sl_arena arena = {0};
        struct sl_sched *sched, *lowered;
        assert_int_equal(read(&arena, cases[i].text, &sched), SL_OK);
        if (sched->buffers != cases[i].buffers)
            fail_msg("case %d: %d buffers", i, sched->buffers);
        assert_int_equal(sl_lower_passes(&arena, sched, &lowered), SL_OK);
        assert_int_equal(sl_sched_verify(lowered), SL_OK);
        assert_int_equal(lowered->buffers, cases[i].buffers);
        assert_int_equal(sl_interop_send_buffers(lowered), 0);
        sl_arena_free(&arena);
    }
}

/* No buffer helps a worker that waits for itself. */
static void test_never(void **state) {
    struct sl_arena arena = {0};
    struct sl_sched *sched;
    (void)state;
    assert_int_equal(read(&arena,
                          "0F0,0SEND_F0,0RECV_B0,0B0,0F1,0SEND_F1,0RECV_B1,0B1\n"
                          "1RECV_F0,1F0,1RECV_F1,1F1,1B0,1SEND_B0,1B1,1SEND_B1\n",
                          &sched),
                     SL_ERR_REFUSED);
    assert_non_null(strstr(sl_err_message(), "whatever the sends can buffer"));
    sl_arena_free(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lowered),
        cmocka_unit_test(test_crossing),
        cmocka_unit_test(test_never),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
