/* What a pipeline is made of. Private to pipe*.c. */
#ifndef SL_PIPE_STATE_H
#define SL_PIPE_STATE_H

#include "base/vec.h"
#include "pipe/areas.h"
#include "pipe/guard.h"
#include "pipe/pipe.h"
#include "pipe/reduce.h"
#include "run/scores.h"

/* A pass whose weights are compared with the version they stand for. */
struct sl_watch {
    void *slabs[2]; /* what it read; the version it started from. NULL: nothing is watched */
    int64_t target, told, made; /* version, -1: none; the last known; the newest there */
    int nccl_link;
    bool predicted;
};

/* A seat: a replica of a stage on its worker. */
struct sl_seat_state {
    struct sl_train train;      /* its part of a training run: worker, optimizer, counts */
    int stage, replica, number; /* the last: of the plan's seats */
    int slots;                  /* micro-batches in flight */
    uint64_t filled;            /* bit g: gradient buffer g holds something, add to it */
    int newest;                 /* weight slab */
    int64_t counted;            /* iteration that train.counts is of, -1: none */
    int64_t step_version;       /* STEP waiting for the worker's other seats, 0: none */
    int step_from, step_to, step_grad;
    struct sl_policy_at at;        /* where the stage stands, for policies */
    struct sl_policy_at *ats;      /* [params] the same; of tied ones: of the highest holder */
    double *rates;                 /* [params] of the step at hand */
    struct sl_optim_param *stored; /* [params] rows whose direction is a stored tensor */
    int kept;                      /* slab of what the policy keeps, -1: nothing */
    int foresight_slot;            /* weight slab of backward predictions, -1: none */
    struct sl_parts parts;
    struct sl_watch watch[2]; /* of forwards, of backwards */
    SL_VEC(struct sl_staleness) watched;
    struct sl_scores scores; /* of an evaluation */
};

/* A worker: a thread with the seats it holds. Workers of other ranks are empty here. */
struct sl_pipe_worker {
    struct sl_pipe *pipe;
    int index, place; /* the last: of its first thread, when threads are bound */
    struct sl_device *device;
    struct sl_seat_state *seats;
    int seat_count, steps_waiting;
    struct sl_areas areas;
    struct sl_notes notes;
    struct sl_action recompute; /* if has_recompute: RECOMPUTE behind which nothing has run yet */
    bool has_recompute;
    struct sl_completing completing; /* by the pass at hand */
    int sums;                        /* parts of gradients under way */
    int64_t since_ns;                /* sums of the REDUCE at hand; 0: with it */
    int *reduce_seen;                /* [groups] */
    int *member;                     /* [groups] this worker's place in each, -1: none */
    const float **terms;             /* [grads of the graph] its own, of the sum at hand */
    double *norms;                   /* [graph params] of the step in the making */
    struct sl_lane lane;             /* measured */
    int64_t waited_ns;               /* in the action at hand */
    atomic_int_least64_t busy_ns;    /* of this run: in actions, without waiting */
    struct sl_verdicts *verdicts;    /* stepping together (pipe_async.c) */
    struct sl_scale_state *scales;   /* [kept] of the loss, after verdicts (pipe_scale.c) */
    const char **messages;           /* [worker] of the sum at hand */
    pthread_t thread;
};

/* A message: the samples that a micro-batch of one end of an edge shares with one of the other. */
struct sl_piece {
    int32_t from, to;     /* micro-batches of the iteration */
    int64_t first, count; /* samples of the iteration */
    int pair;             /* of replicas, and so of channels */
    int64_t number;       /* of the iteration's messages of this pair */
};

/* The messages of an edge in a full iteration, in ascending order of samples. Gradients go the same
 * ways back. Replicas a and b of its ends are pair a * width of `to` + b. */
struct sl_link {
    struct sl_piece *pieces;
    int32_t piece_count;
    int32_t *of_from, *of_to; /* [micro-batches + 1] where the pieces of each begin */
    int pair_count;
    int64_t *per_iteration;            /* [pair] messages */
    struct sl_channel **acts, **grads; /* [pair] NULL: no messages */
    int64_t *arrived[2]; /* [iterations][pieces] with a trace: when acts, grads were there */
};

/* What a run of the workers follows: training's course or evaluation's. */
struct sl_course {
    const struct sl_sched *sched;
    struct sl_link *links;
    int64_t batch, max_micros;
    bool trace;
};

struct sl_pipe {
    struct sl_pipe_config config;
    struct sl_train_config train;
    struct sl_arena arena, sched_arena;
    const struct sl_sched *sched; /* of the current run */
    struct sl_comm *comm;
    bool own_comm;
    int first_place; /* of this rank's threads (device/bind.h), -1: not bound */
    int workers_here;
    struct sl_lend *lend; /* of this rank's workers; NULL: they only wait */
    struct sl_pipe_worker *workers;
    struct sl_seat_state **seat_at;       /* [seat of the plan] NULL: on another rank */
    struct sl_link *links;                /* [edge] */
    struct sl_group *all, **groups;       /* of all workers; [sched groups] */
    struct sl_part_groups *parts;         /* [stage] of its replicas */
    struct sl_channel **votes, ***shares; /* stepping together: [from, to]; [group][from, to] */
    struct sl_step_report *reports;
    double *loss_terms; /* [steps][most micros][losses] of this run */
    int64_t max_micros; /* of an iteration of any stage */
    int64_t start_step, start_sample, start_ns;
    struct sl_scale_state scale;  /* of the loss, between runs */
    int32_t scale_lag;            /* steps that it is behind */
    int64_t last_ns, last_cpu_ns; /* end of the step before */
    struct sl_course other; /* evaluation's while training is at hand, and the other way round */
    int64_t *eval_scores;   /* [seat][2] right, counted */
    struct sl_timeline timeline;
    int64_t *worker_bytes, *busy_ns, run_ns; /* [worker]; of the last run, and how long it took */
    bool *holds;                             /* pipe_store.c: [stage][params, then states] */
    struct sl_run_tensors *tensors;          /* store.c: of the run; NULL: not listed yet */
    struct sl_channel **requests, **replies; /* [rank] from and to rank 0 */
    int64_t *requested, *replied;            /* [rank] messages so far */
    struct sl_guard *guard;                  /* pipe_guard.c */
    struct sl_tell *tell;                    /* pipe_tell.c */
    struct sl_halt *halt;                    /* pipe_halt.c */
};

/* pipe_trace.c: nanoseconds since the run began; an action with its times; those of all ranks. */
int64_t sl_pipe_clock(const struct sl_pipe_worker *worker);
SL_MUST_CHECK sl_err sl_pipe_open_trace(struct sl_pipe *pipe);
SL_MUST_CHECK sl_err sl_pipe_act_traced(struct sl_pipe_worker *worker,
                                        const struct sl_action *action);
SL_MUST_CHECK sl_err sl_pipe_close_trace(struct sl_pipe *pipe);
/* A message of an edge has come in. */
void sl_pipe_note_arrival(struct sl_pipe *pipe, struct sl_link *link, bool grad, int64_t place,
                          int64_t ns);
/* pipe_store.c: channels between rank 0 and the others, for tensors. */
SL_MUST_CHECK sl_err sl_pipe_open_requests(struct sl_pipe *pipe);
void sl_pipe_close_requests(struct sl_pipe *pipe);
/* pipe.c: the workers of this rank, from their first action to their last. */
SL_MUST_CHECK sl_err sl_pipe_run_workers(struct sl_pipe *pipe);
bool sl_pipe_evaluates(const struct sl_pipe *pipe);
/* pipe_eval.c */
SL_MUST_CHECK sl_err sl_pipe_open_eval(struct sl_pipe *pipe);
void sl_pipe_close_eval(struct sl_pipe *pipe);
/* pipe_link.c: channels and groups of all workers, after those of this rank have been opened. */
SL_MUST_CHECK sl_err sl_pipe_link(struct sl_pipe *pipe);
void sl_pipe_unlink(struct sl_pipe *pipe);
/* Only the channels, of the schedule at hand. */
SL_MUST_CHECK sl_err sl_pipe_open_links(struct sl_pipe *pipe);
void sl_pipe_close_links(struct sl_pipe *pipe);
/* Have the channels places enough for the schedule at hand? */
SL_MUST_CHECK sl_err sl_pipe_check_links(const struct sl_pipe *pipe);
/* Of the channels that are read here, to out[worker]. */
void sl_pipe_add_message_bytes(const struct sl_pipe *pipe, int64_t *out);
bool sl_pipe_is_here(const struct sl_pipe *pipe, int worker);
bool sl_pipe_is_ipc(const struct sl_pipe *pipe, int a, int b); /* devices of one kind, apart */
/* pipe_act.c */
SL_MUST_CHECK sl_err sl_pipe_act(struct sl_pipe_worker *worker, const struct sl_action *action);
/* pipe_policy.c */
SL_MUST_CHECK sl_err sl_pipe_policy_check(const struct sl_train_config *c,
                                          const struct sl_sched *sched);
void sl_pipe_policy_open(const struct sl_pipe *pipe, struct sl_seat_state *seat);
SL_MUST_CHECK sl_err sl_pipe_policy_params(const struct sl_pipe *pipe, struct sl_seat_state *seat);
SL_MUST_CHECK sl_err sl_pipe_predict(struct sl_pipe_worker *worker, const struct sl_action *action);
/* The step of one seat; sets the rate and what is stored. */
SL_MUST_CHECK sl_err sl_pipe_update(struct sl_pipe *pipe, struct sl_seat_state *seat,
                                    struct sl_update_args *args);
/* pipe_async.c: stepping together. Opened when the links are; a REDUCE; what a STEP waits for. */
SL_MUST_CHECK sl_err sl_pipe_global_step_open(struct sl_pipe *pipe);
void sl_pipe_global_step_close(struct sl_pipe *pipe);
void sl_pipe_global_step_start(struct sl_pipe *pipe);
SL_MUST_CHECK sl_err sl_pipe_global_step_reduce(struct sl_pipe_worker *worker,
                                                struct sl_seat_state *seat,
                                                const struct sl_action *action);
SL_MUST_CHECK sl_err sl_pipe_global_step_verdict(struct sl_pipe_worker *worker,
                                                 struct sl_seat_state *seat,
                                                 const struct sl_action *action,
                                                 struct sl_norm_verdict *out);
/* pipe_watch.c */
SL_MUST_CHECK sl_err sl_pipe_watch_open(struct sl_seat_state *seat);
void sl_pipe_watch_close(struct sl_seat_state *seat);
void sl_pipe_watch_start(struct sl_seat_state *seat);
SL_MUST_CHECK sl_err sl_pipe_watch_pass(const struct sl_pipe *pipe, struct sl_seat_state *seat,
                                        const struct sl_action *action);
SL_MUST_CHECK sl_err sl_pipe_watch_predict(const struct sl_pipe *pipe, struct sl_seat_state *seat,
                                           const struct sl_action *action);
SL_MUST_CHECK sl_err sl_pipe_watch_step(const struct sl_pipe *pipe, struct sl_seat_state *seat,
                                        int64_t version);
/* pipe_step.c: memory of one use of a parameter by a stage (its row in the graph's grads). */
float *sl_pipe_use(const struct sl_seat_state *seat, int64_t grad, int grad_slot);
SL_MUST_CHECK sl_err sl_pipe_reduce(struct sl_pipe_worker *worker, const struct sl_action *action);
SL_MUST_CHECK sl_err sl_pipe_step(struct sl_pipe_worker *worker, const struct sl_action *action);

#endif
