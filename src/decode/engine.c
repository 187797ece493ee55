#include "decode/engine.h"

#include <stdlib.h>
#include <string.h>

enum { ONE, MANY, LENGTHS }; /* programs: for one token per sequence, and for chunks */

enum { PIECE = 65536 }; /* floats copied at a time */

struct stage {
    struct sl_device *device;
    struct sl_program *programs[LENGTHS];
    struct sl_exec *execs[LENGTHS];
    void *param, *state, *slot, *work;
};

struct sl_decode_engine {
    struct sl_decode_config config;
    struct sl_decode_sizes sizes;
    struct sl_graph *graphs[LENGTHS];
    struct stage *stages;
    int *stage_of;  /* [nodes] stage of each, for both graphs */
    float *between; /* activations from one stage to the next */
    int64_t bytes;
};

struct sl_decode_sizes sl_decode_sizes(const struct sl_decode_engine *gen) {
    return gen->sizes;
}
int64_t sl_decode_bytes(const struct sl_decode_engine *gen) { return gen->bytes; }

/* ---- stages ---- */

/* Fills cross[n]: the number of values that nodes before n give to node n or later ones. A cache
 * counts too, from its first reader to its last. */
static void count_crossings(const struct sl_graph *graph, struct sl_arena *arena, int *cross) {
    int *first = SL_NEW(arena, int, graph->values.count + 1),
        *last = SL_NEW(arena, int, graph->values.count + 1);
    for (int64_t v = 0; v < graph->values.count; v++) {
        const struct sl_value *value = &graph->values.at[v];
        first[v] = value->kind == SL_VALUE_NODE ? value->node : -1;
        last[v] = -1;
    }
    for (int64_t n = 0; n < graph->nodes.count; n++)
        for (int i = 0; i < graph->nodes.at[n].in_count; i++) {
            int v = graph->nodes.at[n].in[i];
            if (v < 0)
                continue;
            last[v] = (int)n;
            if (first[v] < 0 && graph->values.at[v].kind == SL_VALUE_STATE)
                first[v] = (int)n;
        }
    for (int64_t v = 0; v < graph->values.count; v++)
        for (int n = first[v] + 1; first[v] >= 0 && n <= last[v]; n++)
            cross[n]++;
}

/* May a stage begin with node n? Only if one value crosses, no cache crosses, and no kernel
 * computes nodes of both sides. */
static bool can_cut(const int *cross, const int *group, int n) {
    return n > 0 && cross[n] == 1 && group[n] == n;
}

static sl_err cut_stages(struct sl_decode_engine *g) {
    const struct sl_graph *graph = g->graphs[ONE];
    int nodes = (int)graph->nodes.count, stage = 0, stages = g->config.stages;
    struct sl_arena arena = {0};
    int *cross = SL_NEW(&arena, int, nodes + 1), *group = SL_NEW(&arena, int, nodes + 1);
    double total = 0, done = 0;
    g->stage_of = calloc((size_t)nodes + 1, sizeof *g->stage_of);
    if (!g->stage_of)
        sl_out_of_memory((size_t)nodes);
    count_crossings(graph, &arena, cross);
    sl_pass_glue(graph, g->config.device->has_kernel, group);
    for (int n = nodes - 1; n > 0; n--) /* no cut inside a group of fused nodes */
        for (int k = group[n] + 1; k <= n; k++)
            cross[k] = 99;
    for (int n = 0; n < nodes; n++)
        total += sl_graph_node_flops(graph, &graph->nodes.at[n], g->config.batch);
    for (int n = 0; n < nodes; n++) {
        if (stage + 1 < stages && can_cut(cross, group, n) &&
            done >= total * (stage + 1) / stages * 0.98)
            stage++;
        g->stage_of[n] = stage;
        done += sl_graph_node_flops(graph, &graph->nodes.at[n], g->config.batch);
    }
    sl_arena_free(&arena);
    if (stage + 1 < stages)
        return sl_fail(SL_ERR_REFUSED, "this model can be cut into %d stages to generate, not %d",
                       stage + 1, stages);
    return SL_OK;
}

/* ---- memory ---- */

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

static sl_err alloc(struct sl_decode_engine *g, struct stage *s, int64_t bytes, void **out) {
    g->bytes += bytes;
    return s->device->row->alloc(s->device, bytes ? bytes : 64, out);
}

static sl_err load_param(struct sl_decode_engine *g, struct stage *s,
                         const struct sl_program_param *p) {
    const struct sl_stored_values *stored = &g->config.graph->stored;
    const char *name = g->graphs[ONE]->params.at[p->param].name;
    float values[PIECE];
    for (int64_t at = 0; at < p->numel; at += PIECE) {
        int64_t count = p->numel - at < PIECE ? p->numel - at : PIECE;
        SL_TRY(stored->read(stored->ctx, name, at, count, values));
        SL_TRY(s->device->row->upload(s->device, SL_STREAM_COMPUTE,
                                      (char *)s->param + p->offset + at * 4, values, count * 4));
        SL_TRY(s->device->row->sync(s->device, SL_STREAM_COMPUTE));
    }
    return SL_OK;
}

static sl_err open_memory(struct sl_decode_engine *g, struct stage *s) {
    const struct sl_program *a = s->programs[ONE], *b = s->programs[MANY];
    SL_ASSERT(a->param_bytes == b->param_bytes && a->state_bytes == b->state_bytes);
    SL_TRY(alloc(g, s, a->param_bytes, &s->param));
    SL_TRY(alloc(g, s, a->state_bytes, &s->state));
    SL_TRY(alloc(g, s, larger(a->slot_bytes, b->slot_bytes), &s->slot));
    SL_TRY(alloc(g, s, larger(a->work_bytes, b->work_bytes), &s->work));
    for (int i = 0; i < a->param_count; i++)
        SL_TRY(load_param(g, s, &a->params[i]));
    return SL_OK;
}

static sl_err open_stage(struct sl_decode_engine *g, int index) {
    struct stage *s = &g->stages[index];
    struct sl_program_spec spec = {.stage_of = g->stage_of,
                                   .stage = index,
                                   .samples = g->config.batch,
                                   .has_kernel = g->config.device->has_kernel};
    SL_TRY(g->config.device->open(&(struct sl_device_config){.threads = g->config.threads},
                                  &s->device));
    for (int k = 0; k < LENGTHS; k++) {
        spec.graph = g->graphs[k];
        SL_TRY(sl_pass_program_build(&spec, &s->programs[k]));
        SL_TRY(s->device->row->bind(s->device, s->programs[k], &s->execs[k]));
    }
    return open_memory(g, s);
}

static sl_err open_between(struct sl_decode_engine *g) {
    int64_t most = 1;
    for (int i = 0; i < g->config.stages; i++) {
        const struct sl_ports *ports = &g->stages[i].programs[MANY]->send_act;
        if (ports->count > 1)
            return sl_fail(SL_ERR_REFUSED, "this model cannot be cut into stages to generate");
        if (ports->count)
            most = larger(most, ports->at[0].operand.numel);
    }
    g->between = sl_realloc(NULL, sizeof *g->between * (size_t)most);
    return SL_OK;
}

/* ---- opening ---- */

static sl_err check(const struct sl_decode_config *c) {
    if (!c->device->has_kernel || !c->device->has_kernel("decode_attention"))
        return sl_fail(SL_ERR_REFUSED,
                       "device '%s' has no kernel 'decode_attention' to generate with cached keys; "
                       "use the device 'cpu'",
                       c->device->name);
    if (!c->graph->stored.read)
        return sl_fail(SL_ERR_USAGE, "the model has no weights");
    if (c->batch < 1 || c->chunk < 1 || c->stages < 1)
        return sl_fail(SL_ERR_USAGE, "batch, chunk and stages must be 1 or more");
    return SL_OK;
}

static sl_err open_all(struct sl_decode_engine *g) {
    struct sl_decode_config *c = &g->config;
    SL_TRY(check(c));
    SL_TRY(sl_decode_sizes_of(c->graph, &g->sizes));
    c->chunk = c->chunk < g->sizes.context ? c->chunk : g->sizes.context;
    SL_TRY(sl_decode_chunk_build(c->graph, 1, c->batch, &g->graphs[ONE]));
    SL_TRY(sl_decode_chunk_build(c->graph, c->chunk, c->batch, &g->graphs[MANY]));
    SL_ASSERT(g->graphs[ONE]->nodes.count == g->graphs[MANY]->nodes.count);
    g->stages = calloc((size_t)c->stages, sizeof *g->stages);
    if (!g->stages)
        sl_out_of_memory((size_t)c->stages);
    SL_TRY(cut_stages(g));
    for (int i = 0; i < c->stages; i++)
        SL_TRY(open_stage(g, i));
    return open_between(g);
}

sl_err sl_decode_open(const struct sl_decode_config *config, struct sl_decode_engine **out) {
    struct sl_decode_engine *g = calloc(1, sizeof *g);
    if (!g)
        sl_out_of_memory(sizeof *g);
    g->config = *config;
    sl_err err = open_all(g);
    if (err != SL_OK)
        sl_decode_close(g);
    else
        *out = g;
    return err;
}

static void close_stage(struct stage *s) {
    if (!s->device)
        return;
    const struct sl_device_row *row = s->device->row;
    for (int k = 0; k < LENGTHS; k++) {
        row->unbind(s->device, s->execs[k]);
        sl_pass_program_close(s->programs[k]);
    }
    row->free(s->device, s->param);
    row->free(s->device, s->state);
    row->free(s->device, s->slot);
    row->free(s->device, s->work);
    row->close(s->device);
}

void sl_decode_close(struct sl_decode_engine *g) {
    if (!g)
        return;
    for (int i = 0; g->stages && i < g->config.stages; i++)
        close_stage(&g->stages[i]);
    for (int k = 0; k < LENGTHS; k++)
        sl_graph_close(g->graphs[k]);
    free(g->stages);
    free(g->stage_of);
    free(g->between);
    free(g);
}

/* ---- a step ---- */

static sl_err put(struct stage *s, const struct sl_program_port *port, const void *values) {
    return s->device->row->upload(s->device, SL_STREAM_COMPUTE,
                                  (char *)s->slot + port->operand.offset, values,
                                  port->operand.numel * 4);
}

static sl_err get(struct stage *s, const struct sl_program_port *port, void *values) {
    SL_TRY(s->device->row->download(s->device, SL_STREAM_COMPUTE, values,
                                    (char *)s->slot + port->operand.offset,
                                    port->operand.numel * 4));
    return s->device->row->sync(s->device, SL_STREAM_COMPUTE);
}

/* Puts the inputs of a chunk by their number in its graph: tokens, past, last, text. */
static sl_err put_inputs(struct stage *s, const struct sl_program *p, const void *const given[4]) {
    for (int i = 0; i < p->inputs.count; i++)
        SL_TRY(put(s, &p->inputs.at[i], given[p->inputs.at[i].index]));
    return SL_OK;
}

static sl_err run_stage(struct sl_decode_engine *g, struct stage *s, int length,
                        const void *const given[4]) {
    struct sl_program *p = s->programs[length];
    struct sl_device_args args = {.phase = SL_PHASE_F,
                                  .base = {[SL_SPACE_PARAM] = s->param,
                                           [SL_SPACE_STATE] = s->state,
                                           [SL_SPACE_SLOT] = s->slot,
                                           [SL_SPACE_WORK] = s->work}};
    SL_TRY(put_inputs(s, p, given));
    if (p->recv_act.count)
        SL_TRY(put(s, &p->recv_act.at[0], g->between));
    SL_TRY(s->device->row->run(s->device, s->execs[length], &args));
    return p->send_act.count ? get(s, &p->send_act.at[0], g->between) : SL_OK;
}

sl_err sl_decode_step(struct sl_decode_engine *g, const struct sl_decode_tokens *t, float *logits) {
    int64_t batch = g->config.batch;
    int length = t->length == 1 ? ONE : MANY;
    int64_t width = length == ONE ? 1 : g->config.chunk;
    int32_t *tokens = calloc((size_t)(batch * width + batch), sizeof *tokens);
    int32_t *last = tokens ? tokens + batch * width : NULL;
    sl_err err = SL_OK;
    if (!tokens)
        sl_out_of_memory((size_t)(batch * width));
    SL_ASSERT(t->length >= 1 && t->length <= width);
    for (int64_t b = 0; b < batch; b++) {
        last[b] = t->count[b] > 0 ? t->count[b] - 1 : 0;
        memcpy(tokens + b * width, t->tokens + b * t->length, sizeof *tokens * (size_t)t->count[b]);
    }
    const void *given[4] = {tokens, t->past, last, t->text};
    for (int i = 0; i < g->config.stages; i++)
        SL_TRY_OUT(run_stage(g, &g->stages[i], length, given));
    struct stage *end = &g->stages[g->config.stages - 1];
    SL_TRY_OUT(get(end, &end->programs[length]->outputs.at[0], logits));
out:
    free(tokens);
    return err;
}
