/* The upper bound of a pipeline: its stages without the pipeline, all at the same time on the same
 * cores. No stage waits and there are no messages. The rest is the same work: data, passes, losses,
 * gradient norms, optimizer steps into the other weight version. */
#ifndef SL_BENCH_PIPE_ALONE_H
#define SL_BENCH_PIPE_ALONE_H

#include "pipe_bench.h"
#include "pipe_turns.h"

#include <pthread.h>

enum part { FORWARD, BACKWARD, STEP, PARTS };

struct times { /* seconds and count of each part of a worker's work */
    double sum[PARTS];
    int64_t count[PARTS];
};

static inline void put_time(struct times *t, enum part part, int64_t ns) {
    t->sum[part] += (double)ns / 1e9;
    t->count[part]++;
}

static inline double all_times(const struct times *t) {
    return t->sum[FORWARD] + t->sum[BACKWARD] + t->sum[STEP];
}

static inline double mean_ms(const struct times *t, enum part part) {
    return t->count[part] ? 1e3 * t->sum[part] / (double)t->count[part] : 0;
}

/* Progress of a worker; shared by its process and the driver. */
struct alone {
    atomic_int_least64_t micros, ended_ns; /* micro-batches, and when the last one ended */
    struct times times;
};

struct alone_worker {
    struct sl_pipe_worker *worker;
    struct alone *out;
    const struct racer_state *turns;
    int64_t part_ns; /* when the previous part ended, in running time */
};

static inline void end_part(struct alone_worker *a, enum part part) {
    int64_t now = ran_now(a->turns);
    put_time(&a->out->times, part, now - a->part_ns);
    a->part_ns = now;
}

static inline sl_err pass_alone(struct alone_worker *a, struct sl_pipe_seat *seat, int64_t step,
                                int64_t j) {
    struct sl_train *train = &seat->train;
    const struct sl_program *program = train->worker->programs[SL_WORKER_FULL];
    int64_t size = a->worker->pipe->config.plan->stages[seat->stage].micro_size;
    double terms[SL_LOSS_MAX] = {0};
    struct sl_feed feed = {SL_DATA_TRAIN, SL_WORKER_FULL, j * size, size, (int)(j % seat->slots)};
    struct sl_worker_pass pass = {.slot = feed.slot, .accumulate = j > 0, .first_sample = j * size};
    pass.version = (int)(step % train->worker->versions);
    SL_TRY(sl_run_train_feed(train, &feed));
    SL_TRY(sl_run_worker_pass(train->worker, &pass));
    if (program->losses.count)
        SL_TRY(sl_run_train_loss_terms(train, &feed, terms));
    end_part(a, FORWARD);
    pass.phase = SL_PHASE_B;
    SL_TRY(sl_run_worker_pass(train->worker, &pass));
    end_part(a, BACKWARD);
    return SL_OK;
}

/* All micro-batches forward and backward, then the optimizer. */
static inline sl_err step_alone(struct alone_worker *a, struct sl_pipe_seat *seat, int64_t step) {
    struct sl_train *train = &seat->train;
    int versions = train->worker->versions;
    int from = (int)(step % versions), to = (int)((step + 1) % versions);
    struct sl_update_args update = {.t = step + 1, .lr = 1e-6, .scale = 1, .version = to};
    SL_TRY(sl_run_train_count(train, SL_DATA_TRAIN, 0, train->config.batch, train->counts));
    for (int64_t j = 0; j < a->worker->pipe->sched->micros[seat->stage]; j++) {
        SL_TRY(pass_alone(a, seat, step, j));
        atomic_store(&a->out->ended_ns, sl_clock_ns());
        atomic_fetch_add(&a->out->micros, 1);
    }
    SL_TRY(sl_run_worker_sum_uses(train->worker, 0));
    SL_TRY(sl_run_train_norms(train, 0));
    if (from != to)
        SL_TRY(sl_run_worker_copy_weights(train->worker, to, from));
    SL_TRY(sl_run_train_update(train, &update));
    end_part(a, STEP);
    return SL_OK;
}

static inline void *work_alone(void *arg) {
    struct alone_worker *a = arg;
    if (a->worker->pipe->first_place >= 0)
        must(sl_device_bind_thread(a->worker->place));
    a->part_ns = ran_now(a->turns);
    for (int64_t step = 0;; step++) /* until this process is killed */
        must(step_alone(a, &a->worker->seats[0], step));
    return NULL;
}

/* The rest of a racer: never returns. */
static inline void run_alone(struct sl_pipe *pipe, const struct racer_state *turns,
                             struct alone *out) {
    int count = pipe->config.plan->worker_count;
    struct alone_worker *all = SL_NEW(&pipe->arena, struct alone_worker, count);
    pthread_t thread;
    racer_ready();
    for (int w = 0; w < count; w++) {
        all[w] = (struct alone_worker){&pipe->workers[w], &out[w], turns, 0};
        if (pthread_create(&thread, NULL, work_alone, &all[w]) != 0)
            exit(1);
    }
    pthread_join(thread, NULL);
}

#endif
