/* The published planners' cost models, exactly as their authors coded them, and planners for them.
 *
 * Objectives of different models cannot be compared with one another (units, overlap and what is
 * charged differ); within one model anybody can re-evaluate a plan from its stages. Formulas stand
 * at the head of piper.c, dnnpart.c and pipedream.c.
 */
#ifndef SL_PEERS_PEERS_H
#define SL_PEERS_PEERS_H

#include "cost/layers.h"

enum { SL_PEER_LEVELS = 4 };

struct sl_peer_query {
    int64_t devices;                  /* product of the levels */
    int level_count;                  /* 1: flat */
    int64_t level[SL_PEER_LEVELS];    /* devices per unit of each level, innermost first */
    double bandwidth[SL_PEER_LEVELS]; /* bytes per second, one per level */
    double memory_bytes;              /* per device; 0: no limit (pipedream only) */
    int64_t micro;                    /* micro-batches per batch (piper) */
    int64_t cpus;                     /* dnn-partitioning */
    bool all_devices; /* pipedream: no device may stay idle, as its program demands */
    bool straight;    /* pipedream: no replication */
    bool free_links;  /* pipedream: activations cost nothing (its default) */
    bool scattered;   /* dnn-partitioning: sets need not be contiguous */
    int64_t effort;   /* steps of some nanoseconds that a search may take; 0: as usual */
    int64_t until_ns; /* sl_clock_ns at which to stop with the best plan so far; 0: never */
};

/* Stages in pipeline order. */
struct sl_peer_stage {
    const int *layers; /* positions in sl_layers, ascending */
    int count;
    int d, t;           /* replicas; devices per replica (tensor parallel) */
    const int *options; /* per layer, its option; NULL: the model has none */
    double time;        /* in the model's unit */
    bool on_cpu;
    const struct sl_peer_stage *inner; /* pipedream: the stages inside one unit of this level */
    int inner_count;
};

struct sl_peers_plan {
    const struct sl_peer_stage *stages;
    int stage_count;
    double objective, lower_bound;
    bool proven;    /* lower_bound equals objective to 1e-9: nothing better exists in this model */
    bool timed_out; /* stopped by until_ns: another time there may be another plan */
    int64_t ideals; /* cuts looked at */
    int64_t pairs;  /* stages looked at */
};

struct sl_peer_model {
    const char *name; /* "piper", as the importer */
    const char *unit; /* of the objective, for people */
    const char *brief;
    /* SL_ERR_REFUSED: nothing fits. */
    sl_err (*plan)(struct sl_arena *arena, const struct sl_layers *layers,
                   const struct sl_peer_query *query, struct sl_peers_plan *out);
    /* Equal numbers of layers in topological order, one device each: the plain baseline. */
    sl_err (*even)(struct sl_arena *arena, const struct sl_layers *layers,
                   const struct sl_peer_query *query, struct sl_peers_plan *out);
};

/* Fails: nothing fits, or (stopped) nothing was found among the cuts that were looked at. */
sl_err sl_peers_no_plan(const struct sl_peer_query *query, bool stopped);
sl_err sl_peers_not_even(void); /* the same of even() */

/* The model's plan; even stages when time was up before there was one. */
sl_err sl_peers_plan(const struct sl_peer_model *model, struct sl_arena *arena,
                     const struct sl_layers *layers, const struct sl_peer_query *query,
                     struct sl_peers_plan *out);

/* In alphabetical order; ends with NULL. */
extern const struct sl_peer_model *const sl_peers_models[];
const struct sl_peer_model *sl_peers_model_find(const char *name);

#endif
