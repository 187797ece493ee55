/* Sums of the gradients of replicas, part by part, while backward passes still run; see reduce.c. */
#ifndef SL_PIPE_REDUCE_H
#define SL_PIPE_REDUCE_H

#include "comm/comm.h"
#include "run/worker.h"
#include "sched/sched.h"

struct sl_pipe;
struct sl_pipe_worker;
struct sl_pipe_seat;

enum { SL_PARTS = 8 };

/* The gradient of a replicated seat, cut into parts that are summed one by one. */
struct sl_pipe_parts {
    int count; /* number of parts; 0: the stage is not replicated or has no parameters */
    int64_t first[SL_PARTS + 1];         /* where each part begins in the slab, in floats */
    int ready[SL_WORKER_EVAL][SL_PARTS]; /* [program] instruction that completes the part */
    unsigned begun;                      /* bit p: the sum of part p has begun */
    int64_t since_ns;                    /* time when the first sum began */
};

struct sl_pipe_part_groups {
    struct sl_group *at[SL_PARTS];
};

/* The gradient that the current pass completes. */
struct sl_pipe_completing {
    struct sl_pipe_seat *seat; /* NULL: none */
    enum sl_worker_program program;
    int grad_slot;
};

/* The running pass, if it has collectives (seat NULL: none); `pass` has the caller's hook. */
struct sl_pipe_sharing {
    struct sl_pipe_seat *seat;
    struct sl_worker_pass pass;
};

void sl_pipe_reduce_cut(struct sl_pipe *pipe, struct sl_pipe_seat *seat);
/* before_pass notes whether a B or W completes a gradient. after_pass begins the parts that are
 * left. */
void sl_pipe_reduce_before_pass(struct sl_pipe_worker *worker, struct sl_pipe_seat *seat,
                                const struct sl_action *action, struct sl_worker_pass *pass);
SL_MUST_CHECK sl_err sl_pipe_reduce_after_pass(struct sl_pipe_worker *worker);
/* after_instr runs after an instruction of a pass, poll after an action. */
SL_MUST_CHECK sl_err sl_pipe_reduce_after_instr(void *worker, int instr);
SL_MUST_CHECK sl_err sl_pipe_reduce_poll(struct sl_pipe_worker *worker);
SL_MUST_CHECK sl_err sl_pipe_reduce_replicas(struct sl_pipe_worker *worker,
                                             const struct sl_action *action);

#endif
