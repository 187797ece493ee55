/* Estimates the memory of a candidate from sums and windows. A simulated candidate has the exact
 * bytes of its schedule instead. */
#include "search/cuts.h"

#include <math.h>
#include <stdlib.h>

static int64_t size_of(const struct sl_candidate_detail *detail, int stage) {
    return detail->problem->sizes[sl_search_candidate_size(&detail->c, stage)];
}

/* Micro-batches in flight on stage s, in the stage's own size. window[] of all later stages must be
 * known. */
static int64_t window_of(const struct sl_candidate_detail *detail, int s, const int64_t *window) {
    int64_t size = size_of(detail, s), group = sl_search_candidate_group(&detail->c, s);
    int64_t max = group * size;
    for (int e = detail->edge_at[s]; e < detail->edge_at[s + 1]; e++) {
        int to = detail->edges[e].to;
        int64_t need =
            sl_schedules_row_need(size, group, window[to] * size_of(detail, to),
                                  size_of(detail, to), sl_search_candidate_group(&detail->c, to));
        max = need > max ? need : max;
    }
    return max / size + (detail->c.width[s] - 1) * group;
}

static double bytes_of(const struct sl_candidate_detail *detail, int s, int64_t window,
                       bool recompute) {
    const struct sl_stage_bytes *b = &detail->stages[s].bytes;
    struct sl_search_memory_rule rule = sl_search_memory_rule(detail->c.schedule);
    int64_t size = size_of(detail, s);
    struct sl_cut_stage sum = {.params = (double)b->params,
                               .fixed = (double)(b->fixed + b->grads + b->state),
                               .in = (double)detail->stages[s].in_bytes,
                               .out = (double)detail->stages[s].out_bytes,
                               .width = detail->c.width[s],
                               .recompute = recompute};
    sum.stash = (double)b->stash / (double)size - sum.in;
    sum.work = (double)b->work / (double)size;
    return sl_search_cut_bytes(&rule, sl_search_candidate_stage_micros(detail, s), size, &sum,
                               window);
}

/* Returns the memory of the stage's smallest device; INFINITY: no limit. */
static double memory_of(const struct sl_candidate_detail *detail, int s) {
    double least = INFINITY;
    for (int r = 0; r < detail->c.width[s]; r++) {
        double memory = (double)detail->problem->memory[detail->device_of[detail->workers[s][r]]];
        least = memory > 0 && memory < least ? memory : least;
    }
    return least;
}

/* ---- stages that share workers ---- */

/* Micro-batches in flight on stage s, as a mean over the stages of its worker: interleaved and
 * V-shaped schedules bound the sum over these stages, chimera bounds each. */
static double shared_window(const struct sl_candidate_detail *detail, int s, int replica) {
    const struct sl_candidate *c = &detail->c;
    const struct sl_schedule *row = sl_schedules_row_find(c->schedule);
    int p = c->ranks, v = c->stage_count / p, rank = sl_search_candidate_rank(c, s, replica);
    int64_t micros = sl_search_candidate_stage_micros(detail, s);
    int64_t share = (micros + c->width[s] - 1) / c->width[s];
    double live = row->layout == SL_LAYOUT_CROSS ? p - s
                  : row->layout == SL_LAYOUT_V   ? p + 0.5
                                                 : (2.0 * (p - rank - 1) + (v - 1.0) * p + 1) / v;
    return fmin(live, (double)share);
}

static double shared_bytes(const struct sl_candidate_detail *detail, int rank, int each) {
    double sum = 0, work = 0;
    for (int s = 0; s < detail->c.stage_count; s++)
        for (int r = 0; r < each; r++) {
            const struct sl_candidate_stage *stage = &detail->stages[s];
            const struct sl_stage_bytes *b = &stage->bytes;
            double size = (double)size_of(detail, s), one = (double)b->stash;
            if (sl_search_candidate_rank(&detail->c, s, r) != rank)
                continue;
            double live = shared_window(detail, s, r);
            sum += (double)(b->params + b->fixed + b->grads + b->state) +
                   2 * (double)(stage->in_bytes + stage->out_bytes) * size;
            live = stage->passes == SL_STAGE_FORWARD ? 1 : live;
            sum += sl_search_candidate_recomputes(detail, s) ? live * (double)b->saved : live * one;
            work =
                fmax(work, (double)b->work + (sl_search_candidate_recomputes(detail, s) ? one : 0));
        }
    return sum + work;
}

static double shared_shortfall(const struct sl_candidate_detail *detail) {
    int pipelines = sl_search_candidate_devices(&detail->c) / detail->c.ranks;
    double worst = -INFINITY;
    for (int rank = 0; rank < detail->c.ranks; rank++) {
        double bytes = shared_bytes(detail, rank, detail->c.width[0] / pipelines);
        for (int s = 0; s < detail->c.stage_count; s++)
            if (sl_search_candidate_rank(&detail->c, s, 0) == rank)
                worst = fmax(worst, bytes - memory_of(detail, s));
    }
    return worst;
}

double sl_search_candidate_shortfall(const struct sl_candidate_detail *detail) {
    if (detail->c.ranks)
        return shared_shortfall(detail);
    int64_t *window = calloc((size_t)detail->c.stage_count, sizeof *window);
    double worst = -INFINITY;
    for (int s = detail->c.stage_count - 1; s >= 0; s--) {
        window[s] = window_of(detail, s, window);
        int64_t live = detail->stages[s].passes == SL_STAGE_FORWARD ? 1 : window[s];
        bool recompute = sl_search_candidate_recomputes(detail, s);
        worst = fmax(worst, bytes_of(detail, s, live, recompute) - memory_of(detail, s));
    }
    free(window);
    return worst;
}

bool sl_search_candidate_drop_recompute(const struct sl_candidate_detail *detail, double scale,
                                        bool *recompute) {
    if (detail->c.ranks) { /* all stages recompute, or none */
        for (int s = 0; s < detail->c.stage_count; s++)
            recompute[s] = detail->c.recompute[s];
        return false;
    }
    int64_t *window = calloc((size_t)detail->c.stage_count, sizeof *window);
    bool changed = false;
    for (int s = detail->c.stage_count - 1; s >= 0; s--) {
        window[s] = window_of(detail, s, window);
        recompute[s] = detail->c.recompute[s] &&
                       bytes_of(detail, s, window[s], false) > scale * memory_of(detail, s);
        changed |= recompute[s] != detail->c.recompute[s];
    }
    free(window);
    return changed;
}
