/* Measuring the staleness of weights; see staleness.c. Private to this directory. */
#ifndef SL_PIPE_STALENESS_H
#define SL_PIPE_STALENESS_H

#include "sched/sched.h"

struct sl_pipe;
struct sl_pipe_seat;

/* A pass whose staleness is measured: its weights are compared with the version they stand for. */
struct sl_pipe_stale_pass {
    /* copies of the weights that it read and of the version that it started from; NULL: not
     * measured */
    void *slabs[2];
    int64_t target;     /* version that it stands for; -1: no pass is being measured */
    int64_t told, made; /* told: the last version reported; made: the newest version */
    int ahead;          /* versions between the one it started from and the target */
    bool predicted;
};

SL_MUST_CHECK sl_err sl_pipe_staleness_open(struct sl_pipe_seat *seat);
void sl_pipe_staleness_close(struct sl_pipe_seat *seat);
void sl_pipe_staleness_start(struct sl_pipe_seat *seat);
SL_MUST_CHECK sl_err sl_pipe_staleness_pass(const struct sl_pipe *pipe, struct sl_pipe_seat *seat,
                                            const struct sl_action *action);
SL_MUST_CHECK sl_err sl_pipe_staleness_predict(const struct sl_pipe *pipe,
                                               struct sl_pipe_seat *seat,
                                               const struct sl_action *action);
SL_MUST_CHECK sl_err sl_pipe_staleness_step(const struct sl_pipe *pipe, struct sl_pipe_seat *seat,
                                            int64_t version);

#endif
