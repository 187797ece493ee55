/* The oracle over plans with several stages per worker: random cuts of a model into interleaved
 * stages, random ranks, stages per rank, equal pipelines, placements and micro-batches give the
 * weights, optimizer state and losses of one worker, bit for bit. 200 of them with SL_TEST_FULL=1;
 * the two Vs and the crossing pairs in turn besides. */
#include "pipe/check.h"
#include "schedules/schedule.h"
#include "support/pipe_case.h"
#include "support/pipe_models.h"
#include "support/sched_cases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>

enum { SEED = 20261119, STAGES_MAX = 12, WIDTH_MAX = 6, STEPS = 3 };

struct draw {
    const struct sl_schedule *row;
    int ranks, chunks, pipelines, width, stages, micros;
    bool in_turn, recompute, random_cut;
};

static struct draw draw_layout(struct dice *dice, const struct sl_schedule *row) {
    struct draw d = {.row = row, .ranks = 1 + (int)dice_below(dice, 4)};
    bool cross = row->layout == SL_LAYOUT_CROSS;
    d.chunks = cross ? 1 : 2;
    if (row->layout == SL_LAYOUT_LOOP)
        d.chunks =
            2 + (int)dice_below(dice, STAGES_MAX / d.ranks - 1 < 3 ? STAGES_MAX / d.ranks - 1 : 3);
    if (cross)
        d.ranks = 2 + 2 * (int)dice_below(dice, 2);
    d.pipelines = 1 + (int)dice_below(dice, 3);
    d.width = cross ? 2 * d.pipelines : d.pipelines;
    d.stages = d.ranks * d.chunks;
    int least = row->micros_per_worker ? row->micros_per_worker * d.ranks * d.pipelines : d.width;
    d.micros = row->micros_divide ? d.ranks * d.pipelines * (1 + (int)dice_below(dice, 2))
                                  : least + (int)dice_below(dice, 3);
    d.in_turn = dice_below(dice, 2);
    d.recompute = dice_below(dice, 4) == 0;
    d.random_cut = dice_below(dice, 2);
    return d;
}

static int rank_of(const struct draw *d, int stage, int replica) {
    switch (d->row->layout) {
    case SL_LAYOUT_V: return stage < d->ranks ? stage : 2 * d->ranks - 1 - stage;
    case SL_LAYOUT_CROSS: return replica % 2 ? d->ranks - 1 - stage : stage;
    default: return stage % d->ranks;
    }
}

/* False: the model cannot be cut so. */
static bool lay_out(struct pipe_case *c, const struct sl_train_config *config, const struct draw *d,
                    uint64_t seed) {
    int alone[STAGES_MAX], width[STAGES_MAX], at[STAGES_MAX][WIDTH_MAX];
    const int *workers_of[STAGES_MAX];
    int each = d->width / d->pipelines;
    for (int s = 0; s < d->stages; s++)
        alone[s] = s;
    if (d->random_cut ? !pipe_case_cut_random(c, config, d->stages, alone, seed)
                      : !pipe_case_try_cut(c, config, d->stages, alone))
        return false;
    for (int s = 0; s < d->stages; s++) {
        width[s] = d->width;
        workers_of[s] = at[s];
        for (int r = 0; r < d->width; r++)
            at[s][r] = d->in_turn ? rank_of(d, s, r) * d->pipelines + r / each
                                  : r / each * d->ranks + rank_of(d, s, r);
    }
    struct pipe_layout layout = {.stages = d->stages,
                                 .workers = d->ranks * d->pipelines,
                                 .width_of = width,
                                 .workers_of = workers_of,
                                 .recompute = d->recompute};
    c->split = d->row->splits_backward;
    pipe_case_lay_out(c, config, &layout);
    return true;
}

/* 1: ran, and equal. 0: the stages are no chain, or there are not so many. */
static int run_one(const struct sl_schedule *row, uint64_t at) {
    struct dice dice = {SEED, at, 0};
    struct draw d = draw_layout(&dice, row);
    struct pipe_case c;
    struct sl_check_report report;
    int ran = 0;
    pipe_case_open(&c, pipe_model_gpt);
    struct sl_train_config config = pipe_case_config(&c, "adam", 2 * d.micros, d.micros, STEPS);
    config.recompute = d.recompute;
    if (lay_out(&c, &config, &d, at)) {
        struct sl_check_config check = {
            .pipe = {
                .train = &config, .plan = c.plan, .stage_of = c.stage_of, .schedule = row->name}};
        sl_err err = sl_pipe_check(&check, &report);
        ran = err == SL_OK;
        if (err != SL_OK && err != SL_ERR_REFUSED)
            fail_msg("%s, case %llu: %s", row->name, (unsigned long long)at, sl_err_message());
        if (ran && report.kind != SL_CHECK_SAME)
            fail_msg("%s, case %llu: %d ranks, %d stages, %d pipelines, %d micro-batches: %s "
                     "differs after step %lld",
                     row->name, (unsigned long long)at, d.ranks, d.stages, d.pipelines, d.micros,
                     report.tensor, (long long)report.step);
    }
    pipe_case_close(&c);
    return ran;
}

static void run_row(const char *name, int64_t wanted) {
    const struct sl_schedule *row = sl_schedules_row_find(name);
    int64_t ran = 0;
    uint64_t at = 0;
    assert_non_null(row);
    for (; ran < wanted; at++) {
        assert_true(at < 40 * (uint64_t)wanted);
        ran += run_one(row, at);
    }
    print_message("count: %lld random %s plans run bit-equal (%llu drawn)\n", (long long)ran, name,
                  (unsigned long long)at);
}

static void virtual_stages(void **state) {
    (void)state;
    run_row("interleaved", test_count(200));
    run_row("zb-v", test_count(50));
    run_row("dualpipe-v", test_count(50));
    run_row("chimera", test_count(50));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(virtual_stages)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
