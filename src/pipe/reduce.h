/* The gradients of replicas: sums in parts, while backwards still run. See pipe_reduce.c. */
#ifndef SL_PIPE_REDUCE_H
#define SL_PIPE_REDUCE_H

#include "comm/comm.h"
#include "run/worker.h"
#include "sched/sched.h"

struct sl_pipe;
struct sl_pipe_worker;
struct sl_seat_state;

enum { SL_PARTS = 8 };

/* The gradient of a replicated seat, cut into parts that are added up one by one. */
struct sl_parts {
    int count;                           /* 0: not replicated, or without parameters */
    int64_t first[SL_PARTS + 1];         /* floats of the slab */
    int ready[SL_WORKER_EVAL][SL_PARTS]; /* [program] instruction that completes the part */
    unsigned begun;                      /* bit p: the sum of part p is under way */
    int64_t since_ns;                    /* since when, the first of them */
};

struct sl_part_groups {
    struct sl_group *at[SL_PARTS];
};

/* The gradient that the pass at hand completes. */
struct sl_completing {
    struct sl_seat_state *seat; /* NULL: none */
    enum sl_worker_program program;
    int grad_slot;
};

void sl_pipe_cut_parts(struct sl_pipe *pipe, struct sl_seat_state *seat);
/* Before a B or W: does it complete a gradient? Behind it: what has not been begun is. */
void sl_pipe_complete(struct sl_pipe_worker *worker, struct sl_seat_state *seat,
                      const struct sl_action *action, struct sl_pass *pass);
SL_MUST_CHECK sl_err sl_pipe_completed(struct sl_pipe_worker *worker);
/* Behind an instruction; behind an action. */
SL_MUST_CHECK sl_err sl_pipe_between(void *worker, int instr);
SL_MUST_CHECK sl_err sl_pipe_poke(struct sl_pipe_worker *worker);
SL_MUST_CHECK sl_err sl_pipe_reduce_replicas(struct sl_pipe_worker *worker,
                                             const struct sl_action *action);

#endif
