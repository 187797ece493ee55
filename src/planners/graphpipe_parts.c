/* Makes the parts of a model: opaque ones, grouped series; and sums over them
 * (graphpipe_parts.h). */
#include "planners/graphpipe_parts.h"

#include "base/vec.h"

#include <string.h>

struct view {
    struct sl_arena *arena;
    const struct sl_problem *p;
    int size;
    double total; /* time of one micro-batch through all units, in ns */
    int *place;   /* [unit] its child in the series that is being processed; -1: none */
};

static double work_of(const struct view *v, const struct sl_sp *node) {
    const struct sl_unit_time *t = sl_search_problem_times(v->p, v->size, 0);
    double sum = 0;
    for (int i = 0; i < node->vertex_count; i++) {
        const struct sl_unit_time *u = &t[node->vertices[i]];
        sum += (double)(u->f + u->i + u->w);
    }
    return sum;
}

static struct sl_planners_graphpipe_part *new_part(struct view *v, enum sl_sp_kind kind,
                                                   const int *units, int count) {
    struct sl_planners_graphpipe_part *part =
        SL_NEW(v->arena, struct sl_planners_graphpipe_part, 1);
    part->kind = kind;
    part->units = units;
    part->unit_count = count;
    return part;
}

static struct sl_planners_graphpipe_part *view_node(struct view *v, const struct sl_sp *node);

/* ---- series ---- */

/* Returns cross[b]: bytes per sample that go from children before b to children from b on, and to
 * later readers. */
static double *crossing(struct view *v, const struct sl_sp *node) {
    int count = node->child_count;
    double *cross = SL_NEW(v->arena, double, count + 2);
    for (int c = 0; c < count; c++)
        for (int i = 0; i < node->children[c]->vertex_count; i++)
            v->place[node->children[c]->vertices[i]] = c;
    for (int t = 0; t < v->p->tensor_count; t++) {
        const struct sl_search_tensor *tensor = &v->p->tensors[t];
        int from = v->place[tensor->from], last = from;
        for (int i = 0; from >= 0 && i < tensor->to_count; i++) {
            int to = v->place[tensor->to[i]];
            last = to < 0 ? count : to > last ? to : last;
        }
        if (from >= 0 && last > from) { /* it crosses the boundaries from + 1 .. last */
            cross[from + 1] += (double)tensor->sample_bytes;
            cross[last + 1] -= (double)tensor->sample_bytes;
        }
    }
    for (int b = 1; b <= count; b++)
        cross[b] += cross[b - 1];
    for (int i = 0; i < node->vertex_count; i++)
        v->place[node->vertices[i]] = -1;
    return cross;
}

/* Does the part stay in one stage? In models of many units, parts of less than a quarter of a
 * device's share do. */
static bool is_opaque(const struct view *v, const struct sl_sp *node) {
    enum { FEW = 64 };
    return node->kind == SL_SP_LEAF ||
           (v->p->unit_count > FEW &&
            work_of(v, node) * 4 * v->p->machine->device_count < v->total);
}

/* Chooses keep[b]: may a stage end before child b? Always next to parallel parts; elsewhere at the
 * cheapest boundary of each share of the work. */
static bool *choose_boundaries(struct view *v, const struct sl_sp *node) {
    int count = node->child_count, share = -1, cheapest = 0;
    bool *keep = SL_NEW(v->arena, bool, count + 1);
    double *cross = crossing(v, node), sum = 0;
    for (int b = 1; b < count; b++) {
        sum += work_of(v, node->children[b - 1]);
        int now = (int)(sum / (v->total > 0 ? v->total : 1) * SL_PLANNERS_GRAPHPIPE_RUNS);
        bool open = !is_opaque(v, node->children[b - 1]) || !is_opaque(v, node->children[b]);
        keep[b] |= open || count <= SL_PLANNERS_GRAPHPIPE_RUNS || now != share;
        if (now != share) {
            share = now;
            cheapest = b;
        } else if (!open && count > SL_PLANNERS_GRAPHPIPE_RUNS && cross[b] < cross[cheapest]) {
            keep[cheapest] &= !is_opaque(v, node->children[cheapest - 1]) ||
                              !is_opaque(v, node->children[cheapest]);
            keep[b] = true;
            cheapest = b;
        }
    }
    keep[count] = true;
    return keep;
}

static struct sl_planners_graphpipe_part *view_series(struct view *v, const struct sl_sp *node) {
    struct sl_planners_graphpipe_part *part =
        new_part(v, SL_SP_SERIES, node->vertices, node->vertex_count);
    bool *keep = choose_boundaries(v, node);
    part->children = SL_NEW(v->arena, const struct sl_planners_graphpipe_part *, node->child_count);
    for (int c = 0, first = 0, at = 0, units = 0; c < node->child_count; c++) {
        units += node->children[c]->vertex_count;
        if (!keep[c + 1])
            continue;
        /* the vertices of a series are listed child by child */
        part->children[part->child_count++] =
            c == first ? view_node(v, node->children[c])
                       : new_part(v, SL_SP_LEAF, node->vertices + at, units);
        at += units;
        units = 0;
        first = c + 1;
    }
    return part->child_count > 1 ? part
                                 : new_part(v, SL_SP_LEAF, node->vertices, node->vertex_count);
}

static struct sl_planners_graphpipe_part *view_node(struct view *v, const struct sl_sp *node) {
    if (is_opaque(v, node))
        return new_part(v, SL_SP_LEAF, node->vertices, node->vertex_count);
    if (node->kind == SL_SP_SERIES)
        return view_series(v, node);
    struct sl_planners_graphpipe_part *part =
        new_part(v, SL_SP_PARALLEL, node->vertices, node->vertex_count);
    part->children = SL_NEW(v->arena, const struct sl_planners_graphpipe_part *, node->child_count);
    part->child_count = node->child_count;
    for (int c = 0; c < node->child_count; c++)
        part->children[c] = view_node(v, node->children[c]);
    return part;
}

const struct sl_planners_graphpipe_part *
sl_planners_graphpipe_parts(struct sl_arena *arena, const struct sl_problem *problem,
                            const struct sl_sp_tree *tree, int size) {
    struct view v = {.arena = arena, .p = problem, .size = size};
    if (!tree->root)
        return NULL;
    v.place = SL_NEW(arena, int, problem->unit_count);
    memset(v.place, -1, sizeof *v.place * (size_t)problem->unit_count);
    v.total = work_of(&v, tree->root);
    return view_node(&v, tree->root);
}

/* ---- sets of branches ---- */

int sl_planners_graphpipe_next_set(const struct sl_planners_graphpipe_part *part, int all,
                                   int set) {
    if (!sl_planners_graphpipe_has_subsets(part))
        return set + 1 < part->child_count + 1 ? set + 1 : 0;
    int first = all & -all, rest = all & ~first;
    int next = ((set & ~first) - rest) & rest;
    return next ? next | first : 0;
}

int sl_planners_graphpipe_whole(const struct sl_planners_graphpipe_part *part) {
    return sl_planners_graphpipe_has_subsets(part) ? (1 << part->child_count) - 1 : 0;
}

int sl_planners_graphpipe_first_set(const struct sl_planners_graphpipe_part *part, int all) {
    return sl_planners_graphpipe_has_subsets(part) ? all & -all : all + 1;
}

int sl_planners_graphpipe_without(const struct sl_planners_graphpipe_part *part, int all, int set) {
    return sl_planners_graphpipe_has_subsets(part) ? all & ~set : set;
}

int sl_planners_graphpipe_lowest(const struct sl_planners_graphpipe_part *part, int all) {
    return sl_planners_graphpipe_has_subsets(part) ? __builtin_ctz((unsigned)all) : all;
}

bool sl_planners_graphpipe_holds(const struct sl_planners_graphpipe_part *part, int all, int set,
                                 int branch) {
    return sl_planners_graphpipe_has_subsets(part) ? set >> branch & 1
                                                   : branch >= all && branch < set;
}
