/* Items: pieces of SLOT and WORK with lifetimes; in-place sharing. */
#include "pass/build.h"
#include "pass/inplace.h"

/* Is this value in SLOT or WORK, and not in PARAM, GRAD or STATE? */
static bool planned(const struct sl_build *b, int value) {
    enum sl_value_kind kind = sl_graph_value(b->graph, value)->kind;
    return kind == SL_VALUE_NODE || kind == SL_VALUE_INPUT || kind == SL_VALUE_SEED;
}

/* Order of values: inputs, forward nodes, seeds, backward nodes. The numbers of values will not do:
 * they follow the model's text, and a resumed run reads the flat form, which has another order. */
static int64_t order_of(const struct sl_build *b, const struct sl_value *v) {
    enum { GROUP = 40 };
    if (v->kind != SL_VALUE_NODE)
        return ((int64_t)(v->kind == SL_VALUE_SEED ? 2 : 0) << GROUP) + v->index;
    int64_t group = b->graph->differentiated && v->node >= b->graph->forward_count ? 3 : 1;
    return (group << GROUP) + (int64_t)v->node * SL_INSTR_OUT + v->slot;
}

static int new_item(struct sl_build *b, int value, int born) {
    const struct sl_value *v = sl_graph_value(b->graph, value);
    int64_t bytes = sl_pass_dtype_bytes(sl_pass_build_dtype(b, value));
    struct sl_item item = {
        .value = value,
        .order = order_of(b, v),
        .size_bytes = sl_graph_shape_numel(&v->shape, b->spec->samples) * bytes,
        .born = born,
        .dies = born,
        .into = -1,
    };
    item.size_bytes = (item.size_bytes + 63) & ~(int64_t)63;
    SL_PUSH(&b->items, item);
    return (int)b->items.count - 1;
}

bool sl_pass_build_second_item(const struct sl_build *b, int value, int time) {
    return (b->spec->recompute || b->again[value]) && time >= b->forward_end &&
           sl_pass_build_own_value(b, value) &&
           sl_graph_value(b->graph, value)->node < b->graph->forward_count;
}

/* The item of `value` for an instruction at `time`. */
static int item_at(struct sl_build *b, int value, int time, bool written) {
    const struct sl_value *v = sl_graph_value(b->graph, value);
    bool second = sl_pass_build_second_item(b, value, time);
    int *table = second ? b->item_b : b->item_f;
    if (table[value] < 0) {
        bool backward_value = v->kind == SL_VALUE_NODE && b->graph->differentiated &&
                              v->node >= b->graph->forward_count;
        int born = written ? time : backward_value ? b->forward_end : -1;
        if (v->kind == SL_VALUE_SEED)
            born = -1;
        table[value] = new_item(b, value, born);
    }
    return table[value];
}

/* Keeps a value that is sent, received or read by the host in SLOT, at least until `dies`. */
static void pin(struct sl_build *b, int value, int dies) {
    int item = b->item_f[b->root[value]];
    if (item < 0 || !planned(b, b->root[value]))
        return;
    b->items.at[item].slot = true;
    if (b->items.at[item].dies < dies)
        b->items.at[item].dies = dies;
}

static void touch(struct sl_build *b, const struct sl_operand *operand, int time, bool written) {
    if (operand->value < 0 || operand->space != SL_SPACE_NONE || !planned(b, operand->value))
        return;
    int item = item_at(b, operand->value, time, written); /* first, because it may move items.at */
    if (b->items.at[item].dies < time)
        b->items.at[item].dies = time;
}

/* Returns the phase of an instruction, or of the time before the first one. */
static int phase_of(const struct sl_build *b, int time) {
    return time < b->forward_end ? 0 : time < b->split_at ? 1 : 2;
}

static void pin_sent(struct sl_build *b) {
    const struct sl_graph *graph = b->graph;
    int end = (int)b->instrs.count;
    for (int64_t n = 0; n < graph->nodes.count; n++) {
        const struct sl_node *node = &graph->nodes.at[n];
        for (int i = 0; i < node->in_count && !sl_pass_build_own(b, (int)n); i++)
            if (node->in[i] >= 0 && sl_pass_build_own_value(b, b->root[node->in[i]])) {
                int value = b->root[node->in[i]];
                bool forward = graph->values.at[value].node < graph->forward_count;
                pin(b, value, forward ? b->forward_end : end);
            }
    }
    for (int64_t i = 0; i < graph->losses.count; i++)
        pin(b, graph->losses.at[i].value, b->forward_end);
    for (int64_t i = 0; i < graph->outputs.count && !graph->differentiated; i++)
        pin(b, graph->outputs.at[i].value, b->forward_end);
}

/* Finds all items. An evaluation program has one phase and one micro-batch at a time, so all its
 * items are in SLOT; the training program that shares the memory needs a larger SLOT. */
void sl_pass_build_items(struct sl_build *b) {
    for (int64_t v = 0; v < b->graph->values.count; v++)
        b->item_f[v] = b->item_b[v] = -1;
    for (int64_t t = 0; t < b->instrs.count; t++) {
        const struct sl_instr *instr = &b->instrs.at[t];
        for (int i = 0; i < instr->in_count; i++)
            touch(b, &instr->in[i], (int)t, false);
        for (int i = 0; i < instr->out_count; i++)
            touch(b, &instr->out[i], (int)t, true);
    }
    pin_sent(b);
    for (int64_t i = 0; i < b->items.count; i++) {
        struct sl_item *item = &b->items.at[i];
        enum sl_value_kind kind = b->graph->values.at[item->value].kind;
        item->slot |= item->born < 0 || kind != SL_VALUE_NODE || !b->graph->differentiated ||
                      !sl_pass_build_own_value(b, item->value) ||
                      phase_of(b, item->born) != phase_of(b, item->dies);
    }
}

static int item_of_operand(const struct sl_build *b, const struct sl_operand *operand, int time) {
    if (operand->value < 0 || operand->space != SL_SPACE_NONE || !planned(b, operand->value))
        return -1;
    return sl_pass_build_second_item(b, operand->value, time) ? b->item_b[operand->value]
                                                              : b->item_f[operand->value];
}

static int owner(const struct sl_build *b, int item) {
    while (item >= 0 && b->items.at[item].into >= 0)
        item = b->items.at[item].into;
    return item;
}

static bool share(struct sl_build *b, const struct sl_instr *instr, int input, int time) {
    int from = owner(b, item_of_operand(b, &instr->in[input], time));
    int to = item_of_operand(b, &instr->out[0], time);
    if (from < 0 || to < 0 || instr->in[input].numel != instr->out[0].numel)
        return false;
    struct sl_item *a = &b->items.at[from], *c = &b->items.at[to];
    if (a->dies != time || c->born != time || a->born < 0 || a->size_bytes != c->size_bytes)
        return false;
    c->into = from;
    a->dies = c->dies;
    a->slot |= c->slot;
    return true;
}

void sl_pass_build_share(struct sl_build *b) {
    for (int64_t t = 0; t < b->instrs.count; t++) {
        const struct sl_instr *instr = &b->instrs.at[t];
        unsigned inputs = sl_pass_inplace_inputs(instr->kernel);
        bool done = false;
        for (int i = 0; i < instr->in_count && !done; i++)
            if (inputs >> i & 1)
                done = share(b, instr, i, (int)t);
    }
}
