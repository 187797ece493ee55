/* Evaluation in the pipeline: the workers run a schedule of forward passes in their training memory,
 * on their newest weights. The loss is bit-identical to that of one worker.
 *
 * Evaluation has its own schedule and channels, which replace those of training while it runs; act.c
 * recognises it by the schedule's rule. */
#include "pipe/state.h"

#include "base/clock.h"
#include "sched/deps.h"

#include <math.h>
#include <string.h>

/* The least common multiple of the stages' micro-batch sizes. */
static int64_t unit_of(const struct sl_plan *plan) {
    int64_t unit = 1;
    for (int s = 0; s < plan->stage_count; s++) {
        int64_t a = unit, b = plan->stages[s].micro_size;
        while (b) {
            int64_t rest = a % b;
            a = b;
            b = rest;
        }
        SL_ASSERT(a > 0);
        unit = unit / a * plan->stages[s].micro_size;
    }
    return unit;
}

/* Exchanges training's schedule, channels and batch with evaluation's. */
static void swap_programs(struct sl_pipe *pipe) {
    struct sl_pipe_program now = {pipe->sched, pipe->links, pipe->train.batch, pipe->max_micros,
                                  pipe->config.trace};
    pipe->sched = pipe->inactive.sched;
    pipe->links = pipe->inactive.links;
    pipe->train.batch = pipe->inactive.batch;
    pipe->max_micros = pipe->inactive.max_micros;
    pipe->config.trace = pipe->inactive.trace;
    pipe->inactive = now;
}

sl_err sl_pipe_open_eval(struct sl_pipe *pipe) {
    const struct sl_plan *plan = pipe->config.plan;
    struct sl_pipe_program *eval = &pipe->inactive;
    if (!sl_pipe_evaluates(pipe))
        return SL_OK;
    if (sl_run_eval_samples(&pipe->train, pipe->train.eval_samples, unit_of(plan), &eval->batch) !=
        SL_OK)
        return SL_OK; /* sl_pipe_eval reports it */
    struct sl_sched_opts opts = {.schedule = "forward", .batch = eval->batch};
    SL_TRY(sl_sched_build(&pipe->arena, plan, &opts, &eval->sched));
    for (int s = 0; s < plan->stage_count; s++)
        if (eval->sched->micros[s] > eval->max_micros)
            eval->max_micros = eval->sched->micros[s];
    for (int i = 0; i < plan->seat_count; i++)
        if (pipe->seat_at[i])
            sl_run_scores_open(&pipe->seat_at[i]->train, &pipe->seat_at[i]->scores);
    swap_programs(pipe);
    sl_err err = sl_pipe_open_links(pipe);
    swap_programs(pipe);
    return err;
}

void sl_pipe_close_eval(struct sl_pipe *pipe) {
    for (int i = 0; pipe->seat_at && i < pipe->config.plan->seat_count; i++)
        if (pipe->seat_at[i])
            sl_run_scores_close(&pipe->seat_at[i]->scores);
    swap_programs(pipe);
    sl_pipe_close_links(pipe);
    swap_programs(pipe);
}

/* Sums of all ranks; each term and each seat has one owner. */
static sl_err gather(struct sl_pipe *pipe, struct sl_eval_report *report) {
    int64_t terms = pipe->max_micros * pipe->train.graph->losses.count, right = 0, counted = 0;
    int seats = pipe->config.plan->seat_count;
    int64_t *scores = pipe->eval_scores;
    memset(scores, 0, sizeof *scores * 2 * (size_t)seats);
    for (int i = 0; i < seats; i++)
        if (pipe->seat_at[i]) {
            scores[2 * i] = pipe->seat_at[i]->scores.right;
            scores[2 * i + 1] = pipe->seat_at[i]->scores.counted;
        }
    SL_TRY(sl_comm_merge(pipe->comm, pipe->loss_terms, terms * (int64_t)sizeof(double)));
    SL_TRY(sl_comm_merge(pipe->comm, scores, 2 * seats * (int64_t)sizeof *scores));
    for (int64_t i = 0; i < terms; i++)
        report->loss += pipe->loss_terms[i];
    for (int i = 0; i < seats; i++) {
        right += scores[2 * i];
        counted += scores[2 * i + 1];
    }
    if (counted)
        report->accuracy = (double)right / (double)counted;
    report->samples = pipe->train.batch;
    return SL_OK;
}

static sl_err evaluate(struct sl_pipe *pipe, struct sl_eval_report *report) {
    size_t terms = (size_t)(pipe->max_micros * pipe->train.graph->losses.count);
    pipe->loss_terms = sl_realloc(pipe->loss_terms, (terms + 1) * sizeof(double));
    memset(pipe->loss_terms, 0, terms * sizeof(double));
    for (int i = 0; i < pipe->config.plan->seat_count; i++) {
        struct sl_pipe_seat *seat = pipe->seat_at[i];
        if (!seat)
            continue;
        seat->scores.right = seat->scores.counted = 0;
        SL_TRY(sl_run_train_count(&seat->train, SL_DATA_VALID, 0, pipe->train.batch,
                                  seat->train.counts));
    }
    SL_TRY(sl_pipe_run_workers(pipe));
    return gather(pipe, report);
}

sl_err sl_pipe_eval(struct sl_pipe *pipe, struct sl_eval_report *report) {
    int64_t start = sl_clock_ns(), samples;
    *report = (struct sl_eval_report){.step = pipe->start_step, .accuracy = NAN};
    if (!sl_pipe_evaluates(pipe))
        return sl_fail(SL_ERR_REFUSED, "the pipeline was opened without evaluation");
    SL_TRY(sl_run_eval_samples(&pipe->train, pipe->train.eval_samples, unit_of(pipe->config.plan),
                               &samples));
    swap_programs(pipe);
    sl_err err = evaluate(pipe, report);
    swap_programs(pipe);
    report->dur_ns = sl_clock_ns() - start;
    return err;
}
