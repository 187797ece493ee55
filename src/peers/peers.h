/* Cost models of published planners, exactly as their authors coded them, and a planner for each.
 *
 *     importer (interop/)   cost model (here)       formula
 *     dnn-partitioning      dnn-max-load            dnnpart.c
 *     pipedream             pipedream-stage-time    pipedream.c
 *     piper                 piper-tps               piper.c
 *
 * The planners piper-dp and pipedream-dp (search/) share only the search space with the published
 * programs; they plan models under Sluice's own costs.
 *
 * Objectives of different cost models are not comparable: units, overlap and charges differ. Within
 * one model a plan can be evaluated from its stages.
 */
#ifndef SL_PEERS_PEERS_H
#define SL_PEERS_PEERS_H

#include "cost/layers.h"

enum { SL_PEERS_LEVELS = 4 };

struct sl_peers_query {
    int64_t devices;                   /* product of the levels */
    int level_count;                   /* 1: flat */
    int64_t level[SL_PEERS_LEVELS];    /* devices per unit of each level, innermost first */
    double bandwidth[SL_PEERS_LEVELS]; /* bytes per second, one per level */
    double memory_bytes;               /* per device; 0: no limit (pipedream-stage-time only) */
    int64_t micro;                     /* micro-batches per batch (piper-tps) */
    int64_t cpus;                      /* cores that may take a set (dnn-max-load) */
    bool all_devices; /* pipedream-stage-time: no device may stay idle, as in the program */
    bool straight;    /* pipedream-stage-time: no replication */
    bool free_links;  /* pipedream-stage-time: activations cost nothing, the default */
    bool scattered;   /* dnn-max-load: sets need not be contiguous */
    int64_t effort;   /* limit on elementary steps of the search; 0: the default */
    int64_t until_ns; /* deadline by sl_clock_ns; then the best plan so far; 0: none */
};

/* Stages in pipeline order. */
struct sl_peers_stage {
    const int *layers; /* positions in sl_layers, ascending */
    int count;
    int d, t;           /* replicas; devices per replica (tensor parallel) */
    const int *options; /* per layer, its option; NULL: the model has none */
    double time;        /* in the model's unit */
    bool on_cpu;
    const struct sl_peers_stage *inner; /* pipedream-stage-time: the stages inside one unit */
    int inner_count;
};

struct sl_peers_plan {
    const struct sl_peers_stage *stages;
    int stage_count;
    double objective, lower_bound;
    bool proven;    /* lower_bound equals objective to 1e-9 */
    bool timed_out; /* stopped by until_ns: the plan depends on timing */
    int64_t ideals; /* cuts examined */
    int64_t pairs;  /* stages examined */
};

struct sl_peers_cost_model {
    const char *name;   /* "piper-tps" */
    const char *format; /* importer of its files: "piper"; also accepted as its old name */
    const char *unit;   /* of the objective, for reports */
    const char *brief;
    /* SL_ERR_REFUSED: nothing fits. */
    sl_err (*plan)(struct sl_arena *arena, const struct sl_layers *layers,
                   const struct sl_peers_query *query, struct sl_peers_plan *out);
    /* Equal numbers of layers in topological order, one device each: the plain baseline. */
    sl_err (*even)(struct sl_arena *arena, const struct sl_layers *layers,
                   const struct sl_peers_query *query, struct sl_peers_plan *out);
};

/* SL_ERR_REFUSED: nothing fits, or (stopped) none of the examined cuts does. */
sl_err sl_peers_no_plan(const struct sl_peers_query *query, bool stopped);
sl_err sl_peers_not_even(void); /* SL_ERR_REFUSED of even() */

/* The model's plan; even stages if the deadline came before any plan was found. */
sl_err sl_peers_plan(const struct sl_peers_cost_model *model, struct sl_arena *arena,
                     const struct sl_layers *layers, const struct sl_peers_query *query,
                     struct sl_peers_plan *out);

/* In alphabetical order; ends with NULL. */
extern const struct sl_peers_cost_model *const sl_peers_cost_models[];
/* By name; the name of its format is still accepted, with a note. SL_ERR_USAGE with the nearest. */
SL_MUST_CHECK sl_err sl_peers_cost_model_find(const char *name,
                                              const struct sl_peers_cost_model **out);
/* The cost model of files of this format; NULL: none. */
const struct sl_peers_cost_model *sl_peers_cost_model_of(const char *format);

#endif
