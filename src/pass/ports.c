/* Parameters, accumulators and states of a stage, and the values that enter and leave it. */
#include "pass/build.h"

#include <stdlib.h>
#include <string.h>

static int64_t aligned(int64_t bytes) { return (bytes + 63) & ~(int64_t)63; }

struct wanted { /* which tensors to list: trained parameters, frozen ones, or states */
    enum sl_value_kind kind;
    bool frozen;
};

static const struct sl_param *table_of(const struct sl_build *b, enum sl_value_kind kind) {
    return kind == SL_VALUE_PARAM ? b->graph->params.at : b->graph->states.at;
}

/* Marks the parameters or states that nodes of this stage read; returns their number. */
static int mark_used(const struct sl_build *b, const struct wanted *want, bool *used) {
    int count = 0;
    int64_t nodes = b->graph->differentiated ? b->graph->forward_count : b->graph->nodes.count;
    for (int64_t n = 0; n < nodes; n++) {
        const struct sl_node *node = &b->graph->nodes.at[n];
        for (int i = 0; i < node->in_count && sl_pass_build_own(b, (int)n); i++) {
            if (node->in[i] < 0)
                continue;
            const struct sl_value *v = sl_graph_value(b->graph, node->in[i]);
            if (v->kind == want->kind && !used[v->index] &&
                table_of(b, v->kind)[v->index].frozen == want->frozen) {
                used[v->index] = true;
                count++;
            }
        }
    }
    return count;
}

static struct sl_program_param *list_used(struct sl_build *b, struct wanted want, int *count,
                                          int64_t *bytes) {
    bool params = want.kind == SL_VALUE_PARAM;
    int64_t all = params ? b->graph->params.count : b->graph->states.count;
    const struct sl_param *table = table_of(b, want.kind);
    bool *used = SL_NEW(&b->scratch, bool, all + 1);
    *count = mark_used(b, &want, used);
    struct sl_program_param *list = SL_NEW(&b->program->arena, struct sl_program_param, *count);
    int at = 0;
    for (int64_t i = 0; i < all; i++) {
        if (!used[i])
            continue;
        int64_t numel = sl_graph_shape_numel(&b->graph->values.at[table[i].value].shape, 1);
        list[at++] = (struct sl_program_param){.param = (int)i, .offset = *bytes, .numel = numel};
        *bytes += aligned(numel * (int64_t)sizeof(float));
    }
    return list;
}

void sl_pass_build_params(struct sl_build *b) {
    struct sl_program *p = b->program;
    struct wanted trained = {SL_VALUE_PARAM, false}, frozen = {SL_VALUE_PARAM, true},
                  states = {SL_VALUE_STATE, false};
    p->params = list_used(b, trained, &p->param_count, &p->param_bytes);
    p->fixed = list_used(b, frozen, &p->fixed_count, &p->fixed_bytes);
    p->states = list_used(b, states, &p->state_count, &p->state_bytes);
    p->uses = SL_NEW(&p->arena, struct sl_program_use, b->graph->grads.count);
    int64_t g = 0;
    for (int i = 0; i < p->param_count; i++) {
        p->params[i].first_use = p->use_count;
        while (g < b->graph->grads.count && b->graph->grads.at[g].param < p->params[i].param)
            g++;
        for (; g < b->graph->grads.count && b->graph->grads.at[g].param == p->params[i].param;
             g++) {
            if (!sl_pass_build_own(b, b->graph->grads.at[g].node))
                continue;
            p->uses[p->use_count++] = (struct sl_program_use){(int)g, p->grad_bytes};
            p->grad_bytes += aligned(p->params[i].numel * (int64_t)sizeof(float));
        }
        p->params[i].use_count = p->use_count - p->params[i].first_use;
    }
}

typedef SL_VEC(struct sl_program_port) port_list;

/* Finds where this stage stores a value, in the slot or in work memory; false if it does not hold
 * the value. */
static bool find_operand(const struct sl_build *b, int value, struct sl_operand *out) {
    int root = b->root[value], item = b->item_f[root];
    const struct sl_value *v = sl_graph_value(b->graph, value);
    if (item < 0)
        return false;
    while (b->items.at[item].into >= 0)
        item = b->items.at[item].into;
    bool slot = b->items.at[item].offset < b->program->slot_bytes;
    *out = (struct sl_operand){
        .space = slot ? SL_SPACE_SLOT : SL_SPACE_WORK,
        .dtype = sl_pass_build_dtype(b, value),
        .offset = b->items.at[item].offset - (slot ? 0 : b->program->slot_bytes),
        .shape = sl_graph_shape_at(&v->shape, b->spec->samples),
        .value = root,
    };
    out->numel = sl_graph_shape_numel(&out->shape, 1);
    return true;
}

static void add_port(const struct sl_build *b, port_list *list, int value, int index, int peer) {
    struct sl_program_port port = {.value = b->root[value], .index = index, .peer = peer};
    for (int64_t i = 0; i < list->count; i++)
        if (list->at[i].value == port.value && list->at[i].peer == peer)
            return;
    if (find_operand(b, value, &port.operand))
        SL_PUSH(list, port);
}

static struct sl_ports freeze(struct sl_build *b, port_list *list) {
    struct sl_ports ports = {(int)list->count, sl_vec_freeze(&b->program->arena, list->at,
                                                             list->count, sizeof *list->at)};
    SL_VEC_FREE(list);
    return ports;
}

static void edge_ports(struct sl_build *b) {
    const struct sl_graph *graph = b->graph;
    port_list lists[4] = {0}; /* in this order: recv_act, send_act, recv_grad, send_grad */
    for (int64_t n = 0; n < graph->nodes.count; n++) {
        const struct sl_node *node = &graph->nodes.at[n];
        for (int i = 0; i < node->in_count && !sl_pass_build_is_view(b, (int)n); i++) {
            if (node->in[i] < 0)
                continue;
            int root = b->root[node->in[i]];
            const struct sl_value *v = sl_graph_value(graph, root);
            if (v->kind != SL_VALUE_NODE)
                continue;
            bool grad = graph->differentiated && v->node >= graph->forward_count;
            bool reads = sl_pass_build_own(b, (int)n), makes = sl_pass_build_own(b, v->node);
            if (reads && !makes)
                add_port(b, &lists[grad ? 2 : 0], root, -1, b->stage[v->node]);
            if (makes && !reads)
                add_port(b, &lists[grad ? 3 : 1], root, -1, b->stage[n]);
        }
    }
    b->program->recv_act = freeze(b, &lists[0]);
    b->program->send_act = freeze(b, &lists[1]);
    b->program->recv_grad = freeze(b, &lists[2]);
    b->program->send_grad = freeze(b, &lists[3]);
}

void sl_pass_build_ports(struct sl_build *b) {
    const struct sl_graph *graph = b->graph;
    port_list inputs = {0}, seeds = {0}, losses = {0}, outputs = {0};
    for (int64_t i = 0; i < graph->inputs.count; i++)
        add_port(b, &inputs, graph->inputs.at[i].value, (int)i, -1);
    for (int64_t i = 0; i < graph->losses.count; i++) {
        if (graph->losses.at[i].seed >= 0)
            add_port(b, &seeds, graph->losses.at[i].seed, (int)i, -1);
        if (sl_pass_build_own_value(b, graph->losses.at[i].value))
            add_port(b, &losses, graph->losses.at[i].value, (int)i, -1);
    }
    for (int64_t i = 0; i < graph->outputs.count && !graph->differentiated; i++)
        if (sl_pass_build_own_value(b, graph->outputs.at[i].value))
            add_port(b, &outputs, graph->outputs.at[i].value, (int)i, -1);
    b->program->inputs = freeze(b, &inputs);
    b->program->seeds = freeze(b, &seeds);
    b->program->losses = freeze(b, &losses);
    b->program->outputs = freeze(b, &outputs);
    edge_ports(b);
}
