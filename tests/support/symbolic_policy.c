/* Policies in the symbolic judge: their formulas by name, apart from src/optim. */
#include "support/symbolic_world.h"

#include <string.h>

bool sym_has_policy(const struct world *w, const char *name) {
    return w->s->policy.row && strcmp(w->s->policy.row->name, name) == 0;
}

/* Replicas on the way down that has most of them. */
static int64_t replicas_below(const struct world *w, int stage) {
    int64_t most = 0;
    for (int i = 0; i < w->p->edge_count; i++)
        if (w->p->edges[i].from == stage) {
            int64_t next = replicas_below(w, w->p->edges[i].to);
            most = next > most ? next : most;
        }
    return most + w->p->stages[stage].width;
}

/* Micro-batches in flight on a stage. */
static int64_t flight(const struct world *w, int stage) {
    return replicas_below(w, stage) + (int64_t)w->p->stages[stage].height * w->s->slack;
}

int64_t sym_want_ahead(const struct world *w, const struct sl_action *a) {
    int64_t c = w->p->stages[a->stage].width, f = flight(w, a->stage), top = 0;
    for (int i = 0; i < w->p->stage_count; i++)
        top = replicas_below(w, i) > top ? replicas_below(w, i) : top;
    top += (w->p->depth - 1) * (int64_t)w->s->slack;
    int64_t h = (f - 1) / c, k = (top - f) / c, n = h + k + 1; /* in passes of one replica */
    int64_t t = sym_per_iter(w, a->stage), v = a->version, iter = a->micro / t, s = 0;
    bool forward = a->kind == SL_FORWARD;
    if (sym_has_policy(w, "spectrain"))
        s = (a->micro + (w->s->global_step ? 0 : k / 2 * c)) / t - v;
    if (sym_has_policy(w, "pipeoptim") && forward)
        s = iter - v;
    if (sym_has_policy(w, "2bw-predict"))
        s = iter > 0;
    if (sym_has_policy(w, "xpipe") && !forward)
        s = (t + c * (k / 2 - 1)) / t;
    if (sym_has_policy(w, "xpipe") &&
        forward) { /* round half to even of (T + N - k/2 - 2) / T, T = t/c */
        double exact = ((double)t + (double)c * ((double)n - (double)k / 2 - 2)) / (double)t;
        exact = exact > 0 ? exact : 0;
        s = (int64_t)exact;
        s += exact - (double)s > 0.5 || (exact - (double)s == 0.5 && s % 2 == 1);
    }
    if (sym_has_policy(w, "pipemare") && !forward)
        s = (2 * h + 1) * c;
    return s > 0 ? s : 0;
}
