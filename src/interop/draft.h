/* Layers and edges of an imported file with their positions in the text, and the step from ids to
 * indices; all importers use it. */
#ifndef SL_INTEROP_DRAFT_H
#define SL_INTEROP_DRAFT_H

#include "base/json.h"
#include "base/vec.h"
#include "cost/layers.h"

struct sl_draft_edge {
    int64_t from, to; /* ids of the layers */
    double cost;
    const char *at; /* position in the text */
};

struct sl_draft_id {
    int64_t id;
    int index;
};

struct sl_draft {
    const char *file, *start;
    const char *id_prefix; /* see sl_layers.id_prefix; NULL: none */
    SL_VEC(struct sl_layer) layers;
    SL_VEC(const char *) places; /* positions of the layers */
    SL_VEC(struct sl_draft_edge) edges;
    struct sl_layer_edge *linked; /* [edges.count] with indices; sl_interop_draft_link sets it */
    struct sl_draft_id *ids;      /* [layers.count] sorted; sl_interop_draft_link sets it */
    struct sl_layers_machine machine;
    struct sl_arena scratch;
};

void sl_interop_draft_free(struct sl_draft *draft);

/* Fails with "file:line:column: message" for a position in the text. */
sl_err sl_interop_draft_fail(const struct sl_draft *draft, const char *at, const char *fmt, ...)
    SL_PRINTF(3, 4);

/* Returns the index of the layer with this id, or -1. */
int sl_interop_draft_find(const struct sl_draft *draft, int64_t id);

/* Reads the array after an "edges" key: objects with sourceId, destId and a cost under
 * `cost_key`. */
SL_MUST_CHECK sl_err sl_interop_draft_read_edges(struct sl_draft *draft, struct sl_json_in *json,
                                                 const char *cost_key);

/* Replaces ids by indices: makes `linked`, and the in and out lists of the draft's layers. */
SL_MUST_CHECK sl_err sl_interop_draft_link(struct sl_draft *draft);

/* Checks and freezes the layers; call sl_interop_draft_link first. */
SL_MUST_CHECK sl_err sl_interop_draft_build(struct sl_draft *draft, struct sl_arena *arena,
                                            const char *format, const struct sl_layers **out);

#endif
