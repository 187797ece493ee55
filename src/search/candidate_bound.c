/* Bottleneck and lower bound of a candidate (candidate.h). */
#include "search/candidate.h"

#include <math.h>
#include <stdlib.h>

static int64_t size_of(const struct sl_candidate_detail *detail, int stage) {
    return detail->problem->sizes[sl_search_candidate_size(&detail->c, stage)];
}

static int64_t rounds(const struct sl_candidate_detail *detail, int s) {
    return (sl_search_candidate_stage_micros(detail, s) + detail->c.width[s] - 1) /
           detail->c.width[s];
}

static int64_t pass_ns(const struct sl_candidate_detail *detail, int s) {
    const struct sl_candidate_stage *stage = &detail->stages[s];
    return stage->f + stage->i + stage->w +
           (sl_search_candidate_recomputes(detail, s)
                ? sl_search_recompute_ns(detail->problem, stage->f)
                : 0);
}

/* Returns a lower bound on the time of the wire into the stage; 0 if passes include the copy. */
static int64_t wire_ns(const struct sl_candidate_detail *detail, int s) {
    const struct sl_machine *m = detail->problem->machine;
    /* best: bandwidth of the fastest link; link: bandwidth of the link from the previous worker */
    double best = 0, link = 0;
    bool within = true;
    if (detail->c.ranks) /* the previous worker may be on the same device */
        return 0;
    for (int i = 0; i < m->link_count; i++)
        best = m->links[i].bandwidth > best ? m->links[i].bandwidth : best;
    double bytes = (double)detail->stages[s].in_bytes * (double)size_of(detail, s);
    if (detail->stages[s].first > 0) {
        int from = detail->device_of[detail->stages[s].first - 1],
            to = detail->device_of[detail->stages[s].first];
        link = sl_cost_machine_between(m, from, to)->bandwidth;
        within = m->host_of[from] == m->host_of[to];
    }
    if (!detail->stages[s].in_bytes || (within && detail->problem->copy_bytes_per_s > 0))
        return 0;
    return (int64_t)floor(1e9 * (double)rounds(detail, s) * bytes / (link > 0 ? link : best));
}

/* Longest paths from and to a stage, in ns. */
struct wait {
    int64_t there;  /* forward passes of earlier stages, before this stage can begin */
    int64_t back;   /* backward passes of earlier stages, after this stage has ended */
    int64_t behind; /* passes of later stages, between forward and backward of a micro-batch */
    int64_t window; /* number of replicas from here to the sink */
};

/* Returns the work of the busiest of the ranks that share stages, with the shortest path to one of
 * its stages. `wait` may be NULL. */
static int64_t rank_bound(const struct sl_candidate_detail *detail, const struct wait *wait,
                          int *stage) {
    const struct sl_candidate *c = &detail->c;
    int pairs = sl_search_candidate_devices(c) / c->ranks, each = c->width[0] / pairs;
    int64_t max = 0;
    for (int rank = 0; rank < c->ranks; rank++) {
        int64_t busy = 0, there = INT64_MAX, longest = 0;
        int slowest = -1;
        for (int s = 0; s < c->stage_count; s++)
            for (int r = 0; r < each; r++) {
                if (sl_search_candidate_rank(c, s, r) != rank)
                    continue;
                int64_t own = rounds(detail, s) * pass_ns(detail, s) + detail->stages[s].step;
                busy += own;
                if (own > longest || slowest < 0)
                    slowest = s;
                longest = own > longest ? own : longest;
                if (wait && wait[s].there < there)
                    there = wait[s].there;
            }
        busy += wait && there < INT64_MAX ? there : 0;
        if (busy > max && stage)
            *stage = slowest;
        max = busy > max ? busy : max;
    }
    return max;
}

int64_t sl_search_candidate_bottleneck(const struct sl_candidate_detail *detail, int *stage) {
    int64_t max = -1;
    if (detail->c.ranks)
        return rank_bound(detail, NULL, stage);
    for (int s = 0; s < detail->c.stage_count; s++) {
        int64_t busy = rounds(detail, s) * pass_ns(detail, s) + detail->stages[s].step +
                       detail->stages[s].reduce;
        int64_t wire = wire_ns(detail, s);
        busy = wire > busy ? wire : busy;
        if (busy > max) {
            max = busy;
            if (stage)
                *stage = s;
        }
    }
    return max;
}

int64_t sl_search_async_in_flight(int64_t micros, int devices) {
    /* Per device 2 because of slack, times 2 for both directions. With one global step the first
     * step may come an iteration later. */
    return 4 * (int64_t)devices + micros + 1;
}

int64_t sl_search_async_bound(int64_t busy_ns, int64_t micros, int devices) {
    int64_t all = (SL_ASYNC_ITERS - 1) * micros,
            before = sl_search_async_in_flight(micros, devices);
    return before >= all ? 0 : (int64_t)((double)busy_ns * (double)(all - before) / (double)all);
}

static void find_waits(const struct sl_candidate_detail *detail, bool split, struct wait *out) {
    for (int s = detail->c.stage_count - 1; s >= 0; s--) {
        for (int e = detail->edge_at[s]; e < detail->edge_at[s + 1]; e++) {
            const struct sl_candidate_stage *to = &detail->stages[detail->edges[e].to];
            const struct wait *next = &out[detail->edges[e].to];
            int64_t way = to->f + to->i + (split ? 0 : to->w) + next->behind;
            out[s].behind = way > out[s].behind ? way : out[s].behind;
            out[s].window = next->window > out[s].window ? next->window : out[s].window;
        }
        out[s].window += detail->c.width[s];
    }
    for (int s = 0; s < detail->c.stage_count; s++)
        for (int e = detail->edge_at[s]; e < detail->edge_at[s + 1]; e++) {
            const struct sl_candidate_stage *stage = &detail->stages[s];
            struct wait *next = &out[detail->edges[e].to];
            int64_t f = out[s].there + stage->f;
            int64_t b = out[s].back + stage->i + (split ? 0 : stage->w);
            next->there = f > next->there ? f : next->there;
            next->back = b > next->back ? b : next->back;
        }
}

/* Bound on a synchronous iteration: all passes of a stage, and the passes that must come before and
 * after them. */
static int64_t stage_bound(const struct sl_candidate_detail *detail, int s, const struct wait *wait,
                           bool split) {
    const struct sl_candidate_stage *stage = &detail->stages[s];
    int64_t width = detail->c.width[s], n = rounds(detail, s), busy = n * pass_ns(detail, s);
    int64_t late = split ? n * stage->w : 0; /* W passes, which may overlap with earlier stages */
    int64_t end = stage->step + stage->reduce, live = (wait->window + width - 1) / width;
    int64_t own = busy + end, way = busy - late + wait->back;
    /* The first backward pass waits for the first gradient. Until then the stage runs only the
     * forward passes in its window and one recomputation. */
    int64_t after = stage->f + wait->behind + n * (stage->i + stage->w);
    if (sl_search_schedule_windowed(detail->c.schedule) && !detail->c.size_of &&
        !detail->c.group_of && n > live)
        after += (n - live) * stage->f;
    after += sl_search_candidate_recomputes(detail, s)
                 ? (n - 1) * sl_search_recompute_ns(detail->problem, stage->f)
                 : 0;
    after += wait->back > end && !split ? wait->back : end;
    own = own > way ? own : way;
    if (stage->passes == SL_STAGE_FORWARD) /* such a stage waits for no gradient */
        return wait->there + busy + end;
    return wait->there + (own > after ? own : after);
}

/* Bound with two weight versions. The first pass of an iteration waits for the step two iterations
 * before, so two iterations take at least as long as the path of the last micro-batch from here to
 * the end and back. All but the first and last few simulated iterations count. */
static int64_t two_version_bound(const struct sl_candidate_detail *detail, int s,
                                 const struct wait *wait) {
    enum { PAIRS = (SL_ASYNC_ITERS - 8) / 2 };
    const struct sl_candidate_stage *stage = &detail->stages[s];
    int64_t least = sl_search_candidate_stage_micros(detail, s) / detail->c.width[s];
    int64_t way = (least > 1 ? least : 1) * stage->f + wait->behind + stage->i + stage->w;
    return (int64_t)((double)(way + stage->step) * PAIRS / (SL_ASYNC_ITERS - 1));
}

/* The largest bound of any stage. A stage of an asynchronous schedule is bounded by its own work
 * only, since all waits but those for a version may overlap with it. If ties make stages step
 * together, its reductions may overlap too and are left out. */
int64_t sl_search_candidate_bound(const struct sl_candidate_detail *detail) {
    const struct sl_schedule *row = sl_schedules_row_find(detail->c.schedule);
    bool sync = !row || row->rule == SL_RULE_SYNC,
         split = sl_search_schedule_splits(detail->c.schedule);
    struct wait *wait = calloc((size_t)detail->c.stage_count, sizeof *wait);
    int64_t max = 0;
    find_waits(detail, split, wait);
    for (int s = 0; s < detail->c.stage_count; s++) {
        int64_t own = rounds(detail, s) * pass_ns(detail, s) + detail->stages[s].step;
        own += detail->problem->tie_count ? 0 : detail->stages[s].reduce;
        int64_t all = sync ? stage_bound(detail, s, &wait[s], split)
                           : sl_search_async_bound(own, sl_search_candidate_micros(detail),
                                                   detail->device_count);
        if (row && row->rule == SL_RULE_2BW) {
            int64_t two = two_version_bound(detail, s, &wait[s]);
            all = two > all ? two : all;
        }
        max = all > max ? all : max;
    }
    if (detail->c.ranks) {
        int64_t shared = rank_bound(detail, wait, NULL);
        max = shared > max ? shared : max;
    }
    free(wait);
    return max;
}
