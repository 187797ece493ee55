/* Target megatron: options for Megatron-LM's pretrain_gpt.py, with
 * --pipeline-model-parallel-layout.
 *
 *     E t t t | t t t t | t t t L      E embedding, t a layer, L head and loss; | between stages
 *
 * Stages are in pipeline order; stage s is on rank s mod p. Megatron puts the final norm in the
 * stage of the last layer or of the head. */
#include "interop/exporter.h"

#include "graph/blocks.h"
#include "schedules/schedule.h"

struct layout {
    const struct sl_export *x;
    struct sl_blocks blocks;
    int *layer_stage; /* [blocks.count] */
};

static const char *stage_name(const struct layout *l, int stage) {
    return l->x->plan->stages[stage].name;
}

static sl_err find_layers(struct layout *l, struct sl_arena *arena) {
    const struct sl_graph *graph = l->x->graph;
    const struct sl_blocks *b = &l->blocks;
    sl_graph_blocks(arena, graph, &l->blocks);
    if (!b->row)
        return sl_fail(SL_ERR_REFUSED,
                       "Megatron's layout is one row of equal layers; %s has %s (%s%s%s)",
                       graph->name, b->count ? "several rows" : "no numbered blocks",
                       b->count ? b->names[0] : "", b->count ? " and " : "",
                       b->count ? b->names[b->count - 1] : "");
    l->layer_stage = SL_NEW(arena, int, b->count);
    for (int i = 0; i < b->count; i++)
        l->layer_stage[i] = -1;
    for (int n = 0; n < graph->forward_count; n++) {
        int layer = b->of[n], stage = l->x->stage_of[n];
        if (layer < 0)
            continue;
        if (l->layer_stage[layer] >= 0 && l->layer_stage[layer] != stage)
            return sl_fail(SL_ERR_REFUSED,
                           "Megatron cuts between layers, and parts of %s are in %s and in "
                           "%s; plan with --whole-layers",
                           b->names[layer], stage_name(l, l->layer_stage[layer]),
                           stage_name(l, stage));
        l->layer_stage[layer] = stage;
    }
    for (int i = 1; i < b->count; i++)
        if (l->layer_stage[i] < l->layer_stage[i - 1])
            return sl_fail(SL_ERR_REFUSED,
                           "Megatron assigns layers to stages in ascending order, and %s is in %s",
                           b->names[i], stage_name(l, l->layer_stage[i]));
    return SL_OK;
}

/* Checks nodes outside the layers: E (before them) must be in the first stage, L (after them) in
 * the last. */
static sl_err check_rest(const struct layout *l) {
    const struct sl_graph *graph = l->x->graph;
    const struct sl_blocks *b = &l->blocks;
    int last = l->x->plan->stage_count - 1;
    for (int n = 0; n < graph->forward_count; n++) {
        const struct sl_node *node = &graph->nodes.at[n];
        int stage = l->x->stage_of[n];
        if (b->of[n] >= 0)
            continue;
        if (n > b->first && n < b->last)
            return sl_fail(SL_ERR_REFUSED,
                           "Megatron has no nodes between its layers, and node %d (%s) is there", n,
                           node->op->name);
        bool norm = strstr(node->op->name, "norm") && stage == l->layer_stage[b->count - 1];
        if ((n < b->first && stage != 0) || (n > b->last && stage != last && !norm))
            return sl_fail(
                SL_ERR_REFUSED,
                "Megatron keeps the whole %s in its %s stage, and node %d (%s) is in %s; "
                "plan with --whole-layers",
                n < b->first ? "embedding" : "head", n < b->first ? "first" : "last", n,
                node->op->name, stage_name(l, stage));
    }
    return SL_OK;
}

/* pretrain_gpt.py begins with a table of tokens. */
static sl_err check_embedding(const struct layout *l) {
    const struct sl_graph *graph = l->x->graph;
    for (int n = 0; n < l->blocks.first; n++)
        if (graph->nodes.at[n].op->layer == SL_LAYER_EMBED)
            return SL_OK;
    return sl_fail(SL_ERR_REFUSED,
                   "Megatron's layout begins with an embedding, and %s has none before %s",
                   graph->name, l->blocks.names[0]);
}

/* A layer reads what the layer before it makes, and nothing of other layers. */
static sl_err check_row(struct sl_arena *arena, const struct layout *l) {
    const struct sl_graph *graph = l->x->graph;
    const struct sl_blocks *b = &l->blocks;
    bool *reads = SL_NEW(arena, bool, b->count + 1);
    for (int n = 0; n < graph->forward_count; n++)
        for (int i = 0; i < graph->nodes.at[n].in_count && b->of[n] >= 0; i++) {
            int in = graph->nodes.at[n].in[i];
            const struct sl_value *v = in < 0 ? NULL : sl_graph_value(graph, in);
            int from = v && v->kind == SL_VALUE_NODE ? b->of[v->node] : -1;
            if (from >= 0 && from < b->of[n] - 1)
                return sl_fail(SL_ERR_REFUSED,
                               "Megatron's layers form one row, and %s reads from %s",
                               b->names[b->of[n]], b->names[from]);
            reads[b->of[n]] |= from >= 0 && from == b->of[n] - 1;
        }
    for (int i = 1; i < b->count; i++)
        if (!reads[i])
            return sl_fail(SL_ERR_REFUSED,
                           "Megatron's layers form one row, and %s does not read from %s",
                           b->names[i], b->names[i - 1]);
    return SL_OK;
}

static void put_layout(const struct layout *l, struct sl_text *out) {
    int stages = l->x->plan->stage_count;
    for (int s = 0; s < stages; s++) {
        int layers = 0;
        for (int i = 0; i < l->blocks.count; i++)
            layers += l->layer_stage[i] == s;
        sl_text_put(out, s ? "|" : "E");
        if (layers)
            sl_text_put(out, "t");
        if (layers > 1)
            sl_text_printf(out, "*%d", layers);
        if (s == stages - 1)
            sl_text_put(out, "L");
    }
}

/* Does the part after the layers use a parameter of the part before them? */
static bool is_tied(const struct layout *l) {
    const struct sl_graph *graph = l->x->graph;
    for (int64_t i = 0; i < graph->grads.count; i++)
        for (int64_t k = 0; k < graph->grads.count; k++)
            if (graph->grads.at[i].param == graph->grads.at[k].param &&
                graph->grads.at[i].node < l->blocks.first &&
                graph->grads.at[k].node > l->blocks.last)
                return true;
    return false;
}

static sl_err write_in(const struct sl_export *x, struct sl_arena *arena, struct sl_text *out) {
    struct layout l = {.x = x};
    const struct sl_plan *plan = x->plan;
    SL_TRY(sl_interop_export_check_row(x, "Megatron", SL_LAYOUT_LOOP));
    SL_TRY(find_layers(&l, arena));
    SL_TRY(check_row(arena, &l));
    SL_TRY(check_embedding(&l));
    SL_TRY(check_rest(&l));
    sl_text_printf(out, "--num-layers %d\n", l.blocks.count);
    if (plan->stages[0].shards > 1)
        sl_text_printf(out, "--tensor-model-parallel-size %d\n", plan->stages[0].shards);
    if (plan->stages[0].zero1)
        sl_text_put(out, "--use-distributed-optimizer\n");
    sl_text_printf(out, "--pipeline-model-parallel-size %d\n", sl_interop_export_ranks(plan));
    sl_text_put(out, "--pipeline-model-parallel-layout '");
    put_layout(&l, out);
    sl_text_put(out, "'\n");
    if (!is_tied(&l))
        sl_text_put(out, "--untie-embeddings-and-output-weights\n");
    sl_text_printf(out, "--micro-batch-size %lld\n", (long long)plan->stages[0].micro_size);
    if (plan->batch)
        sl_text_printf(out, "--global-batch-size %lld\n", (long long)plan->batch);
    if (plan->stages[0].recompute)
        sl_text_put(out, "--recompute-granularity full\n--recompute-method uniform\n"
                         "--recompute-num-layers 1\n");
    return SL_OK;
}

static sl_err write_megatron(const struct sl_export *x, struct sl_text *out) {
    struct sl_arena arena = {0};
    sl_err err = write_in(x, &arena, out);
    sl_arena_free(&arena);
    return err;
}

static bool requests(const struct sl_schedule *schedule) { return schedule->in_megatron; }

const struct sl_exporter sl_interop_export_megatron = {
    .name = "megatron",
    .brief = "options of Megatron-LM, with the layout string",
    .needs_graph = true,
    .requests = requests,
    .write = write_megatron,
};
