/* Random schedules of passes and their mutants: lowering and verifier accept those that a plain judge
 * can run, and no other; what they accept does what training means (support/symbolic.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lower/lower.h"
#include "sched/order.h"
#include "support/free_sched.h"
#include "support/symbolic.h"

#include <stdio.h>
#include <string.h>

enum { SEED = 2424, MUTANTS = 100000, PER_SCHEDULE = 20 };

struct counts {
    int64_t run, not_run, other_order;
};

/* Compares the two judges on one schedule. */
static void judge(const struct free_sched *s, struct counts *counts) {
    struct sl_arena arena = {0};
    struct sl_text text = {0};
    struct sl_sched *sched, *lowered = NULL;
    const char *why = free_sched_judge(s), *broken = NULL;
    free_sched_text(s, &text);
    if (sl_sched_read(&arena, "free.sched", text.at, text.length, &sched) != SL_OK)
        fail_msg("%s\n%s", sl_err_message(), text.at);
    bool accepted =
        sl_lower_passes(&arena, sched, &lowered) == SL_OK && sl_sched_verify(lowered) == SL_OK;
    if (accepted)
        broken = symbolic_judge(lowered);
    if (accepted && (why || broken))
        fail_msg("accepted, but %s\n%s", why ? why : broken, text.at);
    if (!accepted && !why)
        fail_msg("it can run, but: %s\n%s", sl_err_message(), text.at);
    if (accepted && !sl_sched_order_of(lowered).gradients)
        fail_msg("the order of one worker was not restored\n%s", text.at);
    counts->run += !why;
    counts->not_run += why != NULL;
    counts->other_order += accepted && !sl_sched_order_of(sched).gradients;
    sl_text_free(&text);
    sl_arena_free(&arena);
}

static void test_mutants(void **state) {
    struct counts plain = {0}, mutants = {0};
    static struct free_sched original, mutant;
    int64_t all = test_count(MUTANTS);
    (void)state;
    for (uint64_t stream = 0; mutants.run + mutants.not_run < all; stream++) {
        struct dice dice = {.seed = SEED, .stream = stream};
        struct free_graph graph;
        free_graph_draw(&dice, &graph);
        free_sched_draw(&dice, &graph, &original);
        assert_null(free_sched_judge(&original));
        judge(&original, &plain);
        for (int i = 0; i < PER_SCHEDULE; i++) {
            if (i % 3 == 0) /* up to three changes in a row */
                mutant = original;
            if (free_sched_mutate(&dice, &mutant))
                judge(&mutant, &mutants);
        }
    }
    assert_int_equal(plain.not_run, 0);
    assert_true(mutants.run > all / 10 && mutants.not_run > all / 10);
    printf("count: %lld schedules run; of %lld mutants %lld run (%lld in another order), %lld are "
           "refused: as judged\n",
           (long long)plain.run, (long long)(mutants.run + mutants.not_run), (long long)mutants.run,
           (long long)mutants.other_order, (long long)mutants.not_run);
}

/* The judge itself: each of these is broken in its own way. */
static void test_judge(void **state) {
    struct dice dice = {.seed = SEED};
    const struct free_graph graph = {
        .stages = 2, .edges = 1, .workers = 2, .micros = 2, .edge = {{0, 1}}, .worker_of = {0, 1}};
    static struct free_sched good, bad;
    (void)state;
    free_sched_draw(&dice, &graph, &good);
    assert_null(free_sched_judge(&good));
    bad = good;
    bad.list[1][0].micro = 2;
    assert_string_equal(free_sched_judge(&bad), "a pass that is nowhere");
    bad = good;
    bad.count[0]--;
    assert_string_equal(free_sched_judge(&bad), "a pass is missing");
    bad = good;
    bad.list[0][bad.count[0]] = bad.list[0][0];
    bad.count[0]++;
    assert_string_equal(free_sched_judge(&bad), "a pass twice");
    bad = good;
    bad.list[1][0] = good.list[1][good.count[1] - 1];
    bad.list[1][good.count[1] - 1] = good.list[1][0];
    assert_string_equal(free_sched_judge(&bad), "a worker waits for ever");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_judge),
        cmocka_unit_test(test_mutants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
