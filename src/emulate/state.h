/* The state of an emulation. Private to this directory.
 *
 *   slab 0    the newest version; the optimizer step updates it
 *   view      a slab with the weights of the current micro-batch in one direction
 *   queue     contents that a view needs later, whose version is no longer the newest
 *
 * Between two micro-batches: advance() brings each stage of each view up to date, from slab 0 or from
 * the front of its queue. Before a step: save() puts the version that is about to be replaced into the
 * queues of those stages that read it later. */
#ifndef SL_EMULATE_STATE_H
#define SL_EMULATE_STATE_H

#include "ckpt/store.h"
#include "emulate/emulate.h"
#include "run/policy.h"
#include "run/store.h"
#include "sched/reads.h"

/* Parameters whose versions change together: the parameters of a stage, or all. */
struct sl_emulate_group {
    int stage;   /* the stage whose reads count */
    int *params; /* [count] rows of the program */
    int count;
    struct sl_part *ranges; /* [range_count] bytes in a slab */
    int range_count;
    int64_t bytes;
};

struct sl_emulate_queue {
    struct sl_read now; /* content of the view */
    bool valid;         /* true if the view has a content */
    struct sl_read *reads;
    char **memory; /* content i is at index (first + i) mod depth */
    int first, count, depth;
};

struct sl_emulate_view {
    int slab;
    bool backward;
    struct sl_emulate_queue *queues; /* [group] */
};

/* A row of the program. */
struct sl_emulate_row {
    int stage; /* the stage that reads it; if several do, the last one */
    int of;    /* parameter of the model */
    bool copy; /* it is a further copy of a tied parameter */
    bool tied;
};

struct sl_emulate {
    struct sl_pipe_config config;
    struct sl_train_config model; /* with the graphs of the model */
    struct sl_arena arena, sched_arena;
    const struct sl_sched *sched;
    struct sl_reads reads;
    struct sl_train train; /* with graphs in which tied parameters may have copies */
    struct sl_run_policy policy;
    struct sl_emulate_row *rows;     /* [program params] */
    int64_t *row_at;                 /* [program params] offset in the content of its group */
    float *scales_of;                /* [program params] clip scope stage */
    bool *follows;                   /* [program params] */
    struct sl_emulate_group *groups; /* [group_count] */
    struct sl_emulate_view views[2];
    int group_count, view_count;
    int slab_of[2]; /* [backward] */
    int scratch;    /* slab for policies that keep a velocity; -1: none */
    bool portable;  /* a finished run can be continued with the same bits */
    bool begun;
    int64_t origin; /* steps of the run before the schedule begins */
    int64_t done;   /* finished steps of the schedule, which is also its newest version */
    /* [lag + 2] state of the loss scale after each of the last steps */
    struct sl_scale_state *scales;
    int32_t lag;
    void *tie_sum;
    int64_t version_bytes;
    struct sl_run_tensors *tensors; /* built by store.c; NULL: not built yet */
};

/* untie.c: builds a graph in which every stage that trains a parameter has its own. `first` is the
 * number of parameters of `graph`; parameter first + i is a copy of copies[i].param for stage
 * copies[i].stage. */
struct sl_emulate_copies {
    int count;
    struct sl_emulate_copy {
        int param, stage;
    } * at;
};
struct sl_emulate_copies sl_emulate_copies_of(struct sl_arena *arena, const struct sl_graph *graph,
                                              const struct sl_plan *plan);
const struct sl_graph *sl_emulate_untie(struct sl_arena *arena, const struct sl_graph *graph,
                                        const int *stage_of,
                                        const struct sl_emulate_copies *copies);

/* emulate.c: builds the schedule of the run from step `origin` on, and what follows from it. */
SL_MUST_CHECK sl_err sl_emulate_begin(struct sl_emulate *e, int64_t origin);

/* views.c */
SL_MUST_CHECK sl_err sl_emulate_open_views(struct sl_emulate *e);
void sl_emulate_close_views(struct sl_emulate *e);
/* Makes all contents invalid and empties the queues. */
void sl_emulate_forget_views(struct sl_emulate *e);
/* Brings the views up to date before micro-batch `micro` of the schedule. */
SL_MUST_CHECK sl_err sl_emulate_advance(struct sl_emulate *e, int64_t micro);
/* Puts versions that are needed later into queues, before the step that makes version done + 1. */
SL_MUST_CHECK sl_err sl_emulate_save(struct sl_emulate *e);
/* Returns how many contents the queue of a group holds after the step that made `version`, and
 * writes them to out[depth] unless `out` is NULL. */
int sl_emulate_pending(const struct sl_emulate *e, const struct sl_emulate_view *view, int group,
                       int64_t version, struct sl_read *out);
/* Returns SL_ERR_REFUSED if the schedule needs more memory than there is. */
SL_MUST_CHECK sl_err sl_emulate_check_depth(const struct sl_emulate *e);

/* step.c: turns the gradients of an iteration into version done + 1 in slab 0. */
SL_MUST_CHECK sl_err sl_emulate_apply(struct sl_emulate *e, struct sl_step_report *report);
double sl_emulate_scale_of(const struct sl_emulate *e, int64_t iteration);
struct sl_scale_state *sl_emulate_scale_after(const struct sl_emulate *e, int64_t version);

/* store.c */
struct sl_ckpt_store sl_emulate_store(struct sl_emulate *e);
struct sl_ckpt_place sl_emulate_place(const struct sl_emulate *e);
SL_MUST_CHECK sl_err sl_emulate_restore(struct sl_emulate *e, const struct sl_ckpt_place *place);

#endif
