/* The independent judge. Numbers are resolved, replicas found and samples overlapped by its own
 * arithmetic; workers are played round robin until nothing moves. */
#include "support/symbolic_world.h"

static bool advance(struct world *w, int worker) {
    const struct sl_actions *lists[] = {&w->s->lists[0][worker], &w->s->lists[1][worker],
                                        &w->s->lists[2][worker]};
    int64_t pos = w->at[worker], rep = 0;
    const struct sl_actions *list = lists[0];
    if (pos >= list->count) {
        pos -= list->count;
        list = lists[1];
        rep = list->count ? pos / list->count : 0;
        if (list->count && rep < w->reps) {
            pos %= list->count;
        } else {
            pos -= (int64_t)list->count * w->reps;
            list = lists[2];
            rep = w->reps;
        }
    }
    if (pos >= list->count)
        return false;
    if (!sym_do_action(w, worker, &list->at[pos], (int)rep))
        return false;
    w->at[worker]++;
    return true;
}

static bool all_at_end(const struct world *w) {
    for (int i = 0; i < w->p->worker_count; i++)
        if (w->at[i] <
            w->s->lists[0][i].count + w->s->lists[1][i].count * w->reps + w->s->lists[2][i].count)
            return false;
    return true;
}

/* --- what training means --- */

/* Weights after `iters` steps when every pass reads the version that was recorded for it. */
struct meaning {
    symbol **weights; /* [seat group: stage][version] -- replicas agree, so per stage */
    symbol **f, **b;  /* [stage][micro] */
};

static symbol meaning_inputs(const struct world *w, const struct meaning *m, int stage,
                             int64_t micro, bool grad) {
    const struct sl_stage *s = &w->p->stages[stage];
    symbol out = 1;
    for (int i = 0; i < (grad ? s->out_count : s->in_count); i++) {
        int edge = grad ? s->out[i] : s->in[i];
        int other = grad ? w->p->edges[edge].to : w->p->edges[edge].from;
        int64_t range[2];
        sym_overlap(w, stage, micro, other, range);
        for (int64_t x = range[0]; x < range[1]; x++)
            out = sym_mix(out, sym_mix(grad ? m->b[other][x] : m->f[other][x], (uint64_t)edge));
    }
    return out;
}

static void meaning_passes(const struct world *w, struct meaning *m, int64_t iter) {
    for (int t = 0; t < w->p->stage_count; t++) {
        int s = w->p->topo[t];
        for (int64_t j = 0; j < sym_micros_of(w, s, iter); j++) {
            int64_t k = iter * sym_per_iter(w, s) + j;
            symbol weights = sym_foreseen(m->weights[s][w->read[0][s][k]], w->far[0][s][k]);
            m->f[s][k] = sym_forward_symbol(s, k, weights, meaning_inputs(w, m, s, k, false));
        }
    }
    for (int t = w->p->stage_count - 1; t >= 0; t--) {
        int s = w->p->topo[t];
        for (int64_t j = 0; j < sym_micros_of(w, s, iter); j++) {
            int64_t k = iter * sym_per_iter(w, s) + j;
            symbol forward = m->f[s][k];
            symbol weights = sym_foreseen(m->weights[s][w->read[1][s][k]], w->far[1][s][k]);
            if (w->p->stages[s].recompute)
                forward = sym_mix(forward, sym_mix(sym_mix(forward, weights), (uint64_t)k));
            m->b[s][k] = sym_backward_symbol(k, forward, weights, meaning_inputs(w, m, s, k, true));
        }
    }
}

/* The gradient a replica has summed, in its own order: any order is training, and every micro-batch
 * is in it once (verdict). */
static symbol meaning_sum(const struct world *w, const struct meaning *m, int seat, int64_t iter) {
    const struct sl_seat *at = &w->p->seats[seat];
    symbol sum = 3;
    for (int64_t i = 0; i < w->seats[seat].added_count; i++) {
        int64_t k = w->seats[seat].added[i];
        if (k / sym_per_iter(w, at->stage) == iter)
            sum = sym_mix(sym_mix(sum, sym_mix(m->b[at->stage][k], 31)), (uint64_t)k);
    }
    return sum;
}

static symbol meaning_group(const struct world *w, const struct meaning *m, int group,
                            int64_t iter) {
    symbol value = 41;
    for (int i = 0; i < w->p->seat_count; i++)
        if (sym_member(w, group, w->p->seats[i].stage))
            value = sym_mix(value, sym_mix(meaning_sum(w, m, i, iter), 47));
    return value;
}

/* Versions are read before they are made only by a broken schedule: it would have been caught. */
static bool meaning_agrees(const struct world *w) {
    struct meaning m;
    bool same = true;
    size_t n = (size_t)w->p->stage_count;
    m.weights = sym_zeros(n, sizeof *m.weights);
    m.f = sym_zeros(n, sizeof *m.f);
    m.b = sym_zeros(n, sizeof *m.b);
    for (int s = 0; s < w->p->stage_count; s++) {
        m.weights[s] = sym_zeros((size_t)w->iters + 1, sizeof(symbol));
        m.weights[s][0] = sym_mix(5, (uint64_t)s);
        m.f[s] = sym_zeros((size_t)sym_total_of(w, s), sizeof(symbol));
        m.b[s] = sym_zeros((size_t)sym_total_of(w, s), sizeof(symbol));
    }
    for (int64_t t = 0; t < w->iters; t++) {
        meaning_passes(w, &m, t);
        for (int s = 0; w->s->rule != SL_RULE_FORWARD && s < w->p->stage_count; s++) {
            int groups = 0;
            symbol all = 0;
            for (int g = 0; g < w->p->stage_count + w->p->tie_count; g++)
                groups += sym_member(w, g, s);
            if (!groups)
                all = sym_mix(meaning_sum(w, &m, w->p->stages[s].seat, t), 47);
            for (int g = 0; g < w->p->stage_count + w->p->tie_count; g++)
                if (sym_member(w, g, s))
                    all = sym_mix(all, meaning_group(w, &m, g, t));
            m.weights[s][t + 1] = sym_mix(m.weights[s][t], all);
        }
    }
    for (int i = 0; i < w->p->seat_count; i++) {
        const struct seat *s = &w->seats[i];
        int64_t steps = w->s->rule == SL_RULE_FORWARD ? 0 : w->iters;
        same &=
            s->steps == steps && s->weights[s->last_slot] == m.weights[w->p->seats[i].stage][steps];
    }
    for (int s = 0; s < w->p->stage_count; s++)
        for (int64_t k = 0; k < sym_total_of(w, s); k++)
            same &= w->made[s][k] == m.f[s][k];
    for (int s = 0; s < w->p->stage_count; s++) {
        free(m.weights[s]);
        free(m.f[s]);
        free(m.b[s]);
    }
    free(m.weights);
    free(m.f);
    free(m.b);
    return same;
}

/* Under VSYNC a micro-batch reads one version everywhere. */
static bool vsync_agrees(const struct world *w) {
    if (w->s->rule != SL_RULE_VSYNC)
        return true;
    for (int s = 1; s < w->p->stage_count; s++)
        for (int64_t i = 0; i < sym_total_of(w, s); i++)
            if (w->read[0][s][i] != w->read[0][0][i] || w->read[1][s][i] != w->read[0][0][i])
                return false;
    return true;
}

static const char *verdict(struct world *w) {
    if (w->broken)
        return w->broken;
    if (!all_at_end(w))
        return "deadlock";
    for (int s = 0; s < w->p->stage_count; s++)
        for (int64_t i = 0; i < sym_total_of(w, s); i++) {
            int b = w->count[SL_BACKWARD][s][i], in = w->count[SL_BACKWARD_INPUT][s][i],
                we = w->count[SL_BACKWARD_WEIGHT][s][i];
            int back = w->s->rule != SL_RULE_FORWARD;
            if (w->count[SL_FORWARD][s][i] != 1 || b + in != back || b + we != back ||
                w->count[SL_RECOMPUTE][s][i] != (w->p->stages[s].recompute ? back : 0))
                return "a pass runs not exactly once";
        }
    for (int i = 0; i < w->p->worker_count * w->p->worker_count; i++)
        if (w->fifos[i].head != w->fifos[i].count)
            return "a receive is never sent";
    for (int i = 0; i < w->p->seat_count; i++)
        if (w->seats[i].steps != (w->s->rule == SL_RULE_FORWARD ? 0 : w->iters))
            return "a step is missing";
    if (!vsync_agrees(w))
        return "stages read different versions";
    return meaning_agrees(w) ? NULL : "the weights are wrong";
}

const char *symbolic_judge(const struct sl_sched *sched) {
    struct world w = {.s = sched, .p = sched->plan, .iters = sched->iters, .reps = sched->reps};
    if (w.reps > UNROLLED) {
        w.iters -= w.reps - UNROLLED;
        w.reps = UNROLLED;
    }
    sym_open_world(&w);
    for (bool moved = true; moved && !w.broken;) {
        moved = false;
        for (int i = 0; i < w.p->worker_count && !w.broken; i++)
            while (!w.broken && advance(&w, i))
                moved = true;
    }
    const char *why = verdict(&w);
    sym_close_world(&w);
    return why;
}
