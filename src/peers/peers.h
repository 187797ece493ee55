/* Cost models of published planners, exactly as their authors coded them, and a planner for each.
 *
 *     importer (interop/)   cost model (here)       formula
 *     dnn-partitioning      dnn-max-load            dnnpart.c
 *     pipedream             pipedream-stage-time    pipedream.c
 *     piper                 piper-tps               piper.c
 *
 * The planners piper-dp and pipedream-dp (planners/) share only the search space with the
 * published programs; they plan models under Sluice's own costs.
 *
 * Objectives of different cost models are not comparable: units, overlap and charges differ. Within
 * one model a plan can be evaluated from its stages. */
#ifndef SL_PEERS_PEERS_H
#define SL_PEERS_PEERS_H

#include "cost/layers.h"

enum { SL_PEERS_LEVELS = 4 };

struct sl_peers_query {
    int64_t devices;                   /* product of all levels */
    int level_count;                   /* number of levels; 1: a flat machine */
    int64_t level[SL_PEERS_LEVELS];    /* devices per unit of each level, innermost level first */
    double bandwidth[SL_PEERS_LEVELS]; /* bytes per second, one per level */
    double memory_bytes;               /* limit per device; 0: none (pipedream-stage-time only) */
    int64_t micro;                     /* number of micro-batches per batch (piper-tps) */
    int64_t cpus;                      /* CPU cores that may take a set (dnn-max-load) */
    /* pipedream-stage-time: every device must be used, as in the published program */
    bool all_devices;
    bool straight;   /* pipedream-stage-time: no replication */
    bool free_links; /* pipedream-stage-time: activations cost nothing (the default) */
    bool scattered;  /* dnn-max-load: sets need not be contiguous */
    int64_t effort;  /* limit on elementary steps of the search; 0: the default */
    /* deadline by sl_clock_ns, after which the best plan so far is returned; 0: none */
    int64_t until_ns;
};

/* One stage of a plan; stages are in pipeline order. */
struct sl_peers_stage {
    const int *layers; /* positions in sl_layers, ascending */
    int count;
    int d, t;           /* d: replicas; t: devices per replica (tensor parallel) */
    const int *options; /* [layer of the stage] its option; NULL: the cost model has none */
    double time;        /* in the unit of the cost model */
    bool on_cpu;
    /* pipedream-stage-time: the stages inside one unit of this level */
    const struct sl_peers_stage *inner;
    int inner_count;
};

struct sl_peers_plan {
    const struct sl_peers_stage *stages;
    int stage_count;
    double objective, lower_bound;
    bool proven;    /* lower_bound equals objective, to 1e-9 */
    bool timed_out; /* until_ns stopped the search, so the plan depends on timing */
    int64_t ideals; /* number of cuts examined */
    int64_t pairs;  /* number of stages examined */
};

struct sl_peers_cost_model {
    const char *name;   /* "piper-tps" */
    const char *format; /* importer of its files, "piper"; also accepted as a name of the model */
    const char *unit;   /* unit of the objective, for reports */
    const char *brief;
    /* Finds a plan. SL_ERR_REFUSED: nothing fits. */
    sl_err (*plan)(struct sl_arena *arena, const struct sl_layers *layers,
                   const struct sl_peers_query *query, struct sl_peers_plan *out);
    /* The plain baseline: equal numbers of layers in topological order, one device per stage. */
    sl_err (*even)(struct sl_arena *arena, const struct sl_layers *layers,
                   const struct sl_peers_query *query, struct sl_peers_plan *out);
};

/* The error SL_ERR_REFUSED: nothing fits, or (stopped) none of the cuts examined so far does. */
sl_err sl_peers_no_plan(const struct sl_peers_query *query, bool stopped);
sl_err sl_peers_not_even(void); /* the error SL_ERR_REFUSED of even() */

/* Finds the cost model's plan, or even stages if the deadline comes before any plan is found. */
sl_err sl_peers_plan(const struct sl_peers_cost_model *model, struct sl_arena *arena,
                     const struct sl_layers *layers, const struct sl_peers_query *query,
                     struct sl_peers_plan *out);

/* In alphabetical order; ends with NULL. */
extern const struct sl_peers_cost_model *const sl_peers_cost_models[];
/* Finds a cost model by name. The name of its format is still accepted, with a note. SL_ERR_USAGE
 * with the nearest name. */
SL_MUST_CHECK sl_err sl_peers_cost_model_find(const char *name,
                                              const struct sl_peers_cost_model **out);
/* Returns the cost model for files of this format; NULL: none. */
const struct sl_peers_cost_model *sl_peers_cost_model_of(const char *format);

#endif
