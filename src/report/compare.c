/* Makes names and steps of two timelines on one page comparable (compare.h). */
#include "report/compare.h"

#include "base/vec.h"

#include <string.h>

static bool is_step(const struct sl_bar *bar) { return bar->kind == SL_STEP && bar->stage == 0; }

/* Returns the first lane with a step of the first stage; -1: none. */
static int stepping_lane(const struct sl_picture *p) {
    for (int l = 0; l < p->lane_count; l++)
        for (int64_t i = p->lane_at[l]; i < p->lane_at[l + 1]; i++)
            if (is_step(&p->bars[i]))
                return l;
    return -1;
}

int64_t sl_report_picture_steps(const struct sl_picture *p) {
    int lane = stepping_lane(p);
    int64_t steps = 0;
    for (int64_t i = lane < 0 ? 0 : p->lane_at[lane]; lane >= 0 && i < p->lane_at[lane + 1]; i++)
        steps += is_step(&p->bars[i]);
    return steps;
}

/* ---- names ---- */

static const char *base_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

void sl_report_name_files(struct sl_arena *arena, struct sl_picture *pictures,
                          const char *const *paths, int count) {
    bool distinct = true;
    for (int i = 1; i < count; i++)
        for (int k = 0; k < i; k++)
            distinct &= strcmp(base_of(paths[i]), base_of(paths[k])) != 0;
    for (int i = 0; i < count; i++) {
        struct sl_picture *p = &pictures[i];
        p->detail = sl_arena_printf(arena, "%s%s%s", p->title, *p->detail ? ": " : "", p->detail);
        p->title = distinct ? base_of(paths[i]) : paths[i];
    }
}

/* ---- an equal number of steps ---- */

struct window {
    int64_t start, end; /* in ns */
};

static bool is_inside(const struct window *w, int64_t start, int64_t end) {
    return start < w->end && end > w->start;
}

static int64_t clip(const struct window *w, int64_t ns) {
    return ns < w->start ? 0 : ns > w->end ? w->end - w->start : ns - w->start;
}

/* Returns the window from the end of step `first` (0: the start of the run) to the end of step
 * `last`. */
static struct window window_of(const struct sl_picture *p, int64_t first, int64_t last) {
    int lane = stepping_lane(p);
    struct window w = {0, p->end_ns};
    int64_t step = 0;
    for (int64_t i = p->lane_at[lane]; i < p->lane_at[lane + 1]; i++) {
        if (!is_step(&p->bars[i]))
            continue;
        step++;
        w.start = step == first ? p->bars[i].end_ns : w.start;
        w.end = step == last ? p->bars[i].end_ns : w.end;
    }
    return w;
}

static void cut_bars(struct sl_arena *arena, const struct window *w, struct sl_picture *p) {
    struct sl_bar *bars = SL_NEW(arena, struct sl_bar, p->lane_at[p->lane_count]);
    int64_t *lane_at = SL_NEW(arena, int64_t, p->lane_count + 1), count = 0;
    for (int l = 0; l < p->lane_count; l++) {
        for (int64_t i = p->lane_at[l]; i < p->lane_at[l + 1]; i++) {
            struct sl_bar bar = p->bars[i];
            if (!is_inside(w, bar.start_ns, bar.end_ns))
                continue;
            bar.start_ns = clip(w, bar.start_ns);
            bar.end_ns = clip(w, bar.end_ns);
            bar.since_ns = bar.since_ns ? clip(w, bar.since_ns) : 0;
            bars[count++] = bar;
        }
        lane_at[l + 1] = count;
    }
    p->bars = bars;
    p->lane_at = lane_at;
}

static void cut_arrows(struct sl_arena *arena, const struct window *w, struct sl_picture *p) {
    struct sl_arrow *arrows = SL_NEW(arena, struct sl_arrow, p->arrow_count);
    int64_t count = 0;
    for (int64_t i = 0; i < p->arrow_count; i++) {
        struct sl_arrow a = p->arrows[i];
        if (!is_inside(w, a.start_ns, a.end_ns))
            continue;
        a.start_ns = clip(w, a.start_ns);
        a.left_ns = clip(w, a.left_ns);
        a.end_ns = clip(w, a.end_ns);
        arrows[count++] = a;
    }
    p->arrows = arrows;
    p->arrow_count = count;
}

/* A part of the critical path. */
struct part {
    int64_t start, end;
    int64_t *sum; /* the sum of its kind in the picture */
    bool waits;   /* it is a reduction, which lasts until the next part */
};

static int by_start(const void *a, const void *b) {
    const struct part *x = a, *y = b;
    return x->start != y->start ? (x->start > y->start) - (x->start < y->start)
                                : (x->end > y->end) - (x->end < y->end);
}

/* Sums the parts of the critical path within the window; each counts up to the start of the
 * next. */
static void sum_path(struct sl_picture *p) {
    SL_VEC(struct part) parts = {0};
    p->pass_ns = p->weight_ns = p->transfer_ns = 0;
    p->gap_ns = p->end_ns;
    for (int64_t i = 0; i < p->lane_at[p->lane_count]; i++) {
        const struct sl_bar *bar = &p->bars[i];
        struct part part = {bar->start_ns, bar->end_ns,
                            bar->kind <= SL_RECOMPUTE ? &p->pass_ns : &p->weight_ns,
                            bar->kind == SL_REDUCE};
        if (bar->critical)
            SL_PUSH(&parts, part);
    }
    for (int64_t i = 0; i < p->arrow_count; i++) {
        const struct sl_arrow *a = &p->arrows[i];
        if (a->critical)
            SL_PUSH(&parts, ((struct part){a->start_ns, a->end_ns, &p->transfer_ns, false}));
    }
    if (parts.count)
        qsort(parts.at, (size_t)parts.count, sizeof *parts.at, by_start);
    for (int64_t i = 0; i < parts.count; i++) {
        const struct part *part = &parts.at[i];
        int64_t next = i + 1 < parts.count ? part[1].start : p->end_ns;
        int64_t ns = (part->waits || next < part->end ? next : part->end) - part->start;
        *part->sum += ns;
        p->gap_ns -= ns;
    }
    SL_VEC_FREE(&parts);
}

static void keep_steps(struct sl_arena *arena, struct sl_picture *p, int64_t all, int64_t keep) {
    int64_t first = (all - keep) / 2, last = first + keep;
    struct window w = window_of(p, first, last);
    bool has_path = p->pass_ns || p->weight_ns || p->transfer_ns || p->gap_ns;
    cut_bars(arena, &w, p);
    cut_arrows(arena, &w, p);
    p->end_ns = w.end - w.start;
    if (has_path)
        sum_path(p);
    p->detail = keep == 1
                    ? sl_arena_printf(arena, "%s%sstep %lld of %lld", p->detail,
                                      *p->detail ? ", " : "", (long long)first + 1, (long long)all)
                    : sl_arena_printf(arena, "%s%ssteps %lld to %lld of %lld", p->detail,
                                      *p->detail ? ", " : "", (long long)first + 1, (long long)last,
                                      (long long)all);
}

void sl_report_align_steps(struct sl_arena *arena, struct sl_picture pictures[2]) {
    int64_t steps[2] = {sl_report_picture_steps(&pictures[0]),
                        sl_report_picture_steps(&pictures[1])};
    if (!steps[0] || !steps[1] || steps[0] == steps[1])
        return;
    int more = steps[1] > steps[0];
    keep_steps(arena, &pictures[more], steps[more], steps[!more]);
}
