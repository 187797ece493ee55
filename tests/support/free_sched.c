/* Random schedules and their judge; free_sched.h says how. */
#include "support/free_sched.h"

#include <string.h>

/* ---- graphs ---- */

void free_graph_draw(struct dice *dice, struct free_graph *g) {
    *g = (struct free_graph){.stages = 1 + (int)dice_below(dice, 5),
                             .micros = 1 + (int)dice_below(dice, 5)};
    bool chain = dice_below(dice, 2) == 0;
    for (int to = 1; to < g->stages; to++)
        for (int from = 0; from < to; from++)
            if (from == to - 1 ? chain || dice_below(dice, 3)
                               : !chain && dice_below(dice, 3) == 0) {
                g->edge[g->edges][0] = from;
                g->edge[g->edges++][1] = to;
            }
    g->workers = 1 + (int)dice_below(dice, g->stages);
    for (int s = 0; s < g->stages; s++) /* every worker has one */
        g->worker_of[s] = s < g->workers ? s : (int)dice_below(dice, g->workers);
}

/* ---- playing ---- */

enum { DONE_F = 1, DONE_I = 2, DONE_W = 4 };

struct play {
    const struct free_graph *graph;
    int done[FREE_STAGES][FREE_MICROS];
};

static bool has_inputs(const struct play *p, int stage, int micro) {
    for (int e = 0; e < p->graph->edges; e++)
        if (p->graph->edge[e][1] == stage && !(p->done[p->graph->edge[e][0]][micro] & DONE_F))
            return false;
    return true;
}

static bool has_gradients(const struct play *p, int stage, int micro) {
    for (int e = 0; e < p->graph->edges; e++)
        if (p->graph->edge[e][0] == stage && !(p->done[p->graph->edge[e][1]][micro] & DONE_I))
            return false;
    return true;
}

static bool is_ready(const struct play *p, const struct free_pass *pass) {
    int done = p->done[pass->stage][pass->micro];
    switch (pass->kind) {
    case 'F': return has_inputs(p, pass->stage, pass->micro);
    case 'W': return done & DONE_I;
    default: return (done & DONE_F) && has_gradients(p, pass->stage, pass->micro);
    }
}

/* False: a second time. */
static bool run_pass(struct play *p, const struct free_pass *pass) {
    int adds = pass->kind == 'F'   ? DONE_F
               : pass->kind == 'I' ? DONE_I
               : pass->kind == 'W' ? DONE_W
                                   : DONE_I | DONE_W;
    int *done = &p->done[pass->stage][pass->micro];
    if (*done & adds)
        return false;
    *done |= adds;
    return true;
}

/* How much a player likes a pass: what makes 1F1B, GPipe, last in first out, or nothing at all. */
static int64_t taste(struct dice *dice, int style, const struct free_pass *pass) {
    int64_t luck = dice_below(dice, 4);
    switch (style) {
    case 0: return (pass->kind != 'F') * 8 - pass->micro + luck;
    case 1: return (pass->kind == 'F') * 8 - pass->micro;
    case 2: return (pass->kind == 'F') * 8 + pass->micro;
    default: return dice_below(dice, 1000);
    }
}

void free_sched_draw(struct dice *dice, const struct free_graph *graph, struct free_sched *out) {
    struct play play = {.graph = graph};
    int style = (int)dice_below(dice, 5), split = (int)dice_below(dice, 3);
    *out = (struct free_sched){.graph = *graph, .iters = 1 + (int)dice_below(dice, 3)};
    for (;;) {
        struct free_pass best = {0};
        int64_t most = INT64_MIN;
        for (int s = 0; s < graph->stages; s++)
            for (int k = 0; k < graph->micros; k++)
                for (const char *kind = "FBIW"; *kind; kind++) {
                    struct free_pass pass = {*kind, s, k};
                    struct play next = play;
                    bool whole = split == 0 || (split == 1 && (s + k) % 2 == 0);
                    if ((*kind == 'B') != whole && *kind != 'F')
                        continue;
                    if (!is_ready(&play, &pass) || !run_pass(&next, &pass))
                        continue;
                    int64_t now = taste(dice, style, &pass);
                    if (now > most) {
                        most = now;
                        best = pass;
                    }
                }
        if (!best.kind)
            return;
        run_pass(&play, &best);
        int w = graph->worker_of[best.stage];
        out->list[w][out->count[w]++] = best;
    }
}

const char *free_sched_judge(const struct free_sched *s) {
    struct play play = {.graph = &s->graph};
    int at[FREE_STAGES] = {0};
    for (int w = 0; w < s->graph.workers; w++)
        for (int i = 0; i < s->count[w]; i++) {
            const struct free_pass *p = &s->list[w][i];
            if (p->micro >= s->graph.micros || s->graph.worker_of[p->stage] != w)
                return "a pass that is nowhere";
        }
    for (bool moved = true; moved;) {
        moved = false;
        for (int w = 0; w < s->graph.workers; w++)
            for (; at[w] < s->count[w] && is_ready(&play, &s->list[w][at[w]]); at[w]++) {
                if (!run_pass(&play, &s->list[w][at[w]]))
                    return "a pass twice";
                moved = true;
            }
    }
    for (int w = 0; w < s->graph.workers; w++)
        if (at[w] < s->count[w])
            return "a worker waits for ever";
    for (int i = 0; i < s->graph.stages; i++)
        for (int k = 0; k < s->graph.micros; k++)
            if (play.done[i][k] != (DONE_F | DONE_I | DONE_W))
                return "a pass is missing";
    return NULL;
}

void free_sched_order(const struct free_sched *s, int stage, bool sums, int out[FREE_MICROS]) {
    int w = s->graph.worker_of[stage], count = 0;
    for (int i = 0; i < s->count[w]; i++) {
        const struct free_pass *p = &s->list[w][i];
        bool adds = p->kind == 'B' || p->kind == 'W';
        if (p->stage == stage && (sums ? adds : p->kind == 'F'))
            out[count++] = p->micro;
    }
}

/* ---- mutants ---- */

static void insert(struct free_sched *s, int w, int at, struct free_pass pass) {
    memmove(&s->list[w][at + 1], &s->list[w][at], sizeof pass * (size_t)(s->count[w] - at));
    s->list[w][at] = pass;
    s->count[w]++;
}

static struct free_pass take(struct free_sched *s, int w, int at) {
    struct free_pass pass = s->list[w][at];
    s->count[w]--;
    memmove(&s->list[w][at], &s->list[w][at + 1], sizeof pass * (size_t)(s->count[w] - at));
    return pass;
}

bool free_sched_mutate(struct dice *dice, struct free_sched *s) {
    struct free_sched before = *s;
    int w = (int)dice_below(dice, s->graph.workers);
    if (s->count[w] < 2 || s->count[w] > FREE_PASSES)
        return false;
    int i = (int)dice_below(dice, s->count[w]), j = (int)dice_below(dice, s->count[w]);
    if (dice_below(dice, 2) == 0) /* a near place: these often run */
        j = i + 1 < s->count[w] ? i + 1 : i - 1;
    struct free_pass *at = &s->list[w][i];
    switch (dice_below(dice, 16)) {
    case 0: *at = s->list[w][j]; break;
    case 1: take(s, w, i); break;
    case 2: insert(s, w, j, *at); break;
    case 3: at->micro = (int)dice_below(dice, s->graph.micros + 1); break;
    case 4: at->stage = (int)dice_below(dice, s->graph.stages); break;
    case 5: at->kind = "FBIW"[dice_below(dice, 4)]; break;
    case 6: /* a B becomes I and, later, W */
        if (at->kind == 'B') {
            struct free_pass late = {'W', at->stage, at->micro};
            at->kind = 'I';
            insert(s, w, i + 1 + (int)dice_below(dice, s->count[w] - i), late);
        }
        break;
    case 7:
    case 8:
    case 9:
    case 10: { /* two passes change places */
        struct free_pass other = s->list[w][j];
        s->list[w][j] = *at;
        s->list[w][i] = other;
        break;
    }
    default: insert(s, w, j, take(s, w, i)); break; /* j <= the new count */
    }
    return memcmp(&before, s, sizeof before) != 0;
}

/* ---- files ---- */

void free_sched_text(const struct free_sched *s, struct sl_text *out) {
    const struct free_graph *g = &s->graph;
    sl_text_printf(out, "sluice-sched 1\nworkers %d\n", g->workers);
    for (int i = 0; i < g->stages; i++)
        sl_text_printf(out, "stage s%d width 1 micro 1 on %d\n", i, g->worker_of[i]);
    for (int e = 0; e < g->edges; e++)
        sl_text_printf(out, "edge s%d s%d 4\n", g->edge[e][0], g->edge[e][1]);
    sl_text_printf(out, "program \"free\" rule sync passes\nsamples %d last %d iters %d reps %d\n",
                   g->micros, g->micros, s->iters, s->iters);
    for (int w = 0; w < g->workers; w++) {
        sl_text_printf(out, "worker %d\nperiod\n", w);
        for (int i = 0; i < s->count[w]; i++)
            sl_text_printf(out, "%c s%d %d\n", s->list[w][i].kind, s->list[w][i].stage,
                           s->list[w][i].micro);
    }
}

void free_sched_csv(const struct free_sched *s, struct sl_text *out) {
    for (int w = 0; w < s->graph.workers; w++) {
        for (int i = 0; i < s->count[w]; i++)
            sl_text_printf(out, "%s%d%c%d", i ? "," : "", s->list[w][i].stage, s->list[w][i].kind,
                           s->list[w][i].micro);
        sl_text_put(out, "\n");
    }
}

/* Iteration `lead` is the first of the period; one repetition is written. */
void free_stream_text(const char *rule, int stages, int micros, const int *window,
                      struct sl_text *out) {
    int widest = 1, lead, iters;
    for (int s = 0; s < stages; s++)
        widest = window[s] > widest ? window[s] : widest;
    lead = 1 + (widest + micros - 1) / micros;
    iters = 2 * lead + 1;
    sl_text_printf(out, "sluice-sched 1\nworkers %d\n", stages);
    for (int s = 0; s < stages; s++)
        sl_text_printf(out, "stage s%d width 1 micro 1 on %d\n", s, s);
    for (int s = 0; s + 1 < stages; s++)
        sl_text_printf(out, "edge s%d s%d 4\n", s, s + 1);
    sl_text_printf(out, "program \"stream\" rule %s passes\nsamples %d last %d iters %d reps 1\n",
                   rule, micros, micros, iters);
    for (int s = 0; s < stages; s++) {
        int forward = 0, total = iters * micros;
        sl_text_printf(out, "worker %d\nprologue\n", s);
        for (int back = 0; back < total; back++) {
            bool cut = back == lead * micros || back == (lead + 1) * micros;
            int less = back >= (lead + 1) * micros ? micros : 0;
            if (cut)
                sl_text_put(out, less ? "epilogue\n" : "period\n");
            for (; forward < total && forward < back + window[s]; forward++)
                sl_text_printf(out, "F s%d %d\n", s, forward - less);
            sl_text_printf(out, "B s%d %d\n", s, back - less);
        }
    }
}
