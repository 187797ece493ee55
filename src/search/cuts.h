/* The bottleneck search: stages from the last to the first, each at most T.
 *
 * For one limit T a sweep visits the downsets from the full one to the empty one. A label on a
 * downset says how its complement is cut: devices used, and for every tensor that crosses, the
 * window (micro-batches in flight) of the stages that read it. The window of a new stage is its
 * width plus the largest window behind it, as the 1F1B schedules on graphs of stages have it
 * (sl_sched_gen_inflight), so memory is known when the stage is made. A label that needs no fewer devices
 * and has no smaller window anywhere than another is dropped. Bisection finds the smallest T.
 */
#ifndef SL_SEARCH_CUTS_H
#define SL_SEARCH_CUTS_H

#include "base/vec.h"
#include "search/candidate.h"
#include "search/family.h"

/* What a planner allows itself. */
struct sl_cut_rules {
    bool sequential; /* stages in a row */
    bool doubling;   /* widths are powers of two */
    enum sl_recompute recompute;
    const char *schedule;
    int size;
    int devices;         /* at most */
    int labels;          /* per downset, at most; 0: as many as it takes */
    double tolerance;    /* of the bisection; 0: to the nanosecond */
    const int *order;    /* devices, last stage first; NULL: from the last device down */
    double memory_scale; /* use so much of the memory */
    int64_t limit;       /* plans that are not faster than this are of no use; 0: all are */
    bool best_only;      /* not the slower and shorter ones */
};

struct sl_cut_found { /* plans, best bottleneck first */
    SL_VEC(struct sl_candidate) at;
    int64_t best, bound; /* bottleneck of the best; nothing below `bound` exists in the family */
    bool dropped;        /* labels were given up: `bound` is not proven */
    int64_t pairs, sweeps;
    /* when nothing fits: the unit that does not, and by how much it misses alone on a device */
    int tight_unit;
    int64_t tight_bytes;
};

/* Candidates go to `arena`. Nothing found: at.count == 0. `until_ns` 0: no limit of time. */
void sl_search_cuts_search(struct sl_arena *arena, const struct sl_problem *problem,
                           const struct sl_family *family, const struct sl_cut_rules *rules,
                           int64_t until_ns, struct sl_cut_found *out);

/* How many micro-batches a schedule keeps alive, and how many versions of the weights. */
struct sl_search_memory_rule {
    bool all;     /* every micro-batch of the iteration; else the window */
    bool twice;   /* two versions */
    bool stashes; /* as many versions as steps are in flight */
};
struct sl_search_memory_rule sl_search_memory_rule(const char *schedule);

/* A stage's sums, and the bytes they make. */
struct sl_cut_stage {
    int64_t f, b, step;                         /* ns */
    double params, fixed, stash, in, out, work; /* bytes; per sample from stash on */
    int width;
    bool recompute;
};
double sl_search_cut_bytes(const struct sl_search_memory_rule *rule, int64_t micros, int64_t size,
                           const struct sl_cut_stage *stage, int64_t window);

#endif
