/* An imported planning problem: layers with their costs, and the edges between them.
 *
 *     importer (interop/) --> draft --sl_cost_layers_build: check, freeze--> sl_layers
 *                                                            --> cost model and planner (peers/)
 *
 * The inputs of published planners are not models: they can be planned, but not run. Each format
 * fills the fields that its cost model reads. Times keep the unit of the file; memory and traffic
 * are bytes.
 *
 *     in[0] ->+---------+-> out[0]      An option (Piper's TMPC) is one way to run a layer: its own
 *             |  layer  |               time and memory, and extra traffic on every edge:
 *     in[1] ->+---------+-> out[1]      in_bytes[0..], out_bytes[0..] in this order.
 */
#ifndef SL_COST_LAYERS_H
#define SL_COST_LAYERS_H

#include "base/arena.h"
#include "base/err.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    SL_LAYER_MAX = 1 << 20,
    SL_LAYER_EDGE_MAX = 1 << 22,
    SL_LAYER_TENSOR_MAX = 1 << 16,
};

struct sl_layer_option {
    const char *name;        /* "vanilla", "activation recomp" */
    int tensor;              /* degree of tensor parallelism: number of devices */
    double time;             /* time of forward and backward of one micro-batch, per device */
    double params_bytes;     /* bytes of parameters, which are all-reduced over replicas */
    double micro_bytes;      /* memory per micro-batch in flight */
    double fixed_bytes;      /* memory that does not depend on micro-batches */
    const double *in_bytes;  /* [in_count] extra traffic of each in-edge */
    const double *out_bytes; /* [out_count] extra traffic of each out-edge */
};

struct sl_layer {
    int64_t id;               /* number of the layer in the file */
    const char *name;         /* NULL: the file has no name */
    double forward, backward; /* time on an accelerator */
    double cpu;               /* time on a CPU (dnn-partitioning) */
    double output_bytes;      /* bytes of its output (pipedream) */
    double params_bytes;
    double size_bytes; /* memory it occupies (dnn-partitioning) */
    int64_t color;     /* layers of one colour stay together; negative: none */
    bool is_backward;  /* a layer of the backward pass */
    bool cpu_only;
    const struct sl_layer_option *options; /* sorted by ascending `tensor` */
    int option_count;
    /* derived fields: */
    const int *in, *out; /* numbers of its edges, ascending */
    int in_count, out_count;
};

struct sl_layer_edge {
    int from, to;
    /* bytes (piper) or time (dnn-partitioning); 0 if layers have the cost (pipedream) */
    double cost;
};

/* The machine that the file gives; 0: not given. */
struct sl_layers_machine {
    int64_t devices, cpus, micro;
    double memory_bytes, bandwidth;
};

struct sl_layers {
    const char *format;    /* selects the cost model: sl_peers_cost_model_of */
    const char *id_prefix; /* "node" if the file writes ids as node12; else "" */
    const struct sl_layer *at;
    int count;
    const struct sl_layer_edge *edges;
    int edge_count;
    struct sl_layers_machine machine;
    /* [count] topological order; of the ready layers, the one that is first in the file comes
     * first */
    const int *order;
};

/* Checks the draft (ids and edges unique, ends within range, no cycle, times and sizes finite and
 * not negative) and freezes a copy. in_bytes and out_bytes of options have the order of the draft's
 * edges. SL_ERR_INPUT names the layer; `place` (may be NULL) adds its position. */
struct sl_layers_place {
    /* layer or edge; the other is -1 */
    sl_err (*fail)(const void *ctx, int layer, int edge, const char *text);
    const void *ctx;
};
SL_MUST_CHECK sl_err sl_cost_layers_build(struct sl_arena *arena, const struct sl_layers *draft,
                                          const struct sl_layers_place *place,
                                          const struct sl_layers **out);

/* Sets in[] and out[] of every layer, for importers that need them before the problem is frozen. */
void sl_cost_layers_link(struct sl_arena *arena, struct sl_layer *layers, int count,
                         const struct sl_layer_edge *edges, int edge_count);

/* Append a few lines of text, or one JSON object. */
void sl_cost_layers_summary(const struct sl_layers *layers, struct sl_text *out);
void sl_cost_layers_summary_json(const struct sl_layers *layers, struct sl_text *out);

#endif
