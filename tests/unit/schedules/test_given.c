/* Schedules from files as rows: any number of iterations, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sched/deps.h"
#include "schedules/given.h"
#include "support/sched_cases.h"
#include "support/symbolic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Passes of a worker in their order, as one list. */
static int64_t flatten(const struct sl_sched *s, int worker, struct sl_action *out) {
    int64_t count = 0;
    for (int g = 0; g < SL_SEGMENT_COUNT; g++)
        for (int32_t r = 0; r < (g == SL_PERIOD ? s->reps : 1); r++)
            for (int64_t i = 0; i < s->lists[g][worker].count; i++) {
                struct sl_action a = s->lists[g][worker].at[i];
                a.micro += (g == SL_EPILOGUE ? s->reps : r) * s->micros[a.stage];
                out[count++] = a;
            }
    return count;
}

/* The passes of the first `iters` iterations of `file` are those of `now`. */
static void compare(const struct sl_sched *file, const struct sl_sched *now) {
    enum { MAX = 200000 };
    struct sl_action *a = malloc(sizeof *a * MAX), *b = malloc(sizeof *b * MAX);
    for (int w = 0; w < file->plan->worker_count; w++) {
        int64_t n = flatten(file, w, a), m = flatten(now, w, b), at = 0;
        assert_true(n < MAX && m < MAX);
        for (int64_t i = 0; i < n; i++)
            if (a[i].micro < now->iters * file->micros[a[i].stage]) {
                assert_true(at < m);
                assert_int_equal(a[i].kind, b[at].kind);
                assert_int_equal(a[i].stage, b[at].stage);
                assert_int_equal(a[i].micro, b[at++].micro);
            }
        assert_int_equal(at, m);
    }
    free(a);
    free(b);
}

/* Every row of the registry, written, read and used for other numbers of iterations. */
static void test_lengths(void **state) {
    int rows, built = 0;
    const struct sl_schedule *const *registry = sl_schedules_row_registry(&rows);
    (void)state;
    for (int r = 0; r < rows; r++) {
        if (registry[r]->rule == SL_RULE_FORWARD)
            continue;
        for (int c = 0; c < 6; c++) {
            struct dice dice = {.seed = 24, .stream = (uint64_t)(r * 100 + c)};
            struct sl_arena arena = {0};
            struct sched_case one = sched_case_draw(&arena, &dice, registry[r], 4);
            struct sl_sched *passes, *read;
            const struct sl_schedule *row;
            struct sl_text text = {0};
            one.opts.last_batch = 0;
            one.opts.iters = 20;
            if (sl_schedules_generate(&arena, one.plan, &one.opts, &passes) != SL_OK) {
                sl_arena_free(&arena);
                continue;
            }
            sl_sched_write(passes, &text);
            assert_int_equal(sl_sched_read(&arena, "x.sched", text.at, text.length, &read), SL_OK);
            assert_int_equal(sl_schedules_given_row(&arena, read, &row), SL_OK);
            assert_ptr_equal(sl_schedules_given_passes(registry[r]), NULL);
            for (int64_t iters = 1; iters <= 20; iters += iters < 8 ? 1 : 6) {
                struct sl_schedule_opts opts = one.opts;
                const struct sl_sched *out;
                struct sl_sched *now;
                opts.schedule = NULL;
                opts.row = row;
                opts.iters = iters;
                assert_int_equal(sl_schedules_generate(&arena, one.plan, &opts, &now), SL_OK);
                assert_int_equal(now->iters, iters);
                compare(passes, now);
                if (one.plan->seat_count == one.plan->stage_count) /* the file may be without */
                    opts.global_step |= iters % 2 == 0;
                if (sl_schedules_build(&arena, one.plan, &opts, &out) != SL_OK)
                    fail_msg("%s, %d iterations: %s", registry[r]->name, (int)iters,
                             sl_err_message());
                assert_null(symbolic_judge(out));
                built++;
            }
            sl_text_free(&text);
            sl_arena_free(&arena);
        }
    }
    printf("count: %d schedules of other lengths than their file\n", built);
    assert_true(built > 300);
}

static struct sl_sched *passes_of(struct sl_arena *arena, const struct sl_plan **plan,
                                  struct sl_schedule_opts *opts) {
    struct sl_sched *passes;
    assert_int_equal(sl_plan_chain(arena, 3, 3, SL_LAYOUT_LOOP, plan), SL_OK);
    assert_int_equal(sl_schedules_generate(arena, *plan, opts, &passes), SL_OK);
    return passes;
}

static void expect(struct sl_arena *arena, const struct sl_plan *plan,
                   const struct sl_schedule *row, struct sl_schedule_opts opts, const char *why) {
    struct sl_sched *out;
    opts.row = row;
    assert_int_equal(sl_schedules_generate(arena, plan, &opts, &out), SL_ERR_REFUSED);
    if (!strstr(sl_err_message(), why))
        fail_msg("'%s' is not in: %s", why, sl_err_message());
}

static void test_refused(void **state) {
    struct sl_arena arena = {0};
    struct sl_schedule_opts opts = {.schedule = "1f1b", .micros = 4, .iters = 3};
    const struct sl_plan *plan, *other;
    struct sl_sched *passes = passes_of(&arena, &plan, &opts), *uneven;
    const struct sl_schedule *row;
    (void)state;
    assert_int_equal(sl_schedules_given_row(&arena, passes, &row), SL_OK);
    assert_int_equal(sl_plan_chain(&arena, 4, 4, SL_LAYOUT_LOOP, &other), SL_OK);
    expect(&arena, other, row, opts, "is for 3 stages on 3 workers, the plan has 4 on 4");
    assert_int_equal(sl_plan_chain(&arena, 3, 1, SL_LAYOUT_LOOP, &other), SL_OK);
    expect(&arena, other, row, opts, "the plan has 3 on 1");
    expect(&arena, plan, row, (struct sl_schedule_opts){.micros = 5, .iters = 1},
           "has 4 micro-batches in stage 0");
    expect(&arena, plan, row, (struct sl_schedule_opts){.batch = 4, .last_batch = 2, .iters = 2},
           "shorter last one");
    struct sl_sched fixed = *passes;
    fixed.reps = 0; /* three iterations and no period */
    fixed.lists[SL_PROLOGUE] = passes->lists[SL_PERIOD];
    fixed.lists[SL_PERIOD] = SL_NEW(&arena, struct sl_actions, 3);
    assert_int_equal(sl_schedules_given_row(&arena, &fixed, &row), SL_OK);
    expect(&arena, plan, row, (struct sl_schedule_opts){.micros = 4, .iters = 4}, "no period");
    opts.last_batch = 2;
    opts.batch = 4;
    opts.micros = 0;
    assert_int_equal(sl_schedules_generate(&arena, plan, &opts, &uneven), SL_OK);
    assert_int_equal(sl_schedules_given_row(&arena, uneven, &row), SL_ERR_REFUSED);
    assert_non_null(strstr(sl_err_message(), "last iteration of 2 samples instead of 4"));
    sl_arena_free(&arena);
}

/* PipeDream as its paper draws it: the first backward of the period reads version 0, and so does the
 * second. Under every rule the file runs with any number of iterations. */
static void test_transients(void **state) {
    static const char *const rules[] = {"stash", "vsync", "twobw", "newest"};
    (void)state;
    for (int i = 0; i < SL_COUNT(rules); i++) {
        struct sl_arena arena = {0};
        struct sl_text text = {0};
        struct sl_sched *read, *lowered;
        const struct sl_sched *out;
        const struct sl_schedule *row;
        sl_text_printf(&text,
                       "sluice-sched 1\nworkers 2\nstage a width 1 micro 1 on 0\n"
                       "stage b width 1 micro 1 on 1\nedge a b 4\nprogram \"x\" rule %s passes\n"
                       "samples 1 last 1 iters 6 reps 5\nworker 0\nprologue\nF a 0\nperiod\n"
                       "F a 1\nB a 0\nepilogue\nB a 0\nworker 1\nperiod\nF b 0\nB b 0\n"
                       "epilogue\nF b 0\nB b 0\n",
                       rules[i]);
        assert_int_equal(sl_sched_read(&arena, "x.sched", text.at, text.length, &read), SL_OK);
        assert_int_equal(sl_schedules_given_row(&arena, read, &row), SL_OK);
        assert_int_equal(sl_schedules_given_lower(&arena, read, &lowered), SL_OK);
        if (sl_sched_verify(lowered) != SL_OK)
            fail_msg("%s: %s", rules[i], sl_err_message());
        assert_null(symbolic_judge(lowered));
        for (int iters = 1; iters < 12; iters++)
            for (int global = 0; global < 2; global++) {
                struct sl_schedule_opts opts = {
                    .row = row, .batch = 1, .iters = iters, .global_step = global};
                if (sl_schedules_build(&arena, read->plan, &opts, &out) != SL_OK)
                    fail_msg("%s, %d iterations: %s", rules[i], iters, sl_err_message());
                assert_null(symbolic_judge(out));
            }
        sl_text_free(&text);
        sl_arena_free(&arena);
    }
}

/* Gradients of two iterations in turn: the later ones wait, as each iteration has its own step. */
static void test_mixed_iterations(void **state) {
    static const char text[] =
        "sluice-sched 1\nworkers 1\nstage a width 1 micro 1 on 0\nprogram \"x\" rule stash passes\n"
        "samples 2 last 2 iters 3 reps 0\nworker 0\nprologue\nF a 0\nF a 1\nF a 2\nF a 3\nF a 4\n"
        "B a 2\nB a 0\nB a 3\nB a 4\nB a 1\nF a 5\nB a 5\n";
    struct sl_arena arena = {0};
    struct sl_sched *read;
    const struct sl_schedule *row;
    const struct sl_sched *out;
    (void)state;
    assert_int_equal(sl_sched_read(&arena, "x.sched", text, strlen(text), &read), SL_OK);
    assert_int_equal(sl_schedules_given_row(&arena, read, &row), SL_OK);
    for (int iters = 1; iters <= 3; iters++)
        for (int global = 0; global < 2; global++) {
            struct sl_schedule_opts opts = {
                .row = row, .batch = 2, .iters = iters, .global_step = global};
            if (sl_schedules_build(&arena, read->plan, &opts, &out) != SL_OK)
                fail_msg("%d iterations: %s", iters, sl_err_message());
            assert_null(symbolic_judge(out));
        }
    sl_arena_free(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_transients),
        cmocka_unit_test(test_mixed_iterations),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
