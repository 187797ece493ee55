/* A cut along the branches of the model: before them, each branch, after them.
 *
 *            +- branch 0 -+
 *   before --+- branch 1 -+-- after      stages in this order; empty ones are left out
 *            +- branch 2 -+
 *
 * The branches are those of the fork with the most branches. Then the costliest stage is halved,
 * in graph order, until there are as many stages as requested. */
#include "plan/model.h"

#include "graph/branch.h"
#include "pass/program.h"
#include "plan/cut.h"

#include <string.h>

/* Labels of nodes. Branch c has label 1 + c; AFTER is 1 + the number of branches. */
enum { UNKNOWN = -1, BEFORE = 0 };

struct labels {
    const struct sl_graph *graph;
    int *of; /* [forward nodes] label of each */
    int after;
};

static const struct sl_segment *widest(const struct sl_branches *branches) {
    const struct sl_segment *best = NULL;
    for (int i = 0; i < branches->segment_count; i++) {
        const struct sl_segment *segment = &branches->segments[i];
        if (segment->level == 0 && segment->count > 1 && (!best || segment->count > best->count))
            best = segment;
    }
    return best;
}

static int source_of(const struct sl_graph *graph, int value) {
    const struct sl_value *v = value < 0 ? NULL : sl_graph_value(graph, value);
    return v && v->kind == SL_VALUE_NODE ? v->node : -1;
}

/* Labels the nodes that are in no branch. Readers of a branch become AFTER. Other nodes get the
 * label that all their readers share, or BEFORE. */
static void label_rest(struct labels *l, int *wanted) {
    const struct sl_graph *graph = l->graph;
    for (int n = 0; n < graph->forward_count; n++) {
        const struct sl_node *node = &graph->nodes.at[n];
        for (int i = 0; i < node->in_count && l->of[n] == UNKNOWN; i++) {
            int from = source_of(graph, node->in[i]);
            if (from >= 0 && l->of[from] != UNKNOWN)
                l->of[n] = l->after;
        }
        wanted[n] = UNKNOWN;
    }
    for (int n = graph->forward_count - 1; n >= 0; n--) {
        const struct sl_node *node = &graph->nodes.at[n];
        if (l->of[n] == UNKNOWN)
            l->of[n] = wanted[n] == UNKNOWN ? l->after : wanted[n];
        for (int i = 0; i < node->in_count; i++) {
            int from = source_of(graph, node->in[i]);
            if (from >= 0)
                wanted[from] =
                    wanted[from] == UNKNOWN || wanted[from] == l->of[n] ? l->of[n] : BEFORE;
        }
    }
}

/* Gives fused nodes one label: AFTER if any of them has it, else BEFORE. */
static bool join_groups(struct labels *l, const int *group, int *of_group) {
    bool changed = false;
    for (int n = 0; n < l->graph->forward_count; n++)
        of_group[n] = UNKNOWN;
    for (int n = 0; n < l->graph->forward_count; n++) {
        int *seen = &of_group[group[n]];
        if (*seen == UNKNOWN || *seen == l->of[n])
            *seen = l->of[n];
        else
            *seen = *seen == l->after || l->of[n] == l->after ? l->after : BEFORE;
    }
    for (int n = 0; n < l->graph->forward_count; n++) {
        changed |= l->of[n] != of_group[group[n]];
        l->of[n] = of_group[group[n]];
    }
    return changed;
}

/* Readers of AFTER nodes become AFTER; inputs of BEFORE nodes become BEFORE. */
static bool restore_order(struct labels *l) {
    bool changed = false;
    for (int n = 0; n < l->graph->forward_count; n++) {
        const struct sl_node *node = &l->graph->nodes.at[n];
        for (int i = 0; i < node->in_count; i++) {
            int from = source_of(l->graph, node->in[i]);
            if (from >= 0 && l->of[from] == l->after && l->of[n] != l->after) {
                l->of[n] = l->after;
                changed = true;
            }
        }
    }
    for (int n = l->graph->forward_count - 1; n >= 0; n--) {
        const struct sl_node *node = &l->graph->nodes.at[n];
        for (int i = 0; i < node->in_count; i++) {
            int from = source_of(l->graph, node->in[i]);
            if (from >= 0 && l->of[n] == BEFORE && l->of[from] > BEFORE && l->of[from] < l->after) {
                l->of[from] = BEFORE;
                changed = true;
            }
        }
    }
    return changed;
}

static int number_stages(const struct labels *l, int *stage_of, struct sl_arena *arena) {
    int *number = SL_NEW(arena, int, l->after + 1), count = 0;
    for (int n = 0; n < l->graph->forward_count; n++)
        number[l->of[n]] = 1;
    for (int i = 0; i <= l->after; i++)
        number[i] = number[i] ? count++ : 0;
    for (int n = 0; n < l->graph->forward_count; n++)
        stage_of[n] = number[l->of[n]];
    return count;
}

static sl_err find_branches(const struct sl_graph *graph, bool (*has_kernel)(const char *name),
                            struct sl_arena *arena, int *stage_of, int *count) {
    const struct sl_branches *branches = sl_graph_branches(graph, arena);
    const struct sl_segment *segment = widest(branches);
    int nodes = graph->forward_count;
    if (!segment)
        return sl_fail(SL_ERR_REFUSED, "%s has no parallel branches to cut along; use --cut even",
                       graph->name);
    struct labels l = {graph, SL_NEW(arena, int, nodes + 1), segment->count + 1};
    int *scratch = SL_NEW(arena, int, nodes + 1), *group = SL_NEW(arena, int, nodes + 1);
    for (int n = 0; n < nodes; n++)
        l.of[n] = UNKNOWN;
    for (int c = 0; c < segment->count; c++) {
        const struct sl_component *component = &branches->components[segment->first + c];
        for (int i = 0; i < component->node_count; i++)
            l.of[component->nodes[i]] = 1 + c;
    }
    label_rest(&l, scratch);
    sl_pass_glue(graph, has_kernel, group);
    for (int round = 0; round < nodes; round++) {
        bool joined = join_groups(&l, group, scratch), restored = restore_order(&l);
        if (!joined && !restored)
            break;
    }
    *count = number_stages(&l, stage_of, arena);
    return SL_OK;
}

/* Halves the costliest stage that can be cut; later stages move up by one. */
static bool halve_costliest(const struct sl_plan_cut_costs *c, int stages, int *stage_of,
                            double *sums) {
    const struct sl_graph *graph = c->graph;
    int best = -1, cut = -1;
    memset(sums, 0, sizeof *sums * (size_t)stages * 2);
    double *left = sums + stages, best_gain = 0;
    for (int n = 0; n < graph->forward_count; n++)
        sums[stage_of[n]] += c->cost[n];
    for (int n = 0; n < graph->forward_count; n++) {
        int s = stage_of[n];
        double gain = left[s] < sums[s] - left[s] ? left[s] : sums[s] - left[s];
        if (c->border[n] && gain > best_gain) {
            best_gain = gain;
            best = s;
            cut = n;
        }
        left[s] += c->cost[n];
    }
    for (int n = 0; best >= 0 && n < graph->forward_count; n++)
        stage_of[n] += stage_of[n] > best || (stage_of[n] == best && n >= cut);
    return best >= 0;
}

sl_err sl_plan_cut_branches(const struct sl_graph *graph, bool (*has_kernel)(const char *name),
                            int stages, int *stage_of, int *count) {
    struct sl_arena scratch = {0};
    struct sl_plan_cut_costs costs = sl_plan_cut_costs(graph, has_kernel, &scratch);
    sl_err err = find_branches(graph, has_kernel, &scratch, stage_of, count);
    double *sums = SL_NEW(&scratch, double, 2 * graph->forward_count + 2);
    if (err == SL_OK && stages && stages < *count)
        err = sl_fail(SL_ERR_REFUSED,
                      "%s has %d stages along its branches, %d are asked for; put them "
                      "on fewer workers with --workers",
                      graph->name, *count, stages);
    for (; err == SL_OK && *count < stages; (*count)++)
        if (!halve_costliest(&costs, *count, stage_of, sums))
            err = sl_fail(SL_ERR_REFUSED,
                          "%s cannot be cut into %d stages along its branches, only "
                          "into %d",
                          graph->name, stages, *count);
    sl_arena_free(&scratch);
    return err;
}

void sl_plan_spread(const struct sl_graph *graph, const int *stage_of, int stages, int workers,
                    int *worker_of) {
    struct sl_arena scratch = {0};
    struct sl_plan_cut_costs costs = sl_plan_cut_costs(graph, NULL, &scratch);
    double *sums = SL_NEW(&scratch, double, stages), *load = SL_NEW(&scratch, double, workers);
    for (int n = 0; n < graph->forward_count; n++)
        sums[stage_of[n]] += costs.cost[n];
    for (int s = 0; s < stages; s++)
        worker_of[s] = -1;
    for (int round = 0; round < stages; round++) {
        int next = -1, to = 0;
        for (int s = 0; s < stages; s++)
            if (worker_of[s] < 0 && (next < 0 || sums[s] > sums[next]))
                next = s;
        for (int w = 1; w < workers; w++)
            if (load[w] < load[to])
                to = w;
        worker_of[next] = to;
        load[to] += sums[next];
    }
    sl_arena_free(&scratch);
}
