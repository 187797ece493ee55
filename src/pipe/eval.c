/* Evaluation in the pipeline: the workers run a schedule of forward passes on their newest weights.
 * The loss is bit-identical to that of one worker. Micro-batches of training may be in flight: the
 * workers stand between two actions, and evaluation uses only memory that lasts for one action.
 *
 * Evaluation has its own schedule and channels, which replace those of training while it runs; act.c
 * recognises it by the schedule's rule. */
#include "pipe/halt.h"
#include "pipe/resume.h"

#include "base/clock.h"
#include "sched/deps.h"
#include "schedules/schedule.h"

#include <math.h>
#include <stdlib.h>
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
    struct sl_pipe_program now = {pipe->sched,      pipe->links,       pipe->train.batch,
                                  pipe->max_micros, pipe->loss_terms,  pipe->terms_base,
                                  pipe->at,         pipe->config.trace};
    pipe->sched = pipe->inactive.sched;
    pipe->links = pipe->inactive.links;
    pipe->train.batch = pipe->inactive.batch;
    pipe->max_micros = pipe->inactive.max_micros;
    pipe->loss_terms = pipe->inactive.loss_terms;
    pipe->terms_base = pipe->inactive.terms_base;
    pipe->at = pipe->inactive.at;
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
        return SL_OK; /* no error here: sl_pipe_eval reports it */
    struct sl_schedule_opts opts = {.schedule = "forward", .batch = eval->batch};
    eval->at = SL_NEW(&pipe->arena, int64_t, plan->worker_count);
    SL_TRY(sl_schedules_build(&pipe->arena, plan, &opts, &eval->sched));
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
    free(pipe->loss_terms);
    swap_programs(pipe);
}

/* Adds the sums of all ranks. Each term and each seat is nonzero on one rank only. */
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
    memset(pipe->at, 0, sizeof *pipe->at * (size_t)pipe->config.plan->worker_count);
    for (int i = 0; i < pipe->config.plan->seat_count; i++) {
        struct sl_pipe_seat *seat = pipe->seat_at[i];
        if (!seat)
            continue;
        seat->scores.right = seat->scores.counted = 0;
        seat->counted = -1; /* from now on train.counts holds the counts of evaluation */
        SL_TRY(sl_run_train_count(&seat->train, SL_DATA_VALID, 0, pipe->train.batch,
                                  seat->train.counts));
    }
    SL_TRY(sl_pipe_halt_start(pipe, 1));
    SL_TRY(sl_pipe_run_workers(pipe));
    return gather(pipe, report);
}

/* Exchanges the current running statistics with those after the last step. */
static void swap_states(struct sl_pipe *pipe, void **states) {
    for (int i = 0; i < pipe->config.plan->seat_count; i++) {
        struct sl_pipe_seat *seat = pipe->seat_at[i];
        if (!seat)
            continue;
        void *now = seat->train.worker->state;
        seat->train.worker->state = states[i];
        states[i] = now;
    }
}

static sl_err evaluate_borders(struct sl_pipe *pipe, struct sl_eval_report *report) {
    int seats = pipe->config.plan->seat_count;
    void **states = sl_realloc(NULL, sizeof *states * (size_t)seats);
    for (int i = 0; i < seats; i++)
        if (pipe->seat_at[i])
            states[i] = sl_pipe_border_state(pipe, pipe->seat_at[i]);
    swap_states(pipe, states);
    swap_programs(pipe);
    sl_err err = evaluate(pipe, report);
    swap_programs(pipe);
    swap_states(pipe, states);
    free(states);
    return err;
}

sl_err sl_pipe_eval(struct sl_pipe *pipe, struct sl_eval_report *report) {
    int64_t start = sl_clock_ns(), samples;
    *report = (struct sl_eval_report){.step = sl_pipe_step_count(pipe), .accuracy = NAN};
    if (!sl_pipe_evaluates(pipe))
        return sl_fail(SL_ERR_REFUSED, "the pipeline was opened without evaluation");
    SL_TRY(sl_run_eval_samples(&pipe->train, pipe->train.eval_samples, unit_of(pipe->config.plan),
                               &samples));
    sl_err err = evaluate_borders(pipe, report);
    report->dur_ns = sl_clock_ns() - start;
    return err;
}
