/* Imported planning problems: checks and freezes them. */
#include "cost/layers.h"

#include "base/sort.h"
#include "base/vec.h"

#include <math.h>
#include <stdio.h>

struct check {
    const struct sl_layers *draft;
    const struct sl_layers_place *place;
};

static sl_err fail_at(const struct check *check, int layer, int edge, const char *text) {
    if (check->place)
        return check->place->fail(check->place->ctx, layer, edge, text);
    return sl_fail(SL_ERR_INPUT, "%s", text);
}

static bool bad(double value) { return !isfinite(value) || value < 0; }

struct keyed {
    int64_t key, second;
    int index;
};

static int compare_keyed(const void *a, const void *b) {
    const struct keyed *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    if (x->second != y->second)
        return x->second < y->second ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

/* Returns the later of two equal entries, or -1. */
static int find_twice(struct keyed *keys, int count) {
    sl_sort(keys, count, sizeof *keys, compare_keyed);
    for (int i = 1; i < count; i++)
        if (keys[i].key == keys[i - 1].key && keys[i].second == keys[i - 1].second)
            return keys[i].index;
    return -1;
}

static sl_err check_layer(const struct check *check, int i) {
    const struct sl_layer *layer = &check->draft->at[i];
    if (bad(layer->forward) || bad(layer->backward) || bad(layer->cpu))
        return fail_at(check, i, -1, "a time is negative or too large");
    if (bad(layer->output_bytes) || bad(layer->params_bytes) || bad(layer->size_bytes))
        return fail_at(check, i, -1, "a size is negative or too large");
    for (int o = 0; o < layer->option_count; o++) {
        const struct sl_layer_option *option = &layer->options[o];
        if (option->tensor < 1 || option->tensor > SL_LAYER_TENSOR_MAX)
            return fail_at(check, i, -1, "the tensor-parallel degree is out of range");
        if (bad(option->time) || bad(option->params_bytes) || bad(option->micro_bytes) ||
            bad(option->fixed_bytes))
            return fail_at(check, i, -1, "an option has a negative time or size");
    }
    return SL_OK;
}

static sl_err check_edges(const struct check *check, struct keyed *keys) {
    const struct sl_layers *draft = check->draft;
    for (int e = 0; e < draft->edge_count; e++) {
        const struct sl_layer_edge *edge = &draft->edges[e];
        SL_ASSERT(edge->from >= 0 && edge->from < draft->count);
        SL_ASSERT(edge->to >= 0 && edge->to < draft->count);
        if (edge->from == edge->to)
            return fail_at(check, -1, e, "an edge from a layer to itself");
        if (bad(edge->cost))
            return fail_at(check, -1, e, "the cost of an edge is negative or too large");
        keys[e] = (struct keyed){edge->from, edge->to, e};
    }
    int twice = find_twice(keys, draft->edge_count);
    return twice < 0 ? SL_OK : fail_at(check, -1, twice, "the same edge twice");
}

static sl_err check_ids(const struct check *check, struct keyed *keys) {
    for (int i = 0; i < check->draft->count; i++)
        keys[i] = (struct keyed){check->draft->at[i].id, 0, i};
    int twice = find_twice(keys, check->draft->count);
    return twice < 0 ? SL_OK : fail_at(check, twice, -1, "the same id twice");
}

/* Fills the in and out lists of all layers, in two arrays. */
void sl_cost_layers_link(struct sl_arena *arena, struct sl_layer *layers, int count,
                         const struct sl_layer_edge *edges, int edge_count) {
    int *in = SL_NEW(arena, int, edge_count + 1), *out = SL_NEW(arena, int, edge_count + 1);
    for (int i = 0; i < count; i++)
        layers[i].in_count = layers[i].out_count = 0;
    for (int e = 0; e < edge_count; e++) {
        layers[edges[e].to].in_count++;
        layers[edges[e].from].out_count++;
    }
    int *in_at = SL_NEW(arena, int, count + 1), *out_at = SL_NEW(arena, int, count + 1);
    for (int i = 0; i < count; i++) {
        in_at[i + 1] = in_at[i] + layers[i].in_count;
        out_at[i + 1] = out_at[i] + layers[i].out_count;
        layers[i].in = in + in_at[i];
        layers[i].out = out + out_at[i];
    }
    for (int e = 0; e < edge_count; e++) {
        in[in_at[edges[e].to]++] = e;
        out[out_at[edges[e].from]++] = e;
    }
}

/* A heap of positions for Kahn's algorithm: the ready layer that is first in the file comes
 * first. */
static void heap_push(int *heap, int *count, int value) {
    int i = (*count)++;
    for (; i > 0 && heap[(i - 1) / 2] > value; i = (i - 1) / 2)
        heap[i] = heap[(i - 1) / 2];
    heap[i] = value;
}

static int heap_pop(int *heap, int *count) {
    int top = heap[0], last = heap[--*count], i = 0;
    for (int child = 1; child < *count; child = 2 * i + 1) {
        if (child + 1 < *count && heap[child + 1] < heap[child])
            child++;
        if (heap[child] >= last)
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = last;
    return top;
}

/* Orders the layers. Returns how many it ordered; fewer than all: there is a cycle. */
static int order_layers(struct sl_arena *arena, const struct sl_layers *layers, int *order) {
    int *waits = SL_NEW(arena, int, layers->count + 1), *heap = SL_NEW(arena, int, layers->count);
    int ready = 0, done = 0;
    for (int i = 0; i < layers->count; i++) {
        waits[i] = layers->at[i].in_count;
        if (!waits[i])
            heap_push(heap, &ready, i);
    }
    while (ready) {
        int i = heap_pop(heap, &ready);
        order[done++] = i;
        for (int o = 0; o < layers->at[i].out_count; o++) {
            int to = layers->edges[layers->at[i].out[o]].to;
            if (--waits[to] == 0)
                heap_push(heap, &ready, to);
        }
    }
    return done;
}

static sl_err check_cycle(const struct check *check, const int *order, int done) {
    char text[96];
    if (done == check->draft->count)
        return SL_OK;
    bool *placed = calloc((size_t)check->draft->count, 1);
    if (!placed)
        sl_out_of_memory((size_t)check->draft->count);
    for (int i = 0; i < done; i++)
        placed[order[i]] = true;
    int first = 0;
    while (placed[first])
        first++;
    free(placed);
    snprintf(text, sizeof text, "layer %lld is on a cycle or behind one",
             (long long)check->draft->at[first].id);
    return fail_at(check, first, -1, text);
}

sl_err sl_cost_layers_build(struct sl_arena *arena, const struct sl_layers *draft,
                            const struct sl_layers_place *place, const struct sl_layers **out) {
    struct check check = {draft, place};
    struct sl_arena scratch = {0};
    sl_err err = SL_OK;
    *out = NULL;
    if (draft->count < 1 || draft->count > SL_LAYER_MAX)
        return sl_fail(SL_ERR_INPUT, "%d layers; 1 to %d can be planned", draft->count,
                       SL_LAYER_MAX);
    if (draft->edge_count > SL_LAYER_EDGE_MAX)
        return sl_fail(SL_ERR_INPUT, "more than %d edges", SL_LAYER_EDGE_MAX);
    struct keyed *keys =
        SL_NEW(&scratch, struct keyed,
               draft->count > draft->edge_count ? draft->count : draft->edge_count);
    SL_TRY_OUT(check_ids(&check, keys));
    SL_TRY_OUT(check_edges(&check, keys));
    for (int i = 0; i < draft->count; i++)
        SL_TRY_OUT(check_layer(&check, i));
    struct sl_layers *layers = SL_NEW(arena, struct sl_layers, 1);
    *layers = *draft;
    struct sl_layer *copy = sl_vec_freeze(arena, draft->at, draft->count, sizeof *draft->at);
    layers->at = copy;
    layers->edges = sl_vec_freeze(arena, draft->edges, draft->edge_count, sizeof *draft->edges);
    sl_cost_layers_link(arena, copy, draft->count, layers->edges, draft->edge_count);
    int *order = SL_NEW(arena, int, draft->count);
    SL_TRY_OUT(check_cycle(&check, order, order_layers(&scratch, layers, order)));
    layers->order = order;
    *out = layers;
out:
    sl_arena_free(&scratch);
    return err;
}
