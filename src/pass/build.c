/* Builds a program: selects nodes, orders them, emits instructions. */
#include "pass/build.h"

#include <stdlib.h>
#include <string.h>

bool sl_pass_build_own(const struct sl_build *b, int node) {
    return b->stage[node] == b->spec->stage;
}

bool sl_pass_build_is_view(const struct sl_build *b, int node) {
    const struct sl_node *n = &b->graph->nodes.at[node];
    return n->op->is_view && b->root[n->out[0]] != n->out[0];
}

bool sl_pass_build_own_value(const struct sl_build *b, int value) {
    const struct sl_value *v = sl_graph_value(b->graph, value);
    return v->kind == SL_VALUE_NODE && sl_pass_build_own(b, v->node);
}

static struct sl_operand make_operand(const struct sl_build *b, int value) {
    struct sl_operand operand = {.value = -1};
    if (value < 0)
        return operand;
    const struct sl_value *v = sl_graph_value(b->graph, value);
    operand.value = b->root[value];
    operand.dtype = sl_pass_build_dtype(b, value);
    operand.shape = sl_graph_shape_at(&v->shape, b->spec->samples);
    operand.numel = sl_graph_shape_numel(&operand.shape, 1);
    operand.row = b->part_row[value];
    operand.run = b->part_run[value];
    operand.within = b->part_at[value] * sl_pass_dtype_bytes(operand.dtype);
    return operand;
}

static void emit(struct sl_build *b, int index) {
    const struct sl_node *node = &b->graph->nodes.at[index];
    if (sl_pass_build_is_view(b, index) || b->gone[index])
        return;
    struct sl_instr instr = {
        .op = node->op,
        .kernel = node->op->name,
        .attr = node->attr,
        .node = index,
        .in_count = node->in_count,
        .out_count = node->out_count,
        .in = SL_NEW(&b->program->arena, struct sl_operand, node->in_count),
        .out = SL_NEW(&b->program->arena, struct sl_operand, node->out_count),
        .pass = b->early[index] ? SL_PASS_I : node->pass,
        .flops = sl_graph_node_flops(b->graph, node, b->spec->samples),
    };
    for (int i = 0; i < node->in_count; i++)
        instr.in[i] = make_operand(b, node->in[i]);
    for (int i = 0; i < node->out_count; i++)
        instr.out[i] = make_operand(b, node->out[i]);
    SL_PUSH(&b->instrs, instr);
}

/* Emits a copy of `from` to a fixed place (state or gradient). */
static void emit_copy(struct sl_build *b, int from, struct sl_operand to, enum sl_graph_pass pass) {
    const struct sl_op *identity = b->graph->find_op(SL_STR("identity"));
    struct sl_instr instr = {
        .op = identity,
        .kernel = "identity",
        .node = -1,
        .in_count = 1,
        .out_count = 1,
        .in = SL_NEW(&b->program->arena, struct sl_operand, 1),
        .out = SL_NEW(&b->program->arena, struct sl_operand, 1),
        .pass = pass,
        .accumulate = to.space == SL_SPACE_GRAD,
    };
    SL_ASSERT(identity);
    instr.in[0] = make_operand(b, from);
    instr.out[0] = to;
    SL_PUSH(&b->instrs, instr);
}

static struct sl_operand fixed_place(const struct sl_build *b, enum sl_space space, int64_t offset,
                                     int value) {
    struct sl_operand operand = make_operand(b, value);
    operand.dtype = SL_FLOAT;
    operand.space = space;
    operand.offset = offset;
    operand.value = -1;
    return operand;
}

/* Emits the copies of new values into the states, after the forward pass. */
static void emit_updates(struct sl_build *b) {
    for (int64_t i = 0; i < b->graph->updates.count; i++) {
        const struct sl_update *update = &b->graph->updates.at[i];
        if (!sl_pass_build_own_value(b, update->value))
            continue;
        for (int s = 0; s < b->program->state_count; s++)
            if (b->program->states[s].param == update->state)
                emit_copy(
                    b, update->value,
                    fixed_place(b, SL_SPACE_STATE, b->program->states[s].offset, update->value),
                    SL_PASS_F);
    }
}

static void count_readers(struct sl_build *b) {
    for (int64_t n = 0; n < b->graph->nodes.count; n++) {
        const struct sl_node *node = &b->graph->nodes.at[n];
        for (int i = 0; i < node->in_count && !sl_pass_build_is_view(b, (int)n); i++)
            if (node->in[i] >= 0)
                b->readers[b->root[node->in[i]]]++;
    }
    for (int64_t i = 0; i < b->graph->grads.count; i++)
        b->readers[b->root[b->graph->grads.at[i].value]]++;
}

/* Lets the instruction that makes a parameter gradient write directly into the accumulator. If the
 * value has other readers (the gradient of `x + p` is dy itself), copies it instead. */
static void emit_grads(struct sl_build *b) {
    for (int u = 0; u < b->program->use_count; u++) {
        const struct sl_program_use *use = &b->program->uses[u];
        int value = b->root[b->graph->grads.at[use->grad].value];
        struct sl_operand place = fixed_place(b, SL_SPACE_GRAD, use->offset, value);
        const struct sl_value *v = sl_graph_value(b->graph, value);
        bool direct = false;
        for (int64_t i = b->instrs.count - 1;
             i >= b->forward_end && sl_pass_build_own_value(b, value) && b->readers[value] == 1;
             i--) {
            struct sl_instr *instr = &b->instrs.at[i];
            if (instr->node != v->node)
                continue;
            direct = v->slot == 0;
            if (direct) {
                instr->out[0] = place;
                instr->accumulate = true;
            }
            break;
        }
        if (!direct)
            emit_copy(b, value, place, SL_PASS_W);
    }
}

/* Marks nodes as early. Gradients are sent at the end of I, even if they depend only on parameters,
 * so their nodes, and all nodes they depend on, must run in I. */
static void mark_early(struct sl_build *b) {
    const struct sl_graph *graph = b->graph;
    for (int64_t n = graph->nodes.count - 1; n >= graph->forward_count; n--) {
        const struct sl_node *node = &graph->nodes.at[n];
        bool own = sl_pass_build_own(b, (int)n);
        for (int i = 0; i < node->in_count && (!own || b->early[n]); i++) {
            const struct sl_value *v = node->in[i] < 0 ? NULL : sl_graph_value(graph, node->in[i]);
            if (v && v->kind == SL_VALUE_NODE && v->node >= graph->forward_count &&
                sl_pass_build_own(b, v->node))
                b->early[v->node] = true;
        }
    }
}

/* Emits the backward nodes in the order of differentiation; in a split program all I come before
 * W. */
static void emit_backward(struct sl_build *b) {
    int64_t nodes = b->graph->nodes.count;
    if (b->spec->split)
        mark_early(b);
    if (b->spec->recompute)
        for (int64_t n = 0; n < b->graph->forward_count; n++)
            if (sl_pass_build_own(b, (int)n))
                emit(b, (int)n);
    b->recompute_end = (int)b->instrs.count;
    for (int64_t n = b->graph->forward_count; n < nodes; n++) {
        bool now = !b->spec->split || b->graph->nodes.at[n].pass == SL_PASS_I || b->early[n];
        if (now && sl_pass_build_own(b, (int)n))
            emit(b, (int)n);
    }
    b->split_at = (int)b->instrs.count;
    for (int64_t n = b->graph->forward_count; b->spec->split && n < nodes; n++)
        if (b->graph->nodes.at[n].pass == SL_PASS_W && !b->early[n] && sl_pass_build_own(b, (int)n))
            emit(b, (int)n);
    emit_grads(b);
    if (!b->spec->split)
        b->split_at = (int)b->instrs.count;
}

/* Is this value a gradient that another stage sends? */
static bool is_received(const struct sl_build *b, int value) {
    const struct sl_value *v = value < 0 ? NULL : sl_graph_value(b->graph, value);
    return v && v->kind == SL_VALUE_NODE && v->node >= b->graph->forward_count &&
           !sl_pass_build_own(b, v->node);
}

/* Returns the first recomputed instruction that needs a received gradient; fusion may have moved it
 * up. */
static int recompute_end(const struct sl_build *b) {
    for (int i = b->forward_end; i < b->recompute_end; i++)
        for (int k = 0; k < b->instrs.at[i].in_count; k++)
            if (is_received(b, b->instrs.at[i].in[k].value))
                return i;
    return b->recompute_end;
}

static void set_phases(struct sl_build *b) {
    struct sl_program *p = b->program;
    int count = (int)b->instrs.count, f = b->forward_end;
    p->end[SL_PHASE_F] = f;
    p->begin[SL_PHASE_R] = f;
    p->end[SL_PHASE_R] = recompute_end(b);
    p->begin[SL_PHASE_B] = f;
    p->end[SL_PHASE_B] = count;
    p->begin[SL_PHASE_I] = f;
    p->end[SL_PHASE_I] = b->split_at;
    p->begin[SL_PHASE_W] = b->split_at;
    p->end[SL_PHASE_W] = count;
}

static void build_instrs(struct sl_build *b) {
    int64_t forward = b->graph->differentiated ? b->graph->forward_count : b->graph->nodes.count;
    for (int64_t n = 0; n < forward; n++)
        if (sl_pass_build_own(b, (int)n))
            emit(b, (int)n);
    emit_updates(b);
    b->forward_end = (int)b->instrs.count;
    b->recompute_end = b->split_at = b->forward_end;
    if (b->graph->differentiated)
        emit_backward(b);
    if (b->spec->has_kernel)
        sl_pass_build_fuse(b);
    set_phases(b);
}

static bool has_backward(const struct sl_build *b) {
    for (int64_t n = b->graph->forward_count; b->graph->differentiated && n < b->graph->nodes.count;
         n++)
        if (sl_pass_build_own(b, (int)n))
            return true;
    return false;
}

static void open_build(struct sl_build *b, const struct sl_program_spec *spec) {
    *b = (struct sl_build){.own = *spec, .graph = spec->graph};
    b->spec = &b->own;
    b->program = calloc(1, sizeof *b->program);
    if (!b->program)
        sl_out_of_memory(sizeof *b->program);
    b->program->graph = spec->graph;
    b->program->samples = spec->samples;
    b->program->dtype = spec->dtype;
    b->program->split = spec->split;
    b->stage = SL_NEW(&b->scratch, int, spec->graph->nodes.count);
    b->root = SL_NEW(&b->scratch, int, spec->graph->values.count);
    b->part_row = SL_NEW(&b->scratch, int64_t, spec->graph->values.count);
    b->part_run = SL_NEW(&b->scratch, int64_t, spec->graph->values.count);
    b->part_at = SL_NEW(&b->scratch, int64_t, spec->graph->values.count);
    b->gone = SL_NEW(&b->scratch, bool, spec->graph->nodes.count);
    b->early = SL_NEW(&b->scratch, bool, spec->graph->nodes.count);
    b->again = SL_NEW(&b->scratch, bool, spec->graph->values.count);
    b->readers = SL_NEW(&b->scratch, int, spec->graph->values.count);
    b->item_f = SL_NEW(&b->scratch, int, spec->graph->values.count);
    b->item_b = SL_NEW(&b->scratch, int, spec->graph->values.count);
    sl_pass_place(spec->graph, spec->stage_of, b->stage);
    b->program->recompute = b->own.recompute = spec->recompute && has_backward(b);
}

/* Refuses stages whose repeated forward pass would read a changed state: later micro-batches may
 * have changed it. Only the node that updates the state may read it; batchnorm does, and its result
 * does not depend on the state. */
static sl_err check_states(const struct sl_program_spec *spec) {
    const struct sl_graph *graph = spec->graph;
    for (int64_t u = 0; spec->recompute && u < graph->updates.count; u++) {
        int state = graph->states.at[graph->updates.at[u].state].value;
        int owner = graph->values.at[graph->updates.at[u].value].node;
        for (int n = 0; n < graph->forward_count; n++)
            for (int i = 0; n != owner && i < graph->nodes.at[n].in_count; i++)
                if (graph->nodes.at[n].in[i] == state)
                    return sl_fail(SL_ERR_REFUSED,
                                   "cannot recompute: '%s' reads the state '%s', which changes "
                                   "between a forward pass and its repetition. Train without "
                                   "--recompute.",
                                   graph->nodes.at[n].op->name,
                                   graph->states.at[graph->updates.at[u].state].name);
    }
    return SL_OK;
}

sl_err sl_pass_program_build(const struct sl_program_spec *spec, struct sl_program **out) {
    struct sl_build b;
    SL_ASSERT(spec->graph->checked);
    SL_TRY(check_states(spec));
    open_build(&b, spec);
    sl_pass_build_views(&b);
    count_readers(&b);
    sl_pass_build_params(&b);
    build_instrs(&b);
    sl_pass_build_items(&b);
    sl_pass_build_share(&b);
    sl_pass_build_layout(&b);
    sl_pass_build_ports(&b);
    b.program->instr_count = (int)b.instrs.count;
    b.program->instrs = SL_VEC_FREEZE(&b.instrs, &b.program->arena);
    SL_VEC_FREE(&b.instrs);
    SL_VEC_FREE(&b.items);
    SL_VEC_FREE(&b.fused);
    sl_arena_free(&b.scratch);
    sl_err err = sl_pass_program_check(b.program);
    if (err != SL_OK)
        sl_pass_program_close(b.program);
    else
        *out = b.program;
    return err;
}

static int glue_root(const int *group, int node) {
    while (group[node] != node)
        node = group[node];
    return node;
}

void sl_pass_glue(const struct sl_graph *graph, bool (*has_kernel)(const char *name), int *group) {
    struct sl_build b;
    struct sl_program_spec spec = {.graph = graph, .samples = 1, .has_kernel = has_kernel};
    for (int n = 0; n < graph->forward_count; n++)
        group[n] = n;
    open_build(&b, &spec);
    sl_pass_build_views(&b);
    count_readers(&b);
    sl_pass_build_params(&b);
    build_instrs(&b);
    for (int64_t i = 0; i < b.fused.count; i++) {
        const struct sl_node *first = &graph->nodes.at[b.fused.at[i].first];
        const struct sl_node *second = &graph->nodes.at[b.fused.at[i].second];
        int x = glue_root(group, first->of < 0 ? b.fused.at[i].first : first->of);
        int y = glue_root(group, second->of < 0 ? b.fused.at[i].second : second->of);
        group[x > y ? x : y] = x < y ? x : y;
    }
    for (int n = 0; n < graph->forward_count; n++)
        group[n] = glue_root(group, n);
    SL_VEC_FREE(&b.instrs);
    SL_VEC_FREE(&b.fused);
    sl_arena_free(&b.scratch);
    sl_pass_program_close(b.program);
}

void sl_pass_program_close(struct sl_program *program) {
    if (!program)
        return;
    sl_arena_free(&program->arena);
    free(program);
}
