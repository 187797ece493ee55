/* The state of a pipeline. Private to this directory. */
#ifndef SL_PIPE_STATE_H
#define SL_PIPE_STATE_H

#include "base/vec.h"
#include "pipe/areas.h"
#include "pipe/box.h"
#include "pipe/pipe.h"
#include "pipe/reduce.h"
#include "pipe/staleness.h"
#include "pipe/watchdog.h"
#include "run/policy.h"
#include "run/scores.h"

/* A seat: a replica of a stage on its worker. */
struct sl_pipe_seat {
    struct sl_train train; /* the stage as a part of a training run: worker, optimizer, counts */
    int stage, replica, number; /* number: index in plan->seats */
    int slots;                  /* number of micro-batches that fit in flight */
    struct sl_pipe_border border;
    struct sl_pipe_image image;
    uint64_t filled;      /* bit g: gradient buffer g holds a sum that the next pass adds to */
    int newest;           /* slab of the newest weights */
    int64_t counted;      /* iteration that train.counts belongs to; -1: none */
    int64_t step_version; /* version of a STEP that waits for the worker's other seats; 0: none */
    int step_from, step_to, step_grad;
    struct sl_policy_at at;      /* position of the stage, for policies */
    struct sl_run_policy policy; /* a tied parameter has the position of its highest holder */
    float *scales; /* [params] stage by stage: clip factor / loss scale; below 0: skip the step */
    int foresight_slot; /* weight slab of predictions for backward passes; -1: none */
    struct sl_pipe_parts parts;
    struct sl_pipe_stale_pass watch[2]; /* one for forward, one for backward passes */
    SL_VEC(struct sl_staleness) watched;
    struct sl_scores scores; /* of the current evaluation */
    struct sl_group *team;   /* shards.c: the shards of its stage; NULL: there is one shard */
};

/* A worker: a thread with its seats. Workers of other ranks have no seats. */
struct sl_pipe_worker {
    struct sl_pipe *pipe;
    int index, place; /* place: of its first thread, if threads are bound to cores */
    struct sl_device *device;
    struct sl_pipe_seat *seats;
    int seat_count, steps_waiting;
    struct sl_pipe_areas areas;
    struct sl_pipe_status status;
    struct sl_action recompute; /* the last action, if it was a RECOMPUTE (has_recompute) */
    bool has_recompute;
    struct sl_pipe_completing completing; /* the gradient that the current pass completes */
    int sums;                             /* number of gradient parts that are being summed */
    int64_t since_ns;    /* when the sums of the current REDUCE began; 0: with the REDUCE */
    int *reduce_seen;    /* [groups] how many seats of the worker have reached the current REDUCE */
    int *member;         /* [groups] index of this worker in each, -1: none */
    const float **terms; /* [grads of the graph] this worker's terms of the current sum */
    double *norms;       /* [graph params] norms of the current step */
    struct sl_lane lane; /* the measured timeline of the worker */
    int64_t waited_ns;   /* time that the current action has waited */
    atomic_int_least64_t busy_ns;        /* time of this run in actions, without waits */
    struct sl_pipe_decisions *decisions; /* global_step.c */
    struct sl_scale_state *scales;       /* [kept] loss scale after each step (scale.c) */
    const char **messages;               /* [worker] one message per worker of the current sum */
    struct sl_pipe_sharing sharing;      /* shards.c */
    pthread_t thread;
};

/* The messages of an edge in a full iteration, in ascending order of samples. Gradients return
 * between the same pairs. Replicas a of `from` and b of `to` form pair a * width of `to` + b. */
struct sl_pipe_edge {
    struct sl_pipe_piece *pieces;
    int32_t piece_count;
    int32_t *of_from, *of_to; /* [micro-batches + 1] index of the first piece of each micro-batch */
    int pair_count;
    int64_t *per_iteration;           /* [pair] messages per iteration */
    struct sl_pipe_box *acts, *grads; /* [pair] the channel is NULL if the pair has no messages */
    int64_t *arrived[2]; /* [acts, grads][iterations][pieces] arrival times, if traced */
};

/* A schedule with its channels: that of training or of evaluation. */
struct sl_pipe_program {
    const struct sl_sched *sched;
    struct sl_pipe_edge *links;
    int64_t batch, max_micros;
    double *loss_terms;
    int64_t terms_base, *at;
    bool trace;
};

struct sl_pipe {
    struct sl_pipe_config config;
    struct sl_train_config train;
    struct sl_arena arena, sched_arena;
    const struct sl_sched *sched; /* schedule of the current run */
    bool ordered; /* the schedule adds gradients in ascending order of micro-batches */
    struct sl_comm *comm;
    bool own_comm;
    int first_place; /* first place of this rank's threads (device/bind.h); -1: not bound */
    int local_workers;
    struct sl_device_lend *lend; /* lets waiting local workers help others; NULL: they idle */
    struct sl_pipe_worker *workers;
    struct sl_pipe_seat **seat_at;     /* [seat of the plan] NULL: on another rank */
    struct sl_pipe_edge *links;        /* [edge] */
    struct sl_group *all, **groups;    /* all: of all workers; groups: [groups of the schedule] */
    struct sl_pipe_part_groups *parts; /* [stage] groups of its replicas */
    struct sl_group **teams;           /* [seat of part 0] its shards; NULL: no stage has shards */
    struct sl_pipe_own *own;           /* own.c: divided optimizer state */
    struct sl_pipe_box *norms, **shares; /* global step: [from][to]; ties: [group][from][to] */
    SL_VEC(struct sl_pipe_box *) boxes;  /* boxes of training; the same on all ranks */
    struct sl_step_report *reports;
    double *loss_terms; /* [iteration - terms_base][max_micros][losses] */
    int64_t terms_base, terms_count;
    int64_t max_micros; /* most micro-batches that any stage has in an iteration */
    int64_t start_step, start_sample, start_ns; /* where and when the schedule began */
    int64_t begin_ns, run_end_ns; /* of the last run; its end is measured from start_ns */
    int64_t ran;                  /* steps of the last run */
    int64_t done;                 /* steps since start_step, before the current run */
    int64_t *at;                  /* [worker] number of actions begun since start_step */
    bool under_way;               /* the schedule has not ended: micro-batches are in flight */
    bool halted;                  /* the last run was asked to end early */
    bool traced;                  /* the timeline of the schedule has begun */
    bool portable;   /* the weights of the last two steps are the whole state (resume.c) */
    int previous;    /* if portable: slab of the weights one step older; -1: unknown */
    int64_t skipped; /* iterations of the schedule that count as run when it begins */
    struct sl_scale_state scale;              /* loss scale between two runs */
    struct sl_scale_state past[SL_PIPE_PAST]; /* scales of the steps before, the newest first */
    int32_t scale_lag;                        /* steps by which the scale lags behind (scale.c) */
    int64_t last_ns, last_cpu_ns;             /* when the previous step ended */
    struct sl_pipe_program inactive; /* the one of training and evaluation that is not running */
    int64_t *eval_scores;            /* [seat] numbers of right and of counted items */
    struct sl_timeline timeline;
    int64_t *worker_bytes, *busy_ns, run_ns; /* [worker], [worker]; of the last run */
    int64_t *seat_bytes; /* store.c: [seat] bytes of its image, then [seat] hash of its layout */
    bool *holds;         /* store.c: [stage][params, then states] does the stage hold the tensor? */
    struct sl_run_tensors *tensors; /* store.c: the tensors of the run; NULL: not listed yet */
    struct sl_joined *joined;       /* run/part.h */
    struct sl_channel **requests, **replies; /* [rank] channels to and from rank 0 */
    int64_t *requested, *replied;            /* [rank] number of messages so far */
    struct sl_pipe_watchdog *watchdog;       /* watchdog.c */
    struct sl_pipe_reporter *reporter;       /* reporter.c */
    struct sl_pipe_halt *halt;               /* halt.c */
    const char *obstacle;                    /* sl_pipe_halt_obstacle */
};

/* trace.c. clock: nanoseconds since the run began. act_traced: runs and measures an action. */
int64_t sl_pipe_clock(const struct sl_pipe_worker *worker);
SL_MUST_CHECK sl_err sl_pipe_open_trace(struct sl_pipe *pipe);
SL_MUST_CHECK sl_err sl_pipe_act_traced(struct sl_pipe_worker *worker,
                                        const struct sl_action *action);
SL_MUST_CHECK sl_err sl_pipe_close_trace(struct sl_pipe *pipe);
/* Notes the arrival time of a message of an edge. */
void sl_pipe_trace_arrival(struct sl_pipe *pipe, struct sl_pipe_edge *link, bool grad,
                           int64_t place, int64_t ns);
/* open.c. Builds and verifies the schedule of `iters` iterations. */
SL_MUST_CHECK sl_err sl_pipe_build_sched(struct sl_pipe *pipe, int64_t iters);
/* pipe.c. Runs the workers of this rank until each has run its actions. */
SL_MUST_CHECK sl_err sl_pipe_run_workers(struct sl_pipe *pipe);
bool sl_pipe_evaluates(const struct sl_pipe *pipe);
/* eval.c */
SL_MUST_CHECK sl_err sl_pipe_open_eval(struct sl_pipe *pipe);
void sl_pipe_close_eval(struct sl_pipe *pipe);
/* link.c. Channels and groups of all workers; only those of local workers are opened. */
SL_MUST_CHECK sl_err sl_pipe_link(struct sl_pipe *pipe);
void sl_pipe_unlink(struct sl_pipe *pipe);
/* Open and close only the channels of the current schedule. */
SL_MUST_CHECK sl_err sl_pipe_open_links(struct sl_pipe *pipe);
void sl_pipe_close_links(struct sl_pipe *pipe);
/* Do the channels have enough places for the current schedule? */
SL_MUST_CHECK sl_err sl_pipe_check_links(const struct sl_pipe *pipe);
/* Adds the bytes of channels that a local worker reads to out[worker]. */
void sl_pipe_add_message_bytes(const struct sl_pipe *pipe, int64_t *out);
bool sl_pipe_is_local(const struct sl_pipe *pipe, int worker);
bool sl_pipe_is_ipc(const struct sl_pipe *pipe, int a, int b); /* one kind, own memory? */
/* act.c */
SL_MUST_CHECK sl_err sl_pipe_act(struct sl_pipe_worker *worker, const struct sl_action *action);
/* policy.c */
SL_MUST_CHECK sl_err sl_pipe_policy_check(const struct sl_train_config *c,
                                          const struct sl_sched *sched);
void sl_pipe_policy_open(const struct sl_pipe *pipe, struct sl_pipe_seat *seat);
SL_MUST_CHECK sl_err sl_pipe_policy_params(const struct sl_pipe *pipe, struct sl_pipe_seat *seat);
SL_MUST_CHECK sl_err sl_pipe_predict(struct sl_pipe_worker *worker, const struct sl_action *action);
/* global_step.c. Opened after the links. reduce: runs a REDUCE action. decide: called by a STEP. */
SL_MUST_CHECK sl_err sl_pipe_global_step_open(struct sl_pipe *pipe);
void sl_pipe_global_step_close(struct sl_pipe *pipe);
void sl_pipe_global_step_start(struct sl_pipe *pipe);
SL_MUST_CHECK sl_err sl_pipe_global_step_reduce(struct sl_pipe_worker *worker,
                                                struct sl_pipe_seat *seat,
                                                const struct sl_action *action);
SL_MUST_CHECK sl_err sl_pipe_global_step_decide(struct sl_pipe_worker *worker,
                                                struct sl_pipe_seat *seat,
                                                const struct sl_action *action,
                                                struct sl_norm_verdict *out);
/* step.c. The gradient memory of one use of a parameter; `grad` is its row in the graph's grads. */
float *sl_pipe_use(const struct sl_pipe_seat *seat, int64_t grad, int grad_slot);
SL_MUST_CHECK sl_err sl_pipe_reduce(struct sl_pipe_worker *worker, const struct sl_action *action);
SL_MUST_CHECK sl_err sl_pipe_step(struct sl_pipe_worker *worker, const struct sl_action *action);

#endif
