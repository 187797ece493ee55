/* The status that each worker publishes, and the watchdog that reads it. Private to this directory. */
#ifndef SL_PIPE_WATCHDOG_H
#define SL_PIPE_WATCHDOG_H

#include "sched/waits.h"

#include <stdatomic.h>

struct sl_pipe;
struct sl_pipe_worker;

/* Current activity of a worker; other threads read it (status.c). One relaxed store each. */
struct sl_pipe_status {
    atomic_int_least64_t done;  /* actions */
    atomic_int_least64_t doing; /* kind, stage, micro-batch; -1: idle */
    atomic_int_least64_t wait;  /* sl_pipe_wait in one word; 0: not waiting */
    atomic_int_least64_t longest_ns[SL_KIND_COUNT];
    atomic_int_least64_t starved_ns; /* ready to run without a CPU; written by the local watchdog */
    atomic_int thread;               /* thread id of the worker */
    uint32_t seen;                   /* bit k: kind k has been measured; only the worker uses it */
    int64_t expected_ns[SL_KIND_COUNT]; /* by the schedule */
};

/* status.c. NULL: the worker is idle. */
void sl_pipe_status_action(struct sl_pipe_worker *worker, const struct sl_action *action);
void sl_pipe_status_done(struct sl_pipe_worker *worker, enum sl_kind kind, int64_t dur_ns);
/* The worker waits for `peer` or a group, until sl_pipe_status_resume. */
struct sl_pipe_wait {
    enum sl_wait wait;
    bool grad;
    int of, peer; /* edge or group; worker */
    int32_t peer_micro;
};
void sl_pipe_status_wait(struct sl_pipe_worker *worker, struct sl_pipe_wait note);
void sl_pipe_status_resume(struct sl_pipe_worker *worker);
/* Status of all workers as far as this rank knows: out[worker_count]. Any thread. */
void sl_pipe_status_read(const struct sl_pipe *pipe, struct sl_work *out);
/* A rank publishes the status of its workers, in order, and its loss sums of the last steps
 * (reporter.c). */
enum { SL_PIPE_LOSS_STEPS = 4 };
struct sl_pipe_loss_sums {
    int64_t run;                      /* first step of the run */
    int64_t step[SL_PIPE_LOSS_STEPS]; /* of the run, from 1; 0: none yet */
    double loss[SL_PIPE_LOSS_STEPS];
};
int64_t sl_pipe_status_bytes(const struct sl_pipe *pipe, int rank);
void sl_pipe_status_publish(void *pipe, void *out);
bool sl_pipe_status_losses(const struct sl_pipe *pipe, int rank, struct sl_pipe_loss_sums *out);

/* watchdog.c. wait returns when all started workers have ended, or when one is abandoned. */
void sl_pipe_watchdog_open(struct sl_pipe *pipe);
void sl_pipe_watchdog_close(struct sl_pipe *pipe);
void sl_pipe_watchdog_start(struct sl_pipe *pipe, int workers);
void sl_pipe_watchdog_ended(struct sl_pipe *pipe); /* called by a worker */
void sl_pipe_watchdog_wait(struct sl_pipe *pipe);

#endif
