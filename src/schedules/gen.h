/* Shared parts of the generators: lists of passes, in-flight windows, and a list scheduler.
 *
 * A synchronous row makes one iteration at a time (`micros[stage]` micro-batches, numbered from 0);
 * sl_schedules_generate repeats it. An asynchronous row is one stream over all iterations (stream.c).
 */
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
    struct sl_sched *sched; /* flat: at most one repetition */
    int64_t iters;          /* of the run */
    const int32_t *micros;  /* [stage] of the current iteration */
    const int64_t *samples; /* [stage] in flight, see sl_schedules_gen_inflight */
    const int64_t (*dur_ns)[SL_KIND_COUNT];
    struct sl_passes *workers; /* [worker] output lists */
    struct sl_passes *seats;   /* [seat] sequences before merging */
};

void sl_schedules_gen_put(struct sl_passes *passes, enum sl_kind kind, int stage, int32_t micro);

/* k of a stage: that of the options; else, in rows with groups, the plan's; else 1. */
int64_t sl_schedules_gen_group(const struct sl_gen *gen, int stage);

/* In-flight samples of every stage for kFkB: from the sinks up,
 *     f(sink) = k w b,   f(i) = max over edges i->j of roundup to b_i of
 *     f(j) + max(b_j, k_i b_i + max(0, b_i - k_j b_j)) + (w_i - 1) k_i b_i
 * This is Jeon et al. 2025 (GraphPipe), Algorithm 2, plus k micro-batches per extra replica. The
 * slack adds micro-batches per edge; they hide transfers and uneven passes. */
void sl_schedules_gen_inflight(const struct sl_gen *gen, int64_t *out);

/* kFkB order on a seat: backwards of micro-batch a follow forwards up to window-1 + a/k*k. */
void sl_schedules_gen_windowed(struct sl_gen *gen, int seat, int64_t window, int64_t k, bool split);

/* Merge gen->seats into gen->workers. For workers with several seats a greedy simulation with the
 * durations decides (backward first), so that the order is feasible. */
sl_err sl_schedules_gen_merge(struct sl_gen *gen);
/* The simulation alone, for any number of seats per worker; also returns the makespan. */
sl_err sl_schedules_gen_play_seats(struct sl_gen *gen, int64_t *end_ns);
/* The sequences of zb-h1 (scale 1) and zb-h2 (scale 2) into gen->seats. */
void sl_schedules_gen_zb_sequences(struct sl_gen *gen, int scale);

/* A greedy list scheduler. `candidates` offers up to 4 passes that a seat may run next, most urgent
 * first; the scheduler starts the most urgent one whose inputs are ready. */
struct sl_offer {
    struct sl_action pass;
    int urgency; /* smaller is more urgent */
};
struct sl_play {
    struct sl_gen *gen;
    void *ctx;
    int (*candidates)(void *ctx, int seat, struct sl_offer out[4]);
    void (*took)(void *ctx, int seat, const struct sl_action *pass);
    int64_t end_ns; /* out: makespan */
};
sl_err sl_schedules_gen_play(struct sl_play *play);

/* Asynchronous stream (stream.c): fills the segments of gen->sched. */
sl_err sl_schedules_gen_stream(struct sl_gen *gen);

/* Domain checks that several rows share. */
sl_err sl_schedules_gen_check_equal(const struct sl_gen *gen);  /* one micro-batch size */
sl_err sl_schedules_gen_check_single(const struct sl_gen *gen); /* one stage per worker */
/* A chain in this layout, as equal pipelines: replica r of every stage is in pipeline r, or in
 * pipeline r / 2 of a crossing pair. */
sl_err sl_schedules_gen_check_chain(const struct sl_gen *gen, enum sl_layout layout);
/* Workers of one such pipeline. */
int sl_schedules_gen_depth(const struct sl_plan *plan, enum sl_layout layout);

int64_t sl_schedules_gen_ceil(int64_t a, int64_t b);

/* 1F1B on any placement: a short last iteration that is outside of its row's domain runs so. */
extern const struct sl_schedule sl_schedules_row_graph;

#endif
