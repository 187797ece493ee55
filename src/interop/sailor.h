/* Files of Sailor (eth-easl/sailor): measured times of layers, a plan, and perhaps its measured
 * step.
 *
 *     MODEL.GPU.json   profile: micro-batch -> tensor degree -> layer -> [forward, backward, update]
 *     llm_info.json    model -> tensor degree -> layer -> floats of parameters and activations
 *     network.json     GPU -> GPUs that send -> [polynomial, limit]: bandwidth by log2 of the MB
 *     X.json           plan: stages, their replicas, micro-batch; perhaps the measured step
 *
 *     sl_interop_sailor_add, once per file, in any order --> sl_interop_sailor_forecast --> plan
 *
 * Nothing is fitted: times come from the tables, bytes from the list of layers. docs/sailor.md
 * states the rules of time and memory. */
#ifndef SL_INTEROP_SAILOR_H
#define SL_INTEROP_SAILOR_H

#include "base/vec.h"
#include "cost/cost.h"
#include "cost/machine.h"
#include "interop/json_tree.h"
#include "plan/plan.h"

enum {
    SL_SAILOR_FILE_MAX = 8 << 20,
    SL_SAILOR_LAYERS_MAX = 4096,
    SL_SAILOR_DEGREE_MAX = SL_SHARD_MAX,
    SL_SAILOR_COEFFICIENTS = 8,
    SL_SAILOR_STAGES_MAX = 1024,
    SL_SAILOR_REPLICAS_MAX = 4096,
};

struct sl_sailor_time {
    int micro, tensor, layer;
    double forward, backward, update; /* in seconds */
};

struct sl_sailor_profile {
    const char *file, *model, *gpu;
    const struct sl_sailor_time *times; /* sorted by tensor, layer, micro */
    int count, layers;
};

struct sl_sailor_layer {
    int tensor, layer;
    double params, output, saved; /* number of floats for one sample, on one of `tensor` GPUs */
};

struct sl_sailor_model {
    const char *file, *name;
    const struct sl_sailor_layer *at; /* sorted by tensor, layer */
    int count, layers;
};

/* A link: GB/s = c[0] x^(n-1) + ... + c[n-1], where x is log2 of the megabytes; at most `limit`
 * bytes per second. */
struct sl_sailor_link {
    const char *from, *to, *from_zone, *to_zone; /* `to` and the zones may be NULL: any */
    int senders; /* number of GPUs that send at the same time, together */
    double c[SL_SAILOR_COEFFICIENTS], limit;
    int terms;
};

struct sl_sailor_replica {
    const char *const *gpus; /* [gpu_count] kinds of GPU of its hosts */
    int gpu_count, tensor;
    const char *zone;
};

struct sl_sailor_stage {
    const int *layers;
    int layer_count;
    const struct sl_sailor_replica *replicas;
    int replica_count;
};

struct sl_sailor_plan {
    const char *file;
    const struct sl_sailor_stage *stages;
    int stage_count;
    int64_t micro, batch;          /* batch 0: the file does not have it */
    double real, sync, peak_bytes; /* measured seconds and bytes; 0: the file does not have them */
};

/* The content of all files that were read. Starts as {0}. */
struct sl_sailor {
    SL_VEC(struct sl_sailor_profile) profiles;
    SL_VEC(struct sl_sailor_model) models;
    SL_VEC(struct sl_sailor_link) links;
    const struct sl_sailor_plan *plan;
    const char *model; /* name in a training configuration, or NULL */
    int64_t batch;     /* batch in a training configuration, or 0 */
};
void sl_interop_sailor_free(struct sl_sailor *s);

/* Reads a text and adds its content. A profile takes its model and GPU from the name of the file.
 * SL_ERR_INPUT names the line. */
SL_MUST_CHECK sl_err sl_interop_sailor_add(struct sl_sailor *s, struct sl_arena *arena,
                                           const char *file, const char *text, size_t length);

/* Reads a plan, for sl_interop_sailor_add. A second plan is an error: SL_ERR_INPUT. */
SL_MUST_CHECK sl_err sl_interop_sailor_read_plan(struct sl_arena *arena, const char *file,
                                                 const struct sl_json_tree *root,
                                                 const struct sl_sailor_plan **out);

/* Returns the bytes per second of `senders` GPUs together; 0: the files do not say. */
double sl_interop_sailor_bandwidth(const struct sl_sailor *s, const struct sl_sailor_replica *from,
                                   const struct sl_sailor_replica *to, int senders, double bytes);

struct sl_sailor_forecast {
    const struct sl_plan *plan;
    const char *model, *table;    /* the model, and the model whose layers were measured */
    const struct sl_cost **costs; /* [cost_count] one per kind of GPU in the plan */
    const char **gpus;            /* [cost_count] */
    int cost_count;
    int micros; /* micro-batches per replica of the first stage */
};

/* Converts Sailor's plan to ours, with times and bytes. `model` NULL: the model that has profiles
 * and as many layers as the plan. */
SL_MUST_CHECK sl_err sl_interop_sailor_forecast(const struct sl_sailor *s, struct sl_arena *arena,
                                                const char *model, struct sl_sailor_forecast *out);

#endif
