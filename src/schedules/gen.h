/* Shared parts of the generators: lists of passes, in-flight windows, and a list scheduler.
 *
 * A synchronous row generates one iteration at a time (`micros[stage]` micro-batches, numbered
 * from 0); sl_schedules_generate repeats it. An asynchronous row is one stream over all
 * iterations (async.c). */
#ifndef SL_SCHEDULES_GEN_H
#define SL_SCHEDULES_GEN_H

#include "base/vec.h"
#include "sched/deps.h"
#include "schedules/schedule.h"

struct sl_passes {
    SL_VEC(struct sl_action) vec;
};

struct sl_gen {
    struct sl_arena *arena;
    const struct sl_plan *plan;
    const struct sl_schedule_opts *opts;
    const struct sl_schedule *row;
    struct sl_sched *sched; /* flat: it has at most one repetition */
    int64_t iters;          /* iterations of the run */
    const int32_t *micros;  /* [stage] of the current iteration */
    const int64_t *samples; /* [stage] samples in flight, see sl_schedules_gen_inflight */
    const int64_t (*dur_ns)[SL_KIND_COUNT];
    struct sl_passes *workers; /* [worker] output lists */
    struct sl_passes *seats;   /* [seat] its passes before merging */
};

void sl_schedules_gen_put(struct sl_passes *passes, enum sl_kind kind, int stage, int32_t micro);

/* Returns k of a stage: that of the options, or, in rows with groups, that of the plan, or 1. */
int64_t sl_schedules_gen_group(const struct sl_gen *gen, int stage);

/* Computes the samples in flight of every stage for kFkB, from the sinks up:
 *     f(sink) = k w b,   f(i) = max over edges i->j of roundup to b_i of
 *     f(j) + max(b_j, k_i b_i + max(0, b_i - k_j b_j)) + (w_i - 1) k_i b_i
 * This is Jeon et al. 2025 (GraphPipe), Algorithm 2, plus k micro-batches per extra replica. The
 * slack adds micro-batches per edge; they hide transfers and uneven passes. */
void sl_schedules_gen_inflight(const struct sl_gen *gen, int64_t *out);

/* Makes the kFkB order of a seat: backward of micro-batch a comes after the forwards up to window-1
 * + a/k*k. */
void sl_schedules_gen_windowed(struct sl_gen *gen, int seat, int64_t window, int64_t k, bool split);

/* Merges gen->seats into gen->workers. On workers with several seats a greedy simulation with the
 * durations decides, backward first, so that the order is feasible. */
sl_err sl_schedules_gen_merge(struct sl_gen *gen);
/* The simulation of sl_schedules_gen_merge alone, for any number of seats per worker. Also returns
 * the makespan. */
sl_err sl_schedules_gen_play_seats(struct sl_gen *gen, int64_t *end_ns);
/* Writes the sequences of zb-h1 (scale 1) or zb-h2 (scale 2) into gen->seats. */
void sl_schedules_gen_zb_sequences(struct sl_gen *gen, int scale);

/* A greedy list scheduler. `candidates` offers up to 4 passes that a seat may run next, the most
 * urgent first. The scheduler starts the most urgent one whose inputs are ready. */
struct sl_offer {
    struct sl_action pass;
    int urgency; /* a smaller number is more urgent */
};
struct sl_play {
    struct sl_gen *gen;
    void *ctx;
    int (*candidates)(void *ctx, int seat, struct sl_offer out[4]);
    void (*took)(void *ctx, int seat, const struct sl_action *pass);
    int64_t end_ns; /* out: makespan */
};
sl_err sl_schedules_gen_play(struct sl_play *play);

/* Generates an asynchronous stream (async.c): fills the segments of gen->sched. */
sl_err sl_schedules_gen_stream(struct sl_gen *gen);

/* Domain checks that several rows share. */
/* all stages have one micro-batch size */
sl_err sl_schedules_gen_check_equal(const struct sl_gen *gen);
sl_err sl_schedules_gen_check_single(const struct sl_gen *gen); /* every worker has one stage */
/* The plan is a chain in this layout, made of equal pipelines: replica r of every stage is in
 * pipeline r, or, in a crossing pair, in pipeline r / 2. */
sl_err sl_schedules_gen_check_chain(const struct sl_gen *gen, enum sl_layout layout);
/* Number of workers of one such pipeline. */
int sl_schedules_gen_depth(const struct sl_plan *plan, enum sl_layout layout);

int64_t sl_schedules_gen_ceil(int64_t a, int64_t b);

/* The row of 1F1B on any placement. A short last iteration runs with it if its own row cannot make
 * it. */
extern const struct sl_schedule sl_schedules_row_graph;

#endif
