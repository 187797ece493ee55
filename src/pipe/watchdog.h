/* The status that each worker publishes, and the watchdog that reads it. Private to this directory. */
#ifndef SL_PIPE_WATCHDOG_H
#define SL_PIPE_WATCHDOG_H

#include "sched/waits.h"

#include <stdatomic.h>

struct sl_pipe;
struct sl_pipe_worker;

/* What a worker does now. Other threads read it (status.c), so each field is written by one relaxed
 * store. */
struct sl_pipe_status {
    atomic_int_least64_t done;  /* number of actions done */
    atomic_int_least64_t doing; /* kind, stage, micro-batch; -1: idle */
    atomic_int_least64_t wait;  /* sl_pipe_wait in one word; 0: not waiting */
    atomic_int_least64_t longest_ns[SL_KIND_COUNT];
    /* time in which it was ready to run but had no CPU; the local watchdog writes it */
    atomic_int_least64_t starved_ns;
    atomic_int thread; /* thread id of the worker */
    uint32_t seen;     /* bit k: an action of kind k has been measured; only the worker uses it */
    int64_t expected_ns[SL_KIND_COUNT]; /* expected durations from the schedule */
};

/* status.c. Publishes the action that begins; NULL: the worker is idle. */
void sl_pipe_status_action(struct sl_pipe_worker *worker, const struct sl_action *action);
void sl_pipe_status_done(struct sl_pipe_worker *worker, enum sl_kind kind, int64_t dur_ns);
/* What a worker waits for: `peer` or a group. It waits until sl_pipe_status_resume. */
struct sl_pipe_wait {
    enum sl_wait wait;
    bool grad;
    int of, peer; /* of: edge or group; peer: worker */
    int32_t peer_micro;
};
void sl_pipe_status_wait(struct sl_pipe_worker *worker, struct sl_pipe_wait note);
void sl_pipe_status_resume(struct sl_pipe_worker *worker);
/* Reads the status of all workers, as far as this rank knows it, into out[worker_count]. Any thread
 * may call it. */
void sl_pipe_status_read(const struct sl_pipe *pipe, struct sl_work *out);
/* What a rank publishes: the status of its workers, in order, and its loss sums of the last steps
 * (reporter.c). */
enum { SL_PIPE_LOSS_STEPS = 4 };
struct sl_pipe_loss_sums {
    int64_t run; /* first step of the run that these belong to */
    /* step of each sum, counted in the run from 1; 0: no sum yet */
    int64_t step[SL_PIPE_LOSS_STEPS];
    double loss[SL_PIPE_LOSS_STEPS];
};
int64_t sl_pipe_status_bytes(const struct sl_pipe *pipe, int rank);
void sl_pipe_status_publish(void *pipe, void *out);
bool sl_pipe_status_losses(const struct sl_pipe *pipe, int rank, struct sl_pipe_loss_sums *out);

/* watchdog.c. wait returns when all started workers have ended, or when one is abandoned. */
void sl_pipe_watchdog_open(struct sl_pipe *pipe);
void sl_pipe_watchdog_close(struct sl_pipe *pipe);
void sl_pipe_watchdog_start(struct sl_pipe *pipe, int workers);
void sl_pipe_watchdog_ended(struct sl_pipe *pipe); /* a worker calls this when it ends */
void sl_pipe_watchdog_wait(struct sl_pipe *pipe);

#endif
