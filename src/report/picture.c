/* Makes a picture from a timeline. */
#include "report/picture.h"

#include "report/critical.h"

/* The colour-blind safe palette of Okabe and Ito. */
static const struct {
    const char *hex;
    int ansi;
} colours[SL_KIND_COUNT] = {
    [SL_FORWARD] = {"#4c9be8", 75},         [SL_BACKWARD] = {"#e07b39", 173},
    [SL_BACKWARD_INPUT] = {"#e6b422", 178}, [SL_BACKWARD_WEIGHT] = {"#3fae7c", 72},
    [SL_RECOMPUTE] = {"#9fd0f5", 153},      [SL_SEND] = {"#888888", 102},
    [SL_RECV] = {"#888888", 102},           [SL_REDUCE] = {"#b07cc6", 140},
    [SL_STEP] = {"#8a8f98", 245},           [SL_PREDICT] = {"#d98cb3", 175},
};

const char *sl_report_colour(enum sl_kind kind) { return colours[kind].hex; }
int sl_report_ansi(enum sl_kind kind) { return colours[kind].ansi; }

static bool is_bar(const struct sl_span *span) {
    return span->action.kind != SL_SEND && span->action.kind != SL_RECV;
}

static struct sl_bar bar_of(const struct sl_span *span) {
    const struct sl_action *a = &span->action;
    return (struct sl_bar){.start_ns = span->start_ns,
                           .end_ns = span->end_ns,
                           .bytes = span->live_bytes,
                           .since_ns = span->since_ns,
                           .micro = a->kind <= SL_RECOMPUTE ? a->micro : -1,
                           .version = a->version,
                           .stage = a->stage,
                           .kind = a->kind};
}

static struct sl_arrow arrow_of(const struct sl_timeline *t, struct sl_moment send,
                                struct sl_moment recv) {
    const struct sl_span *from = &t->lanes[send.lane].at[send.span];
    const struct sl_span *to = &t->lanes[recv.lane].at[recv.span];
    return (struct sl_arrow){.start_ns = from->start_ns,
                             .left_ns = from->end_ns,
                             .end_ns = to->end_ns,
                             .from = send.lane,
                             .to = recv.lane,
                             .micro = from->action.micro,
                             .from_stage = from->action.stage,
                             .to_stage = to->action.stage,
                             .grad = from->action.flags & SL_GRAD};
}

struct maker {
    const struct sl_timeline *timeline;
    struct sl_bar *bars;
    int64_t *lane_at, *first_arrow; /* [lane] positions of its bars and arrows */
    struct sl_arrow *arrows;
};

/* Marks the n-th bar or SEND of a lane, which is how the critical path names actions. */
static void mark(struct maker *m, struct sl_moment at) {
    const struct sl_lane *lane = &m->timeline->lanes[at.lane];
    bool bar = is_bar(&lane->at[at.span]);
    int64_t before = 0;
    for (int64_t i = 0; i < at.span; i++)
        before += bar ? is_bar(&lane->at[i]) : lane->at[i].action.kind == SL_SEND;
    if (bar)
        m->bars[m->lane_at[at.lane] + before].critical = true;
    else
        m->arrows[m->first_arrow[at.lane] + before].critical = true;
}

/* Marks the path. Path and lanes are both sorted by time, so one walk over each lane suffices. */
static void mark_path(struct sl_arena *arena, struct maker *m, const struct sl_critical *path) {
    int64_t *seen = SL_NEW(arena, int64_t, m->timeline->lane_count);
    int64_t *bars = SL_NEW(arena, int64_t, m->timeline->lane_count);
    int64_t *sends = SL_NEW(arena, int64_t, m->timeline->lane_count);
    for (int64_t i = 0; i < path->count; i++) {
        struct sl_moment at = path->at[i];
        const struct sl_lane *lane = &m->timeline->lanes[at.lane];
        if (at.span < seen[at.lane]) { /* not in program order: searches from the start */
            mark(m, at);
            continue;
        }
        for (; seen[at.lane] < at.span; seen[at.lane]++) {
            bars[at.lane] += is_bar(&lane->at[seen[at.lane]]);
            sends[at.lane] += lane->at[seen[at.lane]].action.kind == SL_SEND;
        }
        if (is_bar(&lane->at[at.span]))
            m->bars[m->lane_at[at.lane] + bars[at.lane]].critical = true;
        else
            m->arrows[m->first_arrow[at.lane] + sends[at.lane]].critical = true;
    }
}

static void count_all(struct maker *m, int64_t *bars, int64_t *arrows) {
    *bars = *arrows = 0;
    for (int l = 0; l < m->timeline->lane_count; l++) {
        m->lane_at[l] = *bars;
        m->first_arrow[l] = *arrows;
        for (int64_t i = 0; i < m->timeline->lanes[l].count; i++) {
            *bars += is_bar(&m->timeline->lanes[l].at[i]);
            *arrows += m->timeline->lanes[l].at[i].action.kind == SL_SEND;
        }
    }
    m->lane_at[m->timeline->lane_count] = *bars;
}

static void fill(struct maker *m) {
    struct sl_matches *matches = sl_sched_matches_open(m->timeline);
    int64_t bar = 0, arrow = 0;
    for (int l = 0; l < m->timeline->lane_count; l++)
        for (int64_t i = 0; i < m->timeline->lanes[l].count; i++) {
            const struct sl_span *span = &m->timeline->lanes[l].at[i];
            struct sl_moment send, recv;
            if (is_bar(span))
                m->bars[bar++] = bar_of(span);
            else if (span->action.kind == SL_SEND &&
                     sl_sched_matches_find(matches, &span->action, &send, &recv))
                m->arrows[arrow++] = arrow_of(m->timeline, send, recv);
            else if (span->action.kind == SL_SEND)
                m->arrows[arrow++] = (struct sl_arrow){.from = l, .to = l};
        }
    sl_sched_matches_close(matches);
}

void sl_report_picture_build(struct sl_arena *arena, const struct sl_timeline *timeline,
                             const char *title, const char *detail, struct sl_picture *out) {
    const struct sl_plan *plan = timeline->sched->plan;
    struct maker m = {.timeline = timeline};
    struct sl_critical path;
    int64_t bars, arrows;
    const char **stages = SL_NEW(arena, const char *, plan->stage_count);
    for (int i = 0; i < plan->stage_count; i++)
        stages[i] = plan->stages[i].name;
    m.lane_at = SL_NEW(arena, int64_t, timeline->lane_count + 1);
    m.first_arrow = SL_NEW(arena, int64_t, timeline->lane_count + 1);
    count_all(&m, &bars, &arrows);
    m.bars = SL_NEW(arena, struct sl_bar, bars);
    m.arrows = SL_NEW(arena, struct sl_arrow, arrows);
    fill(&m);
    sl_report_timeline_critical(arena, timeline, &path);
    mark_path(arena, &m, &path);
    *out = (struct sl_picture){.title = title,
                               .detail = detail,
                               .stages = stages,
                               .stage_count = plan->stage_count,
                               .lane_count = timeline->lane_count,
                               .bars = m.bars,
                               .lane_at = m.lane_at,
                               .arrows = m.arrows,
                               .arrow_count = arrows,
                               .end_ns = timeline->end_ns,
                               .measured = timeline->measured,
                               .sketch = sl_plan_is_sketch(plan),
                               .pass_ns = path.pass_ns,
                               .weight_ns = path.weight_ns,
                               .transfer_ns = path.transfer_ns,
                               .gap_ns = path.gap_ns};
}

int64_t sl_report_picture_busy(const struct sl_picture *p, int lane) {
    int64_t busy = 0;
    for (int64_t i = p->lane_at[lane]; i < p->lane_at[lane + 1]; i++)
        busy += p->bars[i].end_ns - p->bars[i].start_ns;
    return busy;
}

int64_t sl_report_picture_peak(const struct sl_picture *p, int lane) {
    int64_t peak = 0;
    for (int64_t i = p->lane_at[lane]; i < p->lane_at[lane + 1]; i++)
        peak = p->bars[i].bytes > peak ? p->bars[i].bytes : peak;
    return peak;
}
