/* Orders of sums: what is found, what is restored, and for which memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lower/lower.h"
#include "sched/order.h"
#include "support/sched_cases.h"
#include "support/symbolic.h"

#include <string.h>

/* GPipe on two stages whose backwards run in the order `order`, as in torch's LoopedBFS. */
static struct sl_sched *passes(struct sl_arena *arena, const int *order, int micros,
                               const int64_t *memory, int32_t iters) {
    const struct sl_plan *plan;
    struct sl_sched *sched;
    struct sl_schedule_opts opts = {.schedule = "gpipe", .micros = micros, .iters = iters};
    assert_int_equal(sl_plan_chain(arena, 2, 2, SL_LAYOUT_LOOP, &plan), SL_OK);
    struct sl_plan draft = *plan;
    struct sl_stage stages[2] = {plan->stages[0], plan->stages[1]};
    stages[0].bytes.kept = stages[1].bytes.kept = 100;
    draft.stages = stages;
    draft.memory_bytes = memory;
    assert_int_equal(sl_plan_build(arena, &draft, &plan), SL_OK);
    assert_int_equal(sl_schedules_generate(arena, plan, &opts, &sched), SL_OK);
    for (int w = 0; w < 2; w++)
        for (int i = 0; i < micros; i++)
            sched->lists[SL_PERIOD][w].at[micros + i].micro = order[i];
    return sched;
}

static void test_restored(void **state) {
    static const int lifo[] = {3, 2, 1, 0}, mixed[] = {1, 0, 3, 2}, fifo[] = {0, 1, 2, 3};
    static const struct {
        const int *order;
        int inputs; /* B that become I and W */
    } cases[] = {{lifo, 3}, {mixed, 2}, {fifo, 0}};
    (void)state;
    for (int c = 0; c < SL_COUNT(cases); c++) {
        struct sl_arena arena = {0};
        struct sl_sched *given = passes(&arena, cases[c].order, 4, NULL, 5), *out;
        int inputs = 0;
        assert_int_equal(sl_sched_order_of(given).gradients, cases[c].inputs == 0);
        assert_int_equal(sl_sched_order_restore(&arena, given) != NULL, cases[c].inputs > 0);
        assert_int_equal(sl_lower_passes(&arena, given, &out), SL_OK);
        assert_int_equal(sl_sched_verify(out), SL_OK);
        assert_null(symbolic_judge(out));
        assert_true(sl_sched_order_of(out).gradients);
        assert_int_equal(sl_sched_order_require(out), SL_OK);
        for (int64_t i = 0; i < out->lists[SL_PERIOD][0].count; i++)
            inputs += out->lists[SL_PERIOD][0].at[i].kind == SL_BACKWARD_INPUT;
        assert_int_equal(inputs, cases[c].inputs);
        sl_arena_free(&arena);
    }
}

/* What is kept for the late W does not fit: the given order runs. */
static void test_memory(void **state) {
    static const int lifo[] = {3, 2, 1, 0};
    struct sl_arena arena = {0};
    struct sl_sched *given = passes(&arena, lifo, 4, NULL, 2), *out;
    (void)state;
    assert_int_equal(sl_lower_passes(&arena, given, &out), SL_OK);
    int64_t memory[] = {sl_sched_worker_bytes(out, 0), sl_sched_worker_bytes(out, 1)};
    given = passes(&arena, lifo, 4, memory, 2);
    assert_int_equal(sl_lower_passes(&arena, given, &out), SL_OK);
    assert_true(sl_sched_order_of(out).gradients);
    memory[1] -= 100;
    given = passes(&arena, lifo, 4, memory, 2);
    assert_int_equal(sl_lower_passes(&arena, given, &out), SL_OK);
    struct sl_sched_order order = sl_sched_order_of(out);
    assert_false(order.gradients);
    assert_true(order.forwards);
    assert_int_equal(order.micro, 2);
    assert_int_equal(order.after, 3);
    assert_int_equal(sl_sched_verify(out), SL_OK);
    assert_null(symbolic_judge(out));
    assert_int_equal(sl_sched_order_require(out), SL_ERR_REFUSED);
    assert_non_null(strstr(sl_err_message(),
                           "stage s0: the gradient of micro-batch 2 is added after "
                           "that of 3"));
    sl_arena_free(&arena);
}

/* Each gradient once: a lost or a doubled one is refused in any order. */
static void test_once(void **state) {
    static const int twice[] = {3, 2, 2, 0};
    struct sl_arena arena = {0};
    struct sl_sched *given = passes(&arena, twice, 4, NULL, 1), *out;
    (void)state;
    assert_null(sl_sched_order_restore(&arena, given));
    assert_int_equal(sl_lower_passes(&arena, given, &out), SL_ERR_REFUSED);
    assert_non_null(strstr(sl_err_message(), "runs twice"));
    sl_arena_free(&arena);
}

/* Forwards out of order count for running statistics only. */
static void test_forwards(void **state) {
    static const int fifo[] = {0, 1};
    struct sl_arena arena = {0};
    struct sl_sched *given = passes(&arena, fifo, 2, NULL, 1), *out;
    (void)state;
    for (int w = 0; w < 2; w++)
        for (int i = 0; i < 2; i++)
            given->lists[SL_PERIOD][w].at[i].micro = 1 - i;
    assert_int_equal(sl_lower_passes(&arena, given, &out), SL_OK);
    assert_int_equal(sl_sched_verify(out), SL_OK);
    assert_true(sl_sched_order_of(out).gradients);
    assert_false(sl_sched_order_of(out).forwards);
    sl_arena_free(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_restored),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_once),
        cmocka_unit_test(test_forwards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
