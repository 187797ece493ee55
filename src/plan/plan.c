/* Freezes a plan: copies it, derives fields (edge lists, heights, seats, topological order), checks
 * it. */
#include "plan/plan.h"

#include "base/map.h"
#include "base/vec.h"
#include "plan/shards.h"

#include <ctype.h>
#include <string.h>

static void *copy_array(struct sl_arena *arena, const void *at, int64_t count, size_t item_bytes) {
    return sl_vec_freeze(arena, at, count, item_bytes);
}

#define COPY(arena, at, count) copy_array((arena), (at), (count), sizeof *(at))

static const char *copy_name(struct sl_arena *arena, const char *name) {
    return name ? sl_arena_dup(arena, name, strlen(name)) : NULL;
}

static bool is_name(const char *name) {
    if (!name || !(isalpha((unsigned char)*name) || *name == '_'))
        return false;
    for (const char *at = name; *at; at++) {
        if (!isalnum((unsigned char)*at) && !strchr("_.-", *at))
            return false;
        if (at[0] == '.' && at[1] == '.')
            return false;
    }
    return true;
}

/* --- checks on the draft --- */

static sl_err check_bytes(const struct sl_stage *stage) {
    const struct sl_stage_bytes *b = &stage->bytes;
    const int64_t all[] = {b->params, b->fixed, b->grads, b->state,
                           b->stash,  b->saved, b->kept,  b->work};
    for (int i = 0; i < SL_COUNT(all); i++)
        if (all[i] < 0 || all[i] > INT64_MAX >> 16)
            return sl_fail(SL_ERR_INPUT, "stage %s: bytes out of range", stage->name);
    return SL_OK;
}

static sl_err check_times(const struct sl_stage *stage) {
    const struct sl_stage_times *t = &stage->times;
    const int64_t all[] = {t->f, t->b, t->i, t->w, t->recompute, t->reduce, t->step};
    for (int i = 0; i < SL_COUNT(all); i++)
        if (all[i] < 0 || all[i] > SL_STAGE_NS_MAX)
            return sl_fail(SL_ERR_INPUT, "stage %s: times out of range", stage->name);
    return SL_OK;
}

static sl_err check_stage(const struct sl_plan *plan, const struct sl_stage *stage) {
    if (!is_name(stage->name))
        return sl_fail(SL_ERR_INPUT, "stage %d: '%s' is not a name (letters, digits, _ . -)",
                       (int)(stage - plan->stages), stage->name ? stage->name : "");
    if (stage->width < 1 || stage->width > SL_WIDTH_MAX)
        return sl_fail(SL_ERR_INPUT, "stage %s: width %d is not in 1..%d", stage->name,
                       stage->width, SL_WIDTH_MAX);
    if (stage->micro_size < 1 || stage->micro_size > INT32_MAX)
        return sl_fail(SL_ERR_INPUT, "stage %s: a micro-batch needs at least one sample",
                       stage->name);
    if (stage->group < 0 || stage->group > SL_GROUP_MAX)
        return sl_fail(SL_ERR_INPUT, "stage %s: group %d is not in 0..%d", stage->name,
                       stage->group, SL_GROUP_MAX);
    for (int i = 0; i < stage->width; i++) {
        if (stage->workers[i] < 0 || stage->workers[i] >= plan->worker_count)
            return sl_fail(SL_ERR_INPUT, "stage %s: replica %d is on worker %d of %d", stage->name,
                           i, stage->workers[i], plan->worker_count);
    }
    for (int i = 0; i < stage->node_count; i++) {
        if (stage->nodes[i] < 0 || stage->nodes[i] >= plan->node_count)
            return sl_fail(SL_ERR_INPUT, "stage %s: node %d of a model with %d nodes", stage->name,
                           stage->nodes[i], plan->node_count);
        if (i && stage->nodes[i] <= stage->nodes[i - 1])
            return sl_fail(SL_ERR_INPUT, "stage %s: nodes are not ascending", stage->name);
    }
    if (stage->passes == SL_STAGE_FORWARD && stage->recompute)
        return sl_fail(SL_ERR_INPUT, "stage %s: recomputes for a backward pass that it lacks",
                       stage->name);
    SL_TRY(check_times(stage));
    return check_bytes(stage);
}

static sl_err check_counts(const struct sl_plan *plan) {
    if (plan->stage_count < 1 || plan->stage_count > SL_STAGE_MAX)
        return sl_fail(SL_ERR_INPUT, "a plan has 1 to %d stages, this one has %d", SL_STAGE_MAX,
                       plan->stage_count);
    if (plan->worker_count < 1 || plan->worker_count > SL_WORKER_MAX)
        return sl_fail(SL_ERR_INPUT, "a plan has 1 to %d workers, this one has %d", SL_WORKER_MAX,
                       plan->worker_count);
    if (plan->edge_count < 0 || plan->edge_count > SL_EDGE_MAX)
        return sl_fail(SL_ERR_INPUT, "a plan has at most %d edges, this one has %d", SL_EDGE_MAX,
                       plan->edge_count);
    if (plan->node_count < 0 || plan->batch < 0 || plan->tie_count < 0)
        return sl_fail(SL_ERR_INPUT, "negative count of nodes, samples or ties");
    if (plan->model && !is_name(plan->model))
        return sl_fail(SL_ERR_INPUT, "model '%s' is not a name (letters, digits, _ . -)",
                       plan->model);
    for (const char *at = plan->schedule; at && *at; at++)
        if (!isprint((unsigned char)*at) || *at == '"' || *at == '\\')
            return sl_fail(SL_ERR_INPUT, "the name of the schedule has an invalid character");
    for (const char *at = plan->sizes; at && *at; at++)
        if (!isalnum((unsigned char)*at) && !strchr("_=,.+-", *at))
            return sl_fail(SL_ERR_INPUT, "the sizes of the model have an invalid character");
    for (int i = 0; plan->memory_bytes && i < plan->worker_count; i++)
        if (plan->memory_bytes[i] < 0)
            return sl_fail(SL_ERR_INPUT, "worker %d: negative memory", i);
    return SL_OK;
}

static sl_err check_names(const struct sl_plan *plan) {
    struct sl_map map = {0};
    sl_err err = SL_OK;
    int64_t seats = 0;
    for (int i = 0; i < plan->stage_count && err == SL_OK; i++) {
        const char *name = plan->stages[i].name;
        err = check_stage(plan, &plan->stages[i]);
        if (err != SL_OK)
            break;
        if (sl_map_find(&map, sl_str(name)))
            err = sl_fail(SL_ERR_INPUT, "two stages are called %s", name);
        sl_map_put(&map, sl_str(name), i);
        seats += plan->stages[i].width;
    }
    sl_map_free(&map);
    if (err == SL_OK && seats > SL_SEAT_MAX)
        err = sl_fail(SL_ERR_INPUT, "more than %d stage replicas", SL_SEAT_MAX);
    return err;
}

static sl_err check_edges(const struct sl_plan *plan) {
    for (int i = 0; i < plan->edge_count; i++) {
        const struct sl_edge *edge = &plan->edges[i];
        if (edge->from < 0 || edge->from >= plan->stage_count || edge->to < 0 ||
            edge->to >= plan->stage_count)
            return sl_fail(SL_ERR_INPUT, "edge %d: no such stage", i);
        const char *from = plan->stages[edge->from].name, *to = plan->stages[edge->to].name;
        if (edge->from == edge->to)
            return sl_fail(SL_ERR_INPUT, "edge %s -> %s: a stage cannot feed itself", from, to);
        if (edge->sample_bytes < 0 || edge->sample_bytes > INT64_MAX >> 32)
            return sl_fail(SL_ERR_INPUT, "edge %s -> %s: bytes out of range", from, to);
    }
    return SL_OK;
}

static sl_err check_ties(const struct sl_plan *plan) {
    for (int i = 0; i < plan->tie_count; i++) {
        const struct sl_tie *tie = &plan->ties[i];
        if (!is_name(tie->name))
            return sl_fail(SL_ERR_INPUT, "tie %d: '%s' is not a name", i,
                           tie->name ? tie->name : "");
        if (tie->count < 2 || tie->bytes < 0)
            return sl_fail(SL_ERR_INPUT, "tie %s: needs two stages or more", tie->name);
        for (int j = 0; j < tie->count; j++) {
            if (tie->stages[j] < 0 || tie->stages[j] >= plan->stage_count)
                return sl_fail(SL_ERR_INPUT, "tie %s: no such stage", tie->name);
            if (j && tie->stages[j] <= tie->stages[j - 1])
                return sl_fail(SL_ERR_INPUT, "tie %s: stages are not ascending", tie->name);
            if (tie->bytes > plan->stages[tie->stages[j]].bytes.params)
                return sl_fail(SL_ERR_INPUT, "tie %s: stage %s has fewer parameter bytes",
                               tie->name, plan->stages[tie->stages[j]].name);
        }
    }
    return SL_OK;
}

/* Checks that every node of the model is in exactly one stage. */
static sl_err check_nodes(const struct sl_plan *plan) {
    if (!plan->node_count)
        return SL_OK;
    int64_t listed = 0;
    for (int i = 0; i < plan->stage_count; i++)
        listed += plan->stages[i].node_count;
    if (!listed) /* the plan names a model but does not record the cut */
        return SL_OK;
    if (listed < plan->node_count)
        return sl_fail(SL_ERR_INPUT, "stages hold %lld nodes of %d: some are in no stage",
                       (long long)listed, plan->node_count);
    int *owner = sl_realloc(NULL, sizeof *owner * (size_t)plan->node_count);
    sl_err err = SL_OK;
    memset(owner, -1, sizeof *owner * (size_t)plan->node_count);
    for (int i = 0; i < plan->stage_count && err == SL_OK; i++) {
        for (int j = 0; j < plan->stages[i].node_count && err == SL_OK; j++) {
            int node = plan->stages[i].nodes[j];
            if (owner[node] >= 0)
                err = sl_fail(SL_ERR_INPUT, "node %d is in stage %s and in stage %s", node,
                              plan->stages[owner[node]].name, plan->stages[i].name);
            owner[node] = i;
        }
    }
    for (int i = 0; i < plan->node_count && err == SL_OK; i++)
        if (owner[i] < 0)
            err = sl_fail(SL_ERR_INPUT, "node %d is in no stage", i);
    free(owner);
    return err;
}

static int compare_ints(const void *a, const void *b) {
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

/* Checks that a worker holds at most one replica of a stage. */
static sl_err check_replicas(const struct sl_plan *plan) {
    for (int i = 0; i < plan->stage_count; i++) {
        const struct sl_stage *stage = &plan->stages[i];
        if (stage->width == 1)
            continue;
        int *sorted = sl_realloc(NULL, sizeof *sorted * (size_t)stage->width);
        memcpy(sorted, stage->workers, sizeof *sorted * (size_t)stage->width);
        qsort(sorted, (size_t)stage->width, sizeof *sorted, compare_ints);
        int twice = -1;
        for (int j = 1; j < stage->width; j++)
            if (sorted[j] == sorted[j - 1])
                twice = sorted[j];
        free(sorted);
        if (twice >= 0)
            return sl_fail(SL_ERR_INPUT, "stage %s: two replicas on worker %d", stage->name, twice);
    }
    return SL_OK;
}

sl_err sl_plan_check(const struct sl_plan *plan) {
    SL_TRY(check_counts(plan));
    SL_TRY(check_names(plan));
    SL_TRY(check_replicas(plan));
    SL_TRY(sl_plan_check_shards(plan));
    SL_TRY(check_edges(plan));
    SL_TRY(check_ties(plan));
    return check_nodes(plan);
}

/* --- derivation --- */

static void derive_edges(struct sl_arena *arena, struct sl_stage *stages, int stage_count,
                         struct sl_edge *edges, int edge_count) {
    for (int i = 0; i < edge_count; i++) {
        edges[i].grads = stages[edges[i].from].passes != SL_STAGE_FORWARD &&
                         stages[edges[i].to].passes != SL_STAGE_FORWARD;
        edges[i].from_place = stages[edges[i].from].out_count++;
        edges[i].to_place = stages[edges[i].to].in_count++;
    }
    for (int i = 0; i < stage_count; i++) {
        stages[i].in = SL_NEW(arena, int, stages[i].in_count);
        stages[i].out = SL_NEW(arena, int, stages[i].out_count);
    }
    for (int i = 0; i < edge_count; i++) {
        ((int *)(uintptr_t)stages[edges[i].from].out)[edges[i].from_place] = i;
        ((int *)(uintptr_t)stages[edges[i].to].in)[edges[i].to_place] = i;
    }
}

/* Derives heights and a topological order, with Kahn's algorithm from the sinks. */
static sl_err derive_heights(struct sl_arena *arena, struct sl_plan *plan,
                             struct sl_stage *stages) {
    int *topo = SL_NEW(arena, int, plan->stage_count);
    int *left = SL_NEW(arena, int, plan->stage_count);
    /* topo[low..] has been placed, topo[at..] has been visited */
    int low = plan->stage_count, at = low;
    for (int i = plan->stage_count - 1; i >= 0; i--) {
        left[i] = stages[i].out_count;
        if (!left[i])
            topo[--low] = i;
    }
    while (at > low) {
        struct sl_stage *stage = &stages[topo[--at]];
        stage->window += stage->width; /* its readers have been visited */
        for (int i = 0; i < stage->in_count; i++) {
            int from = plan->edges[stage->in[i]].from;
            if (stages[from].height < stage->height + 1)
                stages[from].height = stage->height + 1;
            if (stages[from].window < stage->window)
                stages[from].window = stage->window;
            if (--left[from] == 0)
                topo[--low] = from;
        }
    }
    for (int i = 0; i < plan->stage_count; i++)
        if (left[i])
            return sl_fail(SL_ERR_INPUT, "the stage graph has a cycle through stage %s",
                           stages[i].name);
    plan->topo = topo;
    plan->depth = 1;
    plan->window = 0;
    for (int i = 0; i < plan->stage_count; i++) {
        if (stages[i].height + 1 > plan->depth)
            plan->depth = stages[i].height + 1;
        if (stages[i].window > plan->window)
            plan->window = stages[i].window;
        if (!stages[i].in_count)
            stages[i].has_input = true;
    }
    return SL_OK;
}

static void derive_seats(struct sl_arena *arena, struct sl_plan *plan, struct sl_stage *stages) {
    plan->seat_count = 0;
    for (int i = 0; i < plan->stage_count; i++) {
        stages[i].seat = plan->seat_count;
        plan->seat_count += stages[i].width;
    }
    struct sl_seat *seats = SL_NEW(arena, struct sl_seat, plan->seat_count);
    int *counts = SL_NEW(arena, int, plan->worker_count);
    for (int i = 0; i < plan->stage_count; i++)
        for (int j = 0; j < stages[i].width; j++) {
            seats[stages[i].seat + j] = (struct sl_seat){i, j, stages[i].workers[j]};
            counts[stages[i].workers[j]]++;
        }
    int **lists = SL_NEW(arena, int *, plan->worker_count);
    int *free_seats = SL_NEW(arena, int, plan->seat_count);
    for (int i = 0; i < plan->worker_count; i++) {
        lists[i] = free_seats;
        free_seats += counts[i];
        counts[i] = 0;
    }
    for (int i = 0; i < plan->seat_count; i++)
        lists[seats[i].worker][counts[seats[i].worker]++] = i;
    plan->seats = seats;
    plan->worker_seats = (const int *const *)lists;
    plan->worker_seat_count = counts;
}

sl_err sl_plan_build(struct sl_arena *arena, const struct sl_plan *draft,
                     const struct sl_plan **out) {
    SL_TRY(sl_plan_check(draft));
    struct sl_plan *plan = SL_NEW(arena, struct sl_plan, 1);
    *plan = *draft;
    plan->model = copy_name(arena, draft->model);
    plan->schedule = copy_name(arena, draft->schedule);
    plan->sizes = copy_name(arena, draft->sizes);
    int64_t *memory = SL_NEW(arena, int64_t, plan->worker_count);
    if (draft->memory_bytes)
        memcpy(memory, draft->memory_bytes, sizeof *memory * (size_t)plan->worker_count);
    plan->memory_bytes = memory;
    struct sl_stage *stages = COPY(arena, draft->stages, plan->stage_count);
    for (int i = 0; i < plan->stage_count; i++) {
        struct sl_stage *stage = &stages[i];
        stage->name = copy_name(arena, stage->name);
        stage->shards = stage->shards ? stage->shards : 1;
        stage->parts = stage->parts ? stage->parts : 1;
        stage->collectives = COPY(arena, stage->collectives, stage->collective_count);
        stage->workers = COPY(arena, stage->workers, stage->width);
        stage->nodes = COPY(arena, stage->nodes, stage->node_count);
        stage->height = stage->window = stage->in_count = stage->out_count = 0;
    }
    struct sl_edge *edges = COPY(arena, draft->edges, plan->edge_count);
    struct sl_tie *ties = COPY(arena, draft->ties, plan->tie_count);
    for (int i = 0; i < plan->tie_count; i++) {
        ties[i].name = copy_name(arena, ties[i].name);
        ties[i].stages = COPY(arena, ties[i].stages, ties[i].count);
    }
    plan->stages = stages;
    plan->edges = edges;
    plan->ties = ties;
    derive_edges(arena, stages, plan->stage_count, edges, plan->edge_count);
    SL_TRY(derive_heights(arena, plan, stages));
    derive_seats(arena, plan, stages);
    sl_plan_derive_devices(arena, plan);
    *out = plan;
    return SL_OK;
}

int sl_plan_find_stage(const struct sl_plan *plan, struct sl_str name) {
    for (int i = 0; i < plan->stage_count; i++)
        if (sl_str_is(name, plan->stages[i].name))
            return i;
    return -1;
}

static bool same_ints(const int *a, int a_count, const int *b, int b_count) {
    return a_count == b_count && (!a_count || memcmp(a, b, sizeof *a * (size_t)a_count) == 0);
}

static bool same_stage(const struct sl_stage *a, const struct sl_stage *b) {
    return a->micro_size == b->micro_size && a->recompute == b->recompute &&
           a->passes == b->passes && a->has_input == b->has_input && a->shards == b->shards &&
           a->part == b->part && a->parts == b->parts &&
           same_ints(a->workers, a->width, b->workers, b->width) &&
           same_ints(a->nodes, a->node_count, b->nodes, b->node_count) &&
           memcmp(&a->times, &b->times, sizeof a->times) == 0;
}

bool sl_plan_same_layout(const struct sl_plan *a, const struct sl_plan *b) {
    bool same = a->stage_count == b->stage_count && a->edge_count == b->edge_count &&
                a->worker_count == b->worker_count;
    for (int s = 0; same && s < a->stage_count; s++)
        same = same_stage(&a->stages[s], &b->stages[s]);
    for (int e = 0; same && e < a->edge_count; e++)
        same = a->edges[e].from == b->edges[e].from && a->edges[e].to == b->edges[e].to;
    return same;
}
