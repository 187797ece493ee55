/* An even cut: divides the nodes, in graph order, into runs so that the costliest run is as cheap
 * as possible. */
#include "plan/model.h"

#include "graph/model.h"
#include "pass/program.h"
#include "plan/cut.h"

#include <stdlib.h>

/* Returns the flops of each forward node with its gradient, per sample. */
static double *node_costs(const struct sl_graph *graph, struct sl_arena *arena) {
    double *cost = SL_NEW(arena, double, graph->forward_count);
    for (int64_t n = 0; n < graph->nodes.count; n++) {
        const struct sl_node *node = &graph->nodes.at[n];
        cost[node->of < 0 ? n : node->of] += 1 + sl_graph_node_flops(graph, node, 1);
    }
    return cost;
}

/* Fills border[n]: may a stage begin at node n? Not inside a group of fused nodes, and not at a
 * view, which is free only in the stage of its source. */
static bool *find_borders(const struct sl_graph *graph, bool (*has_kernel)(const char *name),
                          struct sl_arena *arena) {
    int count = graph->forward_count;
    bool *border = SL_NEW(arena, bool, count + 1);
    int *group = SL_NEW(arena, int, count + 1), *last = SL_NEW(arena, int, count + 1);
    sl_pass_glue(graph, has_kernel, group);
    for (int n = 0; n < count; n++)
        last[group[n]] = n;
    for (int n = 0, open_until = 0; n < count; n++) {
        border[n] =
            n > open_until && !graph->nodes.at[n].op->is_view && !graph->nodes.at[n].op->is_split;
        if (last[group[n]] > open_until)
            open_until = last[group[n]];
    }
    return border;
}

struct sl_plan_cut_costs sl_plan_cut_costs(const struct sl_graph *graph,
                                           bool (*has_kernel)(const char *name),
                                           struct sl_arena *arena) {
    return (struct sl_plan_cut_costs){graph, node_costs(graph, arena),
                                      find_borders(graph, has_kernel, arena)};
}

/* Can the nodes be divided into at most `stages` runs of cost at most `limit`? Fills stage_of
 * greedily. */
static bool try_limit(const struct sl_plan_cut_costs *c, double limit, int stages, int *stage_of) {
    const struct sl_graph *graph = c->graph;
    const double *cost = c->cost;
    int stage = 0, start = 0;
    double sum = 0;
    for (int n = 0; n < graph->forward_count; n++) {
        if (n > start && sum + cost[n] > limit && c->border[n]) {
            if (++stage == stages)
                return false;
            sum = 0;
            start = n;
        }
        sum += cost[n];
        stage_of[n] = stage;
    }
    return true;
}

static int count_stages(const struct sl_graph *graph, const int *stage_of) {
    return graph->forward_count ? stage_of[graph->forward_count - 1] + 1 : 0;
}

/* Halves the costliest run that can be cut; the greedy cut may have made fewer runs than
 * requested. */
static bool split_largest(const struct sl_plan_cut_costs *c, int *stage_of) {
    const struct sl_graph *graph = c->graph;
    const double *cost = c->cost;
    int best = -1, count = count_stages(graph, stage_of);
    double best_gain = -1;
    double *sums = calloc((size_t)count + 1, sizeof *sums);
    double left = 0;
    for (int n = 0; n < graph->forward_count; n++)
        sums[stage_of[n]] += cost[n];
    for (int n = 0; n < graph->forward_count; n++) {
        left = n && stage_of[n] == stage_of[n - 1] ? left : 0;
        double whole = sums[stage_of[n]], gain = left < whole - left ? left : whole - left;
        if (left > 0 && c->border[n] && gain > best_gain) {
            best_gain = gain;
            best = n;
        }
        left += cost[n];
    }
    free(sums);
    for (int n = best; best > 0 && n < graph->forward_count; n++)
        stage_of[n]++;
    return best > 0;
}

sl_err sl_plan_cut_even(const struct sl_graph *graph, bool (*has_kernel)(const char *name),
                        int stages, int *stage_of) {
    struct sl_arena scratch = {0};
    struct sl_plan_cut_costs c = sl_plan_cut_costs(graph, has_kernel, &scratch);
    double low = 0, high = 0;
    sl_err err = SL_OK;
    for (int n = 0; n < graph->forward_count; n++)
        high += c.cost[n];
    for (int round = 0; round < 60; round++) {
        double middle = (low + high) / 2;
        if (try_limit(&c, middle, stages, stage_of))
            high = middle;
        else
            low = middle;
    }
    bool ok = try_limit(&c, high, stages, stage_of);
    while (ok && count_stages(graph, stage_of) < stages)
        ok = split_largest(&c, stage_of);
    if (!ok)
        err =
            sl_fail(SL_ERR_REFUSED, "%s cannot be cut into %d stages: it has only %d places to cut",
                    graph->name, stages, count_stages(graph, stage_of) - 1);
    sl_arena_free(&scratch);
    return err;
}

/* Says which of plan and model has frozen parts, if only one has. */
static const char *freezing(const struct sl_plan *plan, const struct sl_graph *graph) {
    bool planned = false, frozen = false;
    for (int s = 0; s < plan->stage_count; s++)
        planned |= plan->stages[s].bytes.fixed > 0 || plan->stages[s].passes != SL_STAGE_TRAINS;
    for (int64_t i = 0; i < graph->params.count; i++)
        frozen |= graph->params.at[i].frozen;
    return planned && !frozen   ? ". The plan has frozen weights: give its `freeze` or `lora`"
           : frozen && !planned ? ". The plan trains all weights: leave out `freeze` and `lora`"
                                : "";
}

sl_err sl_plan_stage_of(const struct sl_plan *plan, const struct sl_graph *graph, int *stage_of) {
    if (plan->node_count != graph->forward_count)
        return sl_fail(SL_ERR_REFUSED, "the plan is for a model of %d nodes, %s has %d%s",
                       plan->node_count, graph->name, graph->forward_count, freezing(plan, graph));
    if (plan->graph && plan->graph != sl_graph_model_hash(graph))
        return sl_fail(
            SL_ERR_REFUSED,
            "the plan is for another model than %s: %s with the same number of nodes, but "
            "another graph or other sizes; plan this one with 'sluice plan'%s",
            graph->name, plan->model ? plan->model : "one", freezing(plan, graph));
    for (int s = 0; s < plan->stage_count; s++)
        for (int i = 0; i < plan->stages[s].node_count; i++)
            stage_of[plan->stages[s].nodes[i]] = s;
    return SL_OK;
}
