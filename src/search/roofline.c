/* Computes times of units from the constants of a kind of device (roofline.h). */
#include "search/roofline.h"

#include "search/problem_shards.h"

#include <math.h>
#include <string.h>

/* Time of a group in ns: of the device, and of the host, which may run ahead of it within a
 * pass. */
struct busy {
    double device, host;
};

static bool is_product(const struct sl_op *op) {
    return op->layer != SL_LAYER_NONE && op->layer != SL_LAYER_EMBED;
}

/* Returns the number of elements that the op reads and writes. */
static double elements_of(const struct sl_op *op, const struct sl_op_view *view) {
    double count = 0;
    if (op->bytes)
        return op->bytes(view) / 4;
    for (int i = 0; i < view->in_count; i++)
        count += view->present[i] ? (double)sl_graph_shape_numel(&view->in[i], 1) : 0;
    for (int i = 0; i < view->out_count; i++)
        count += (double)sl_graph_shape_numel(&view->out[i], 1);
    return count;
}

/* Returns the number of scores that attention computes. A product takes 4 operations per score and
 * element of a head; backward passes have more operations and so count as more scores. */
static double scores_of(const struct sl_op *op, const struct sl_op_view *view, double flops) {
    const struct sl_shape *head = &view->in[0];
    if (op->layer != SL_LAYER_ATTENTION || !head->rank)
        return 0;
    return flops / (4.0 * (double)head->dim[head->rank - 1]);
}

static double device_ns(const struct sl_roofline *in, const struct sl_node *node,
                        const struct sl_cost_device_kind *kind, int64_t samples) {
    const struct sl_op *op = node->op;
    struct sl_op_view view;
    if (op->is_view)
        return 0;
    sl_graph_view(in->graph, node, samples, &view);
    if (sl_search_shards_meet(node))
        return sl_search_collective_ns(in->problem, (double)sl_graph_shape_numel(&view.out[0], 1) *
                                                        in->precision->element);
    double stated = op->seconds ? op->seconds(&view) : -1;
    if (stated >= 0)
        return 1e9 * stated;
    bool product = is_product(op);
    double flops = op->flops ? op->flops(&view) : 0;
    double peak = sl_cost_kind_flops(kind, product ? in->precision->math : SL_MATH_FP32);
    double compute = (flops + (product && flops > 0 ? kind->half : 0)) / peak;
    double move = elements_of(op, &view) * in->precision->element / kind->stream;
    double scores = scores_of(op, &view, flops) * kind->score_bytes / kind->stream;
    return (double)kind->overhead_ns + 1e9 * ((compute > move ? compute : move) + scores);
}

static double host_ns(const struct sl_roofline *in, const struct sl_node *node,
                      const struct sl_cost_device_kind *kind) {
    if (node->op->is_view)
        return 0;
    double meet =
        sl_search_shards_meet(node) ? (double)kind->meet_ns * (in->problem->shards - 1) : 0;
    return (double)kind->launch_ns + meet;
}

/* Returns the factor by which a group takes longer because the host needs more time than the
 * device. */
static double stretch(const struct busy *b) {
    return b->device > 0 && b->host > b->device ? b->host / b->device : 1;
}

void sl_search_roofline(struct sl_arena *arena, const struct sl_roofline *in, int64_t samples,
                        const struct sl_cost_device_kind *kind, struct sl_unit_time *out) {
    int units = in->problem->unit_count;
    double(*sum)[3] = sl_arena_alloc(arena, (int64_t)sizeof *sum * units);
    struct busy(*group)[2] = sl_arena_alloc(arena, (int64_t)sizeof *group * units);
    int *group_of = SL_NEW(arena, int, units);
    for (int64_t n = 0; n < in->graph->nodes.count; n++) {
        const struct sl_node *node = &in->graph->nodes.at[n];
        int64_t of = node->of < 0 ? n : node->of;
        double ns = device_ns(in, node, kind, samples);
        struct busy *at = &group[in->group_of[of]][node->pass != SL_PASS_F];
        sum[in->unit_of[of]][node->pass] += ns;
        group_of[in->unit_of[of]] = in->group_of[of];
        at->device += ns;
        at->host += host_ns(in, node, kind);
    }
    for (int u = 0; u < units; u++) {
        double f = stretch(&group[group_of[u]][0]), b = stretch(&group[group_of[u]][1]);
        out[u] = (struct sl_unit_time){(int64_t)llround(f * sum[u][SL_PASS_F]),
                                       (int64_t)llround(b * sum[u][SL_PASS_I]),
                                       (int64_t)llround(b * sum[u][SL_PASS_W]), 0};
    }
}
