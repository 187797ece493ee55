/* A cost table: measured times of the units of a model at several micro-batch sizes.
 *
 * The key of a unit is its signature (ops, shapes, attributes; not its position), so one row serves
 * every repeated block: measure a model with two layers to plan one with ninety-six. Times are
 * interpolated between sizes and extrapolated with the last slope.
 * Text: docs/formats-machine.md.
 */
#ifndef SL_COST_COST_H
#define SL_COST_COST_H

#include "base/arena.h"
#include "base/err.h"
#include "base/text.h"
#include "cost/cold.h"
#include "cost/tempo.h"
#include "graph/graph.h"

enum { SL_COST_ROWS = 1 << 20 };

struct sl_cost_row {
    uint64_t signature;
    int64_t micro;    /* samples of a micro-batch */
    int64_t f, i, w;  /* median times in ns */
    double spread;    /* (p90 - p10) / median of f + i + w */
    int64_t seen;     /* number of measurements behind the medians */
    const char *name; /* scope of one such unit, for reports */
};

struct sl_cost {
    const char *model, *device;
    int threads;                    /* threads per worker */
    int busy;                       /* workers that computed at the same time */
    const struct sl_cost_row *rows; /* sorted by signature, then by micro */
    int row_count;
    double step_bytes_per_s;    /* optimizer step: parameter bytes per second; 0: not measured */
    double version_bytes_per_s; /* the same for a step into a new weight version; 0: not measured */
    double link_bytes_per_s;    /* of a message between two workers; 0: not measured */
    int64_t link_latency_ns;
    int64_t action_ns;   /* overhead of an action */
    int32_t recompute;   /* time of a recomputed forward pass, in millionths of the original one; 0:
                    * not measured */
    struct sl_cold cold; /* all 0: not measured */
    struct sl_tempo tempo;
};

SL_MUST_CHECK sl_err sl_cost_build(struct sl_arena *arena, const struct sl_cost *draft,
                                   const struct sl_cost **out);
SL_MUST_CHECK sl_err sl_cost_check(const struct sl_cost *cost);
SL_MUST_CHECK sl_err sl_cost_read(struct sl_arena *arena, const char *file, const char *text,
                                  size_t length, const struct sl_cost **out);
/* Reads a cost table from a file. */
SL_MUST_CHECK sl_err sl_cost_file(struct sl_arena *arena, const char *path,
                                  const struct sl_cost **out);
void sl_cost_write(const struct sl_cost *cost, struct sl_text *out);

/* Finds the times of a unit at a micro-batch size; false: it was not measured. */
bool sl_cost_find(const struct sl_cost *cost, uint64_t signature, int64_t micro,
                  struct sl_cost_row *out);

/* Returns a hash of a group of forward nodes: ops, shapes, attributes. If parameters are frozen, it
 * also depends on which of the group's are frozen and which gradients it computes. */
uint64_t sl_cost_signature(const struct sl_graph *graph, const int *nodes, int count);
/* The same as if no parameter were frozen. */
uint64_t sl_cost_signature_whole(const struct sl_graph *graph, const int *nodes, int count);

#endif
