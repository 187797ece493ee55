/* From a differentiated graph to a problem: bytes, tensors, ties, and times by roofline or profile.
 *
 * Roofline: an op takes its overhead plus the longer of two times. One is for computing:
 * products at the peak of the format times the device's efficiency, everything else at the fp32
 * peak. The other is for moving its bytes. */
#include "search/problem.h"

#include "base/vec.h"
#include "graph/blocks.h"
#include "graph/model.h"
#include "pass/program.h"
#include "search/problem_shards.h"
#include "search/roofline.h"

#include <math.h>
#include <string.h>

/* Bytes per element and parameter. fp16 needs 20 bytes per parameter with adam, and 24 with a
 * second version, as in PipeDream-2BW's code. */
const struct sl_precision sl_search_precisions[] = {
    {"bf16", "bf16 products, fp32 weights", SL_MATH_BF16, 2, 4, 6, 2, false},
    {"fp16", "fp16 products, fp32 weights", SL_MATH_FP16, 2, 4, 6, 2, false},
    {"fp32", "fp32 throughout", SL_MATH_FP32, 4, 4, 4, 0, true},
};
const int sl_search_precision_count = SL_COUNT(sl_search_precisions);

const struct sl_precision *sl_search_precision_find(const char *name) {
    for (int i = 0; i < sl_search_precision_count; i++)
        if (strcmp(sl_search_precisions[i].name, name) == 0)
            return &sl_search_precisions[i];
    return NULL;
}

double sl_search_problem_tokens(const struct sl_problem *p, const char *schedule) {
    for (int i = 0; i < p->staleness_count; i++)
        if (strcmp(p->staleness[i].schedule, schedule) == 0)
            return p->staleness[i].tokens;
    return 1;
}

struct builder {
    const struct sl_problem_spec *spec;
    const struct sl_graph *graph;
    const struct sl_precision *precision;
    struct sl_arena *arena;
    struct sl_problem *p;
    int *unit_of;  /* [forward node] its unit */
    int *block_of; /* [forward node] as in sl_unit */
    int *source;   /* [value] the value whose memory it uses */
    struct sl_unit *units;
    int *fine_of; /* [forward node] its unit in a profile; the units of a problem are unions of
                  * these */
    int fine_count;
};

static int node_unit(const struct builder *b, const struct sl_node *node, int64_t n) {
    return b->unit_of[node->of < 0 ? n : node->of];
}

static double value_bytes(const struct builder *b, int value) {
    return (double)sl_graph_shape_numel(&sl_graph_value(b->graph, value)->shape, 1) *
           b->precision->element;
}

/* ---- units ---- */

static void fill_units(struct builder *b, int count) {
    const struct sl_graph *graph = b->graph;
    int *sizes = SL_NEW(b->arena, int, count);
    b->units = SL_NEW(b->arena, struct sl_unit, count);
    for (int n = 0; n < graph->forward_count; n++)
        sizes[b->unit_of[n]]++;
    for (int u = 0; u < count; u++)
        b->units[u].nodes = SL_NEW(b->arena, int, sizes[u]);
    for (int n = 0; n < graph->forward_count; n++) {
        struct sl_unit *unit = &b->units[b->unit_of[n]];
        ((int *)(uintptr_t)unit->nodes)[unit->node_count++] = n;
        for (int i = 0; i < graph->nodes.at[n].in_count; i++) {
            int in = graph->nodes.at[n].in[i];
            unit->reads_data |= in >= 0 && sl_graph_value(graph, in)->kind == SL_VALUE_INPUT;
        }
        unit->back |= graph->nodes.at[n].back;
        unit->trains |= graph->nodes.at[n].trains;
    }
    for (int u = 0; u < count; u++) {
        const struct sl_node *node = &graph->nodes.at[b->units[u].nodes[0]];
        b->units[u].block = b->block_of[b->units[u].nodes[0]];
        b->units[u].name = sl_arena_printf(b->arena, "%s%s%s", node->scope, *node->scope ? "." : "",
                                           node->op->name);
    }
}

/* Sums weights, gradients (one accumulator per use) and optimizer state of each unit. */
static void fill_params(struct builder *b) {
    const struct sl_graph *graph = b->graph;
    int tensors = b->spec->optim ? b->spec->optim->row->state_count : 0;
    int last = -1, last_unit = -1;
    SL_VEC(struct sl_unit_tie) ties = {0};
    for (int64_t g = 0; g < graph->grads.count; g++) {
        const struct sl_param_grad *grad = &graph->grads.at[g];
        const struct sl_param *param = &graph->params.at[grad->param];
        int64_t numel = sl_graph_shape_numel(&graph->values.at[param->value].shape, 1);
        int u = b->unit_of[grad->node];
        b->units[u].grads += numel * b->precision->grad;
        if (grad->param == last && u == last_unit)
            continue;
        b->units[u].params += numel * b->precision->weight;
        b->units[u].state += numel * (4 * tensors + b->precision->extra);
        if (grad->param == last) {
            struct sl_unit_tie *tie = ties.count ? &ties.at[ties.count - 1] : NULL;
            if (!tie || strcmp(tie->name, param->name) != 0) {
                SL_PUSH(&ties, ((struct sl_unit_tie){.name = param->name,
                                                     .bytes = numel * b->precision->weight}));
                tie = &ties.at[ties.count - 1];
                int *units = SL_NEW(b->arena, int, graph->grads.count - g + 1);
                units[tie->count++] = last_unit;
                tie->units = units;
            }
            ((int *)(uintptr_t)tie->units)[tie->count++] = u;
        }
        last = grad->param;
        last_unit = u;
    }
    b->p->tie_count = (int)ties.count;
    b->p->ties = SL_VEC_FREEZE(&ties, b->arena);
    SL_VEC_FREE(&ties);
}

/* Sums frozen parameters. A unit holds each of them once. */
static void fill_fixed(struct builder *b) {
    const struct sl_graph *graph = b->graph;
    /* [param] last unit that counted it, + 1 */
    int *last = SL_NEW(b->arena, int, graph->params.count + 1);
    for (int n = 0; n < graph->forward_count; n++)
        for (int i = 0; i < graph->nodes.at[n].in_count; i++) {
            int in = graph->nodes.at[n].in[i], u = b->unit_of[n];
            const struct sl_value *v = in < 0 ? NULL : sl_graph_value(graph, in);
            if (!v || v->kind != SL_VALUE_PARAM || !graph->params.at[v->index].frozen ||
                last[v->index] == u + 1)
                continue;
            last[v->index] = u + 1;
            b->p->freezes = true;
            b->units[u].fixed += sl_graph_shape_numel(&v->shape, 1) * b->precision->weight;
        }
}

/* Stash: the forward values that the backward pass reads, counted at the unit that makes them.
 * Workspace: that of the largest op. */
static void fill_stash(struct builder *b) {
    const struct sl_graph *graph = b->graph;
    bool *kept = SL_NEW(b->arena, bool, graph->values.count);
    for (int64_t n = graph->forward_count; n < graph->nodes.count; n++) {
        const struct sl_node *node = &graph->nodes.at[n];
        for (int i = 0; i < node->in_count; i++)
            if (node->in[i] >= 0)
                kept[b->source[node->in[i]]] = true;
    }
    for (int64_t n = 0; n < graph->nodes.count; n++) {
        const struct sl_node *node = &graph->nodes.at[n];
        struct sl_unit *unit = &b->units[node_unit(b, node, n)];
        double all = 0;
        for (int i = 0; i < node->out_count; i++) {
            double bytes = value_bytes(b, node->out[i]);
            if (n < graph->forward_count && kept[node->out[i]] && !node->op->is_view)
                unit->stash += bytes;
            /* gradients of weights do not count */
            if (sl_graph_value(graph, node->out[i])->shape.batch)
                all += bytes;
        }
        if (unit->work < 2 * all && !node->op->is_view)
            unit->work = 2 * all;
    }
}

/* ---- tensors ---- */

static void add_reader(struct sl_arena *arena, struct sl_search_tensor *tensor, int unit) {
    int *to = (int *)(uintptr_t)tensor->to, at = tensor->to_count;
    for (int i = 0; i < at; i++)
        if (to[i] == unit)
            return;
    if ((at & (at - 1)) == 0) { /* the list is full: doubles it */
        int *more = SL_NEW(arena, int, at ? 2 * at : 1);
        if (at)
            memcpy(more, to, sizeof *to * (size_t)at);
        tensor->to = to = more;
    }
    for (; at > 0 && to[at - 1] > unit; at--)
        to[at] = to[at - 1];
    to[at] = unit;
    tensor->to_count++;
}

static void fill_tensors(struct builder *b) {
    const struct sl_graph *graph = b->graph;
    int *tensor_of = SL_NEW(b->arena, int, graph->values.count);
    SL_VEC(struct sl_search_tensor) tensors = {0};
    for (int n = 0; n < graph->forward_count; n++)
        for (int i = 0; i < graph->nodes.at[n].in_count; i++) {
            int in = graph->nodes.at[n].in[i];
            int root = in < 0 ? -1 : b->source[in];
            const struct sl_value *v = root < 0 ? NULL : sl_graph_value(graph, root);
            if (!v || v->kind != SL_VALUE_NODE || b->unit_of[v->node] == b->unit_of[n])
                continue;
            if (!tensor_of[root]) {
                SL_PUSH(&tensors,
                        ((struct sl_search_tensor){.from = b->unit_of[v->node],
                                                   .sample_bytes = (int64_t)value_bytes(b, root)}));
                tensor_of[root] = (int)tensors.count;
            }
            struct sl_search_tensor *tensor = &tensors.at[tensor_of[root] - 1];
            tensor->whole |= sl_graph_value(graph, in)->shape.batch != 1 || v->shape.batch != 1;
            add_reader(b->arena, tensor, b->unit_of[n]);
        }
    b->p->tensor_count = (int)tensors.count;
    b->p->tensors = SL_VEC_FREEZE(&tensors, b->arena);
    SL_VEC_FREE(&tensors);
}

void sl_search_problem_finish(struct sl_arena *arena, struct sl_problem *p) {
    SL_VEC(struct sl_dag_edge) edges = {0};
    for (int t = 0; t < p->tensor_count; t++)
        for (int i = 0; i < p->tensors[t].to_count; i++)
            SL_PUSH(&edges, ((struct sl_dag_edge){p->tensors[t].from, p->tensors[t].to[i]}));
    p->dag = sl_graph_dag_build(arena, p->unit_count, edges.at, (int)edges.count);
    SL_VEC_FREE(&edges);
}

/* ---- times ---- */

struct signature { /* identifies a measured unit */
    uint64_t own, whole;
    bool back, trains;
};

static int64_t step_ns(const struct builder *b, const struct sl_unit *unit,
                       const struct sl_cost_device_kind *kind) {
    const struct sl_cost *cost = b->spec->cost;
    if (cost && cost->step_bytes_per_s > 0)
        return (int64_t)llround(1e9 * (double)unit->params / cost->step_bytes_per_s);
    double moved = 2.0 * (double)unit->params + (double)unit->grads + 2.0 * (double)unit->state;
    return (int64_t)llround(1e9 * moved / kind->stream);
}

/* Groups the units that share host time: those of a repeated block; other units are alone. */
static const int *groups_of(const struct builder *b) {
    int *group = SL_NEW(b->arena, int, b->graph->forward_count + 1);
    /* [block] its first unit + 1 */
    int *first = SL_NEW(b->arena, int, b->graph->forward_count + 1);
    for (int n = 0; n < b->graph->forward_count; n++) {
        int block = b->block_of[n];
        bool repeated = block >= 0 && block < b->graph->forward_count;
        if (repeated && !first[block])
            first[block] = b->unit_of[n] + 1;
        group[n] = repeated ? first[block] - 1 : b->unit_of[n];
    }
    return group;
}

/* Finds the row of a measured unit. A profile of the model without frozen parameters will do too:
 * passes that the unit lacks are left out. */
static bool find_row(const struct builder *b, const struct signature *of, int64_t samples,
                     struct sl_cost_row *out) {
    if (sl_cost_find(b->spec->cost, of->own, samples, out))
        return true;
    if (!sl_cost_find(b->spec->cost, of->whole, samples, out))
        return false;
    out->i = of->back ? out->i : 0;
    out->w = of->trains ? out->w : 0;
    return true;
}

/* Looks up the time of a unit, which is the sum over its measured units. */
static sl_err look_up(struct builder *b, const struct signature *signature, int64_t samples,
                      struct sl_unit_time *out) {
    bool *seen = SL_NEW(b->arena, bool, b->fine_count + 1);
    memset(out, 0, sizeof *out * (size_t)b->p->unit_count);
    for (int n = 0; n < b->graph->forward_count; n++) {
        struct sl_cost_row row;
        if (seen[b->fine_of[n]])
            continue;
        seen[b->fine_of[n]] = true;
        struct sl_unit_time *unit = &out[b->unit_of[n]];
        if (!find_row(b, &signature[b->fine_of[n]], samples, &row))
            return sl_fail(SL_ERR_REFUSED,
                           "the cost table (of %s) has no row for unit %s; measure this model: "
                           "sluice profile %s -o x.cost",
                           b->spec->cost->model, b->units[b->unit_of[n]].name, b->graph->name);
        unit->f += row.f;
        unit->i += row.i;
        unit->w += row.w;
    }
    return SL_OK;
}

static struct signature *sign_units(struct builder *b) {
    int *nodes = SL_NEW(b->arena, int, b->graph->forward_count + 1);
    int *at = SL_NEW(b->arena, int, b->fine_count + 2);
    struct signature *signature = SL_NEW(b->arena, struct signature, b->fine_count + 1);
    for (int n = 0; n < b->graph->forward_count; n++)
        at[b->fine_of[n] + 2]++;
    for (int u = 0; u < b->fine_count; u++)
        at[u + 2] += at[u + 1];
    for (int n = 0; n < b->graph->forward_count; n++)
        nodes[at[b->fine_of[n] + 1]++] = n;
    for (int u = 0; u < b->fine_count; u++) {
        signature[u].own = sl_cost_signature(b->graph, nodes + at[u], at[u + 1] - at[u]);
        signature[u].whole = sl_cost_signature_whole(b->graph, nodes + at[u], at[u + 1] - at[u]);
        for (int i = at[u]; i < at[u + 1]; i++) {
            signature[u].back |= b->graph->nodes.at[nodes[i]].back;
            signature[u].trains |= b->graph->nodes.at[nodes[i]].trains;
        }
    }
    return signature;
}

static sl_err fill_times(struct builder *b) {
    struct sl_problem *p = b->p;
    int kinds = p->machine->kind_count;
    const struct sl_roofline roofline = {b->graph, b->precision, p, b->unit_of, groups_of(b)};
    struct sl_unit_time *times =
        SL_NEW(b->arena, struct sl_unit_time, (int64_t)p->size_count * kinds * p->unit_count);
    p->times = times;
    struct signature *signature = b->spec->cost ? sign_units(b) : NULL;
    for (int s = 0; s < p->size_count; s++)
        for (int k = 0; k < kinds; k++, times += p->unit_count) {
            if (b->spec->cost)
                SL_TRY(look_up(b, signature, p->sizes[s], times));
            else
                sl_search_roofline(b->arena, &roofline, p->sizes[s], &p->machine->kinds[k], times);
            for (int u = 0; u < p->unit_count; u++)
                times[u].step = step_ns(b, &b->units[u], &p->machine->kinds[k]);
        }
    return SL_OK;
}

/* Chooses micro-batch sizes: divisors of the batch, all of them if there are few, else the powers
 * of two. */
static void fill_sizes(struct builder *b) {
    enum { FEW = 12 };
    struct sl_problem *p = b->p;
    int64_t batch = p->batch, *sizes = SL_NEW(b->arena, int64_t, 64);
    int count = 0, divisors = 0;
    for (int64_t d = 1; d <= batch && divisors <= FEW; d++)
        divisors += batch % d == 0;
    for (int64_t d = 1; d <= batch && count<63; d = divisors> FEW ? 2 * d : d + 1)
        if (batch % d == 0)
            sizes[count++] = d;
    if (b->spec->micro_size) {
        sizes[0] = b->spec->micro_size;
        count = 1;
    }
    p->sizes = b->spec->sizes ? b->spec->sizes : sizes;
    p->size_count = b->spec->sizes ? b->spec->size_count : count;
}

/* The time of planners grows with the square of the number of units. So in a larger model, runs of
 * its node order become one unit. */
enum { UNITS_MAX = 4096 };

/* Finds the units: groups of nodes that no stage border may divide; with whole_layers also repeated
 * blocks. */
static void find_units(struct builder *b) {
    const struct sl_problem_spec *spec = b->spec;
    int nodes = spec->graph->forward_count, *keep, *first;
    const int *kept;
    struct sl_blocks blocks;
    b->block_of = SL_NEW(b->arena, int, nodes + 1);
    sl_graph_blocks(b->arena, spec->graph, &blocks);
    sl_graph_blocks_keep(&blocks, nodes, b->block_of);
    b->unit_of = SL_NEW(b->arena, int, nodes + 1);
    b->fine_of = SL_NEW(b->arena, int, nodes + 1);
    b->fine_count = sl_pass_units(b->arena, spec->graph, spec->has_kernel, b->fine_of);
    kept = spec->shards         ? sl_search_shards_keep(b->arena, spec, b->block_of)
           : spec->whole_layers ? b->block_of
                                : NULL;
    b->p->unit_count =
        sl_pass_units_kept(b->arena, spec->graph, spec->has_kernel, kept, b->unit_of);
    if (b->p->unit_count <= UNITS_MAX)
        return;
    keep = SL_NEW(b->arena, int, nodes + 1);
    first = SL_NEW(b->arena, int, nodes + 1);
    for (int n = nodes - 1; n >= 0; n--)
        first[b->unit_of[n]] = n;
    for (int n = 0; n < nodes; n++)
        keep[n] = (int)((int64_t)first[b->unit_of[n]] * UNITS_MAX / nodes);
    b->p->unit_count =
        sl_pass_units_kept(b->arena, spec->graph, spec->has_kernel, keep, b->unit_of);
}

sl_err sl_search_problem_build(struct sl_arena *arena, const struct sl_problem_spec *spec,
                               const struct sl_problem **out) {
    struct sl_problem *p = SL_NEW(arena, struct sl_problem, 1);
    struct builder b = {.spec = spec, .graph = spec->graph, .arena = arena, .p = p};
    b.precision = spec->precision ? spec->precision : sl_search_precision_find("fp32");
    *p = (struct sl_problem){
        .model = sl_arena_dup(arena, spec->graph->name, strlen(spec->graph->name)),
        .graph_hash = sl_graph_model_hash(spec->graph),
        .sizes_text = sl_graph_sizes_text(arena, spec->graph),
        .graph_nodes = spec->graph->forward_count,
        .machine = spec->machine,
        .batch = spec->batch,
        .estimated = !spec->cost,
        .cost = spec->cost,
        .action_ns = spec->cost ? spec->cost->action_ns : 0,
        .recompute_ratio = spec->cost ? 1e-6 * spec->cost->recompute : 0,
        .cold = spec->cost ? spec->cost->cold : (struct sl_cold){0},
        .tempo = spec->cost ? spec->cost->tempo : (struct sl_tempo){0},
        .version_bytes_per_s = spec->cost ? spec->cost->version_bytes_per_s : 0,
        .copy_bytes_per_s = spec->cost ? spec->cost->link_bytes_per_s : 0,
        .straight = spec->straight,
        .uniform = spec->uniform,
        .shards = spec->shards ? spec->shards->count : 1,
        .zero1 = spec->zero1,
        .team = spec->shards ? spec->shards->link : (struct sl_team_link){0},
        .whole_of = spec->shards ? spec->shards->whole_of : NULL,
        .recompute = spec->recompute,
        .staleness = spec->staleness,
        .staleness_count = spec->staleness_count,
        .precision = b.precision->name,
        .exact_bytes = b.precision->exact_bytes};
    b.source = sl_graph_sources(arena, spec->graph);
    find_units(&b);
    fill_units(&b, p->unit_count);
    fill_params(&b);
    fill_fixed(&b);
    fill_stash(&b);
    fill_tensors(&b);
    p->units = b.units;
    sl_search_problem_finish(arena, p);
    int64_t *memory = SL_NEW(arena, int64_t, p->machine->device_count);
    for (int d = 0; d < p->machine->device_count; d++)
        memory[d] =
            spec->memory ? spec->memory : p->machine->kinds[p->machine->kind_of[d]].memory_bytes;
    p->memory = memory;
    fill_sizes(&b);
    SL_TRY(fill_times(&b));
    if (spec->shards)
        sl_search_shards_fill(arena, spec, b.unit_of, p);
    *out = p;
    return SL_OK;
}
