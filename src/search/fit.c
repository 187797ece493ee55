/* Does a setup fit? From sums and windows; what is played is judged by the schedule's own bytes. */
#include "search/cuts.h"

#include <math.h>
#include <stdlib.h>

static int64_t size_of(const struct sl_setup *l, int stage) {
    return l->problem->sizes[sl_candidate_size(&l->c, stage)];
}

/* Micro-batches in flight on stage s, in its own size; window[] of all later stages is known. */
static int64_t window_of(const struct sl_setup *l, int s, const int64_t *window) {
    int64_t size = size_of(l, s), max = 0;
    for (int e = l->edge_at[s]; e < l->edge_at[s + 1]; e++) {
        int to = l->edges[e].to;
        int64_t behind = (window[to] * size_of(l, to) + size - 1) / size;
        max = behind > max ? behind : max;
    }
    return max + l->c.width[s];
}

static double bytes_of(const struct sl_setup *l, int s, int64_t window, bool recompute) {
    const struct sl_stage_bytes *b = &l->stages[s].bytes;
    struct sl_search_memory_rule rule = sl_search_memory_rule(l->c.schedule);
    int64_t size = size_of(l, s);
    struct sl_cut_stage sum = {.params = (double)b->params,
                               .fixed = (double)(b->grads + b->state),
                               .in = (double)l->stages[s].in_bytes,
                               .out = (double)l->stages[s].out_bytes,
                               .width = l->c.width[s],
                               .recompute = recompute};
    sum.stash = (double)b->stash / (double)size - sum.in;
    sum.work = (double)b->work / (double)size;
    return sl_search_cut_bytes(&rule, sl_search_setup_stage_micros(l, s), size, &sum, window);
}

/* What the smallest device of the stage has; INFINITY: no limit. */
static double memory_of(const struct sl_setup *l, int s) {
    double least = INFINITY;
    for (int r = 0; r < l->c.width[s]; r++) {
        double memory = (double)l->problem->memory[l->device_of[l->workers[s][r]]];
        least = memory > 0 && memory < least ? memory : least;
    }
    return least;
}

double sl_search_setup_lacks(const struct sl_setup *l) {
    int64_t *window = calloc((size_t)l->c.stage_count, sizeof *window);
    double worst = -INFINITY;
    for (int s = l->c.stage_count - 1; s >= 0; s--) {
        window[s] = window_of(l, s, window);
        worst = fmax(worst, bytes_of(l, s, window[s], l->c.recompute[s]) - memory_of(l, s));
    }
    free(window);
    return worst;
}

bool sl_search_setup_ease(const struct sl_setup *l, double scale, bool *recompute) {
    int64_t *window = calloc((size_t)l->c.stage_count, sizeof *window);
    bool changed = false;
    for (int s = l->c.stage_count - 1; s >= 0; s--) {
        window[s] = window_of(l, s, window);
        recompute[s] =
            l->c.recompute[s] && bytes_of(l, s, window[s], false) > scale * memory_of(l, s);
        changed |= recompute[s] != l->c.recompute[s];
    }
    free(window);
    return changed;
}
