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
#include "run/scores.h"

/* A seat: a replica of a stage on its worker. */
struct sl_pipe_seat {
    struct sl_train train;      /* its part of a training run: worker, optimizer, counts */
    int stage, replica, number; /* number: of the plan's seats */
    int slots;                  /* micro-batches in flight */
    struct sl_pipe_border border;
    struct sl_pipe_image image;
    uint64_t filled;      /* bit g: gradient buffer g holds a sum to add to */
    int newest;           /* weight slab */
    int64_t counted;      /* iteration of train.counts, -1: none */
    int64_t step_version; /* version of a STEP that waits for the worker's other seats, 0: none */
    int step_from, step_to, step_grad;
    struct sl_policy_at at;   /* position of the stage, for policies */
    struct sl_policy_at *ats; /* [params] the same; for a tied one, of its highest holder */
    double *rates;            /* [params] of the current step */
    float *scales; /* [params] stage by stage: 1 / loss scale, clipped; below 0: skipped */
    struct sl_optim_param *stored; /* [params] rows whose direction is a stored tensor */
    int kept;                      /* slab of the tensor that the policy keeps, -1: none */
    int foresight_slot;            /* weight slab of backward predictions, -1: none */
    struct sl_pipe_parts parts;
    struct sl_pipe_stale_pass watch[2]; /* forward, backward */
    SL_VEC(struct sl_staleness) watched;
    struct sl_scores scores; /* of the current evaluation */
    struct sl_group *team;   /* shards.c: the shards of its stage; NULL: the stage is whole */
};

/* A worker: a thread with its seats. Workers of other ranks are empty. */
struct sl_pipe_worker {
    struct sl_pipe *pipe;
    int index, place; /* place: core of its first thread, if threads are bound */
    struct sl_device *device;
    struct sl_pipe_seat *seats;
    int seat_count, steps_waiting;
    struct sl_pipe_areas areas;
    struct sl_pipe_status status;
    struct sl_action recompute; /* if has_recompute: the last action, a RECOMPUTE */
    bool has_recompute;
    struct sl_pipe_completing completing; /* by the current pass */
    int sums;                             /* gradient parts being summed */
    int64_t since_ns;    /* start of the sums of the current REDUCE; 0: they start with it */
    int *reduce_seen;    /* [groups] */
    int *member;         /* [groups] index of this worker in each, -1: none */
    const float **terms; /* [grads of the graph] own terms of the current sum */
    double *norms;       /* [graph params] of the current step */
    struct sl_lane lane; /* measured */
    int64_t waited_ns;   /* in the current action */
    atomic_int_least64_t busy_ns;        /* of this run: in actions, minus waits */
    struct sl_pipe_decisions *decisions; /* global_step.c */
    struct sl_scale_state *scales;       /* [kept] loss scale after each step (scale.c) */
    const char **messages;               /* [worker] of the current sum */
    struct sl_pipe_sharing sharing;      /* shards.c */
    pthread_t thread;
};

/* The messages of an edge in a full iteration, in ascending order of samples. Gradients return on
 * the same pairs. Replica a of `from` and b of `to` form pair a * width of `to` + b. */
struct sl_pipe_edge {
    struct sl_pipe_piece *pieces;
    int32_t piece_count;
    int32_t *of_from, *of_to; /* [micro-batches + 1] where the pieces of each begin */
    int pair_count;
    int64_t *per_iteration;           /* [pair] messages */
    struct sl_pipe_box *acts, *grads; /* [pair] channel NULL: no messages */
    int64_t *arrived[2]; /* [iterations][pieces] with a trace: arrival of acts, grads */
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
    const struct sl_sched *sched; /* of the current run */
    bool ordered;                 /* it adds gradients in ascending order */
    struct sl_comm *comm;
    bool own_comm;
    int first_place; /* of this rank's threads (device/bind.h), -1: not bound */
    int local_workers;
    struct sl_device_lend *lend; /* shared by local workers; NULL: waiting workers are idle */
    struct sl_pipe_worker *workers;
    struct sl_pipe_seat **seat_at;       /* [seat of the plan] NULL: on another rank */
    struct sl_pipe_edge *links;          /* [edge] */
    struct sl_group *all, **groups;      /* of all workers; [sched groups] */
    struct sl_pipe_part_groups *parts;   /* [stage] of its replicas */
    struct sl_group **teams;             /* [seat] of part 0 of each stage; NULL: whole stages */
    struct sl_pipe_box *norms, **shares; /* global step: [from, to]; [group][from, to] */
    SL_VEC(struct sl_pipe_box *) boxes;  /* of training, the same on all ranks */
    struct sl_step_report *reports;
    double *loss_terms; /* [][max_micros][losses] of iterations from terms_base on */
    int64_t terms_base, terms_count;
    int64_t max_micros;                         /* of an iteration of any stage */
    int64_t start_step, start_sample, start_ns; /* of the schedule */
    int64_t begin_ns, run_end_ns;               /* of the last run; the end since start_ns */
    int64_t ran;                                /* steps of the last run */
    int64_t done;    /* steps since start_step: where the pipeline is, or the run began */
    int64_t *at;     /* [worker] actions begun since then */
    bool under_way;  /* between two steps of the schedule: micro-batches are in flight */
    bool halted;     /* the last run was asked to end early */
    bool traced;     /* the timeline of the schedule has begun */
    bool portable;   /* weights of the last two steps are the whole state (resume.c) */
    int previous;    /* portable: slab of the weights one step older, -1: unknown */
    int64_t skipped; /* iterations of the schedule that had run before it began */
    struct sl_scale_state scale;              /* of the loss, between runs */
    struct sl_scale_state past[SL_PIPE_PAST]; /* before `scale`, the newest first */
    int32_t scale_lag;                        /* steps by which it lags (scale.c) */
    int64_t last_ns, last_cpu_ns;             /* end of the previous step */
    struct sl_pipe_program inactive; /* the one of training and evaluation that is not running */
    int64_t *eval_scores;            /* [seat][2] right, counted */
    struct sl_timeline timeline;
    int64_t *worker_bytes, *busy_ns, run_ns; /* [worker] each; duration of the last run */
    int64_t *seat_bytes;                     /* store.c: [seat] of its image; then layouts */
    bool *holds;                             /* store.c: [stage][params, then states] */
    struct sl_run_tensors *tensors;          /* store.c: of the run; NULL: not listed yet */
    struct sl_joined *joined;                /* run/part.h */
    struct sl_channel **requests, **replies; /* [rank] from and to rank 0 */
    int64_t *requested, *replied;            /* [rank] messages so far */
    struct sl_pipe_watchdog *watchdog;       /* watchdog.c */
    struct sl_pipe_reporter *reporter;       /* reporter.c */
    struct sl_pipe_halt *halt;               /* halt.c */
};

/* trace.c: nanoseconds since the run began; a measured action; the timeline of all ranks. */
int64_t sl_pipe_clock(const struct sl_pipe_worker *worker);
SL_MUST_CHECK sl_err sl_pipe_open_trace(struct sl_pipe *pipe);
SL_MUST_CHECK sl_err sl_pipe_act_traced(struct sl_pipe_worker *worker,
                                        const struct sl_action *action);
SL_MUST_CHECK sl_err sl_pipe_close_trace(struct sl_pipe *pipe);
/* A message of an edge has arrived. */
void sl_pipe_trace_arrival(struct sl_pipe *pipe, struct sl_pipe_edge *link, bool grad,
                           int64_t place, int64_t ns);
/* open.c: the schedule of `iters` steps, verified. */
SL_MUST_CHECK sl_err sl_pipe_build_sched(struct sl_pipe *pipe, int64_t iters);
/* pipe.c: runs the workers of this rank from their first action to their last. */
SL_MUST_CHECK sl_err sl_pipe_run_workers(struct sl_pipe *pipe);
bool sl_pipe_evaluates(const struct sl_pipe *pipe);
/* eval.c */
SL_MUST_CHECK sl_err sl_pipe_open_eval(struct sl_pipe *pipe);
void sl_pipe_close_eval(struct sl_pipe *pipe);
/* link.c: channels and groups of all workers; the local ones are open. */
SL_MUST_CHECK sl_err sl_pipe_link(struct sl_pipe *pipe);
void sl_pipe_unlink(struct sl_pipe *pipe);
/* Only the channels of the current schedule. */
SL_MUST_CHECK sl_err sl_pipe_open_links(struct sl_pipe *pipe);
void sl_pipe_close_links(struct sl_pipe *pipe);
/* Do the channels have enough places for the current schedule? */
SL_MUST_CHECK sl_err sl_pipe_check_links(const struct sl_pipe *pipe);
/* Adds the bytes of channels that a local worker reads to out[worker]. */
void sl_pipe_add_message_bytes(const struct sl_pipe *pipe, int64_t *out);
bool sl_pipe_is_local(const struct sl_pipe *pipe, int worker);
bool sl_pipe_is_ipc(const struct sl_pipe *pipe, int a,
                    int b); /* devices of one kind with their own memory */
/* act.c */
SL_MUST_CHECK sl_err sl_pipe_act(struct sl_pipe_worker *worker, const struct sl_action *action);
/* policy.c */
SL_MUST_CHECK sl_err sl_pipe_policy_check(const struct sl_train_config *c,
                                          const struct sl_sched *sched);
void sl_pipe_policy_open(const struct sl_pipe *pipe, struct sl_pipe_seat *seat);
SL_MUST_CHECK sl_err sl_pipe_policy_params(const struct sl_pipe *pipe, struct sl_pipe_seat *seat);
SL_MUST_CHECK sl_err sl_pipe_predict(struct sl_pipe_worker *worker, const struct sl_action *action);
/* The optimizer step of one seat; sets the rates and args->delta. */
SL_MUST_CHECK sl_err sl_pipe_update(struct sl_pipe *pipe, struct sl_pipe_seat *seat,
                                    struct sl_update_args *args);
/* global_step.c. Opened after the links. reduce: a REDUCE action. decide: for a STEP. */
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
/* step.c: gradient memory of one use of a parameter (`grad`: its row in the graph's grads). */
float *sl_pipe_use(const struct sl_pipe_seat *seat, int64_t grad, int grad_slot);
SL_MUST_CHECK sl_err sl_pipe_reduce(struct sl_pipe_worker *worker, const struct sl_action *action);
SL_MUST_CHECK sl_err sl_pipe_step(struct sl_pipe_worker *worker, const struct sl_action *action);

#endif
