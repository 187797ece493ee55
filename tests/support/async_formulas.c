/* The formulas of the plain loop: version, look-ahead and rate of a pass or step. */
#include "support/async_formulas.h"

#include <math.h>
#include <string.h>

/* The last micro-batch of step v on a replica (from 0) of w; 0: it has none. */
static int64_t last_of(int64_t v, int64_t m, int64_t w, int64_t replica) {
    int64_t last = 0;
    for (int64_t j = 1; j <= m; j++)
        last = (j - 1) % w == replica ? (v - 1) * m + j : last;
    return last;
}

static int64_t replica_of(int64_t k, int64_t m, int64_t w) { return (k - 1) % m % w; }

static int64_t newest(int64_t k, int64_t f, int64_t m, int64_t w) {
    int64_t v = 0;
    while (last_of(v + 1, m, w, replica_of(k, m, w)) <= k - f)
        v++;
    return v;
}
static int64_t twobw(struct loop_at at) { return at.k > 2 * at.m ? (at.k - 1) / at.m - 1 : 0; }
static int64_t local(struct loop_at at) { return newest(at.k, at.f, at.m, at.w); }
static int64_t entry(struct loop_at at) { return newest(at.k, at.entry_f, at.m, at.entry_w); }
static int64_t late(struct loop_at at) { return (at.k - 1) / at.m; }

const struct loop_rule loop_rules[] = {
    {"2bw", twobw, twobw},  {"stash", local, local}, {"vsync", entry, entry},
    {"async", local, late}, {"paci", local, late},
};
const int loop_rule_count = SL_COUNT(loop_rules);

const struct loop_rule *loop_rule_find(const char *schedule) {
    for (int i = 0; i < loop_rule_count; i++)
        if (strcmp(loop_rules[i].schedule, schedule) == 0)
            return &loop_rules[i];
    return NULL;
}

/* Passes of a replica below the top: r. */
static int64_t below_top(struct loop_at at) { return (at.top_f - at.f) / at.w; }
static int64_t height_of(struct loop_at at) { return (at.f + at.w - 1) / at.w - 1; }

/* Passes of a stage between its last backward of a step and the version when all step together. */
static int64_t late_by(struct loop_at at) {
    int64_t r = below_top(at);
    return r + 1 + (r + 1) / 2;
}

/* Passes that the replica has run before this one; f decides the order. */
static int64_t place(struct loop_at at, int64_t f, int64_t k, bool forward, int64_t all) {
    int64_t key = forward ? 2 * (k - 1) - f : 2 * (k - 1) + f - 1, count = 0;
    for (int64_t j = 1; j <= all; j++)
        if (replica_of(j, at.m, at.w) == replica_of(at.k, at.m, at.w))
            count += (2 * (j - 1) - f < key) + (2 * (j - 1) + f - 1 < key);
    return count;
}

static int64_t newest_at(struct loop_at at, int64_t f, bool forward, int64_t all) {
    int64_t v = 0, here = place(at, f, at.k, forward, all);
    for (;; v++) {
        int64_t last = last_of(v + 1, at.m, at.w, replica_of(at.k, at.m, at.w));
        if (last > all || place(at, f, last, false, all) + late_by(at) >= here)
            return v;
    }
}

int loop_width_of(const struct loop *l, int s) { return l->width ? l->width[s] : 1; }
static int flight_of(const struct loop *l, int s) {
    return l->flight ? l->flight[s] : l->height[s] + 1;
}

static int entry_of(const struct loop *l) {
    int best = 0;
    for (int s = 0; s < l->stages; s++)
        best = l->height[s] > l->height[best] ? s : best;
    return best;
}

struct loop_at loop_at_of(const struct loop *l, int s, int64_t k) {
    int e = entry_of(l);
    struct loop_at at = {.k = k,
                         .m = l->config->micros,
                         .f = flight_of(l, s),
                         .w = loop_width_of(l, s),
                         .entry_f = flight_of(l, e),
                         .entry_w = loop_width_of(l, e)};
    for (int i = 0; i < l->stages; i++) {
        int64_t f = flight_of(l, i), reach = f + at.entry_w - 1;
        at.top_f = f > at.top_f ? f : at.top_f;
        if (i != e && reach > at.entry_f)
            at.entry_f = reach;
    }
    return at;
}

/* The version that a pass reads, in a run of `all` micro-batches. */
int64_t loop_version_of(const struct loop *l, const struct loop_rule *rule, struct loop_at at,
                        bool forward, int64_t all) {
    if (!l->global_step || rule->forward == twobw)
        return forward ? rule->forward(at) : rule->backward(at);
    if (rule->forward == entry) {
        struct loop_at first = loop_at_of(l, entry_of(l), at.k);
        return newest_at(first, at.entry_f, true, all);
    }
    return newest_at(at, at.f, forward || rule->backward == local, all);
}

bool loop_is_policy(const struct loop *l, const char *name) {
    return l->config->policy.row && strcmp(l->config->policy.row->name, name) == 0;
}

/* How far ahead of version v (of this run) the pass reads. */
int64_t loop_look_ahead(const struct loop *l, struct loop_at at, bool forward, int64_t v) {
    int64_t r = below_top(at), n = height_of(at) + r + 1, m = at.m, k = at.k, w = at.w, s = 0;
    if (loop_is_policy(l, "spectrain"))
        s = (k - 1 + (l->global_step ? 0 : r / 2 * w)) / m - v;
    if (loop_is_policy(l, "pipeoptim") && forward)
        s = (k - 1) / m - v;
    if (loop_is_policy(l, "2bw-predict"))
        s = (k - 1) / m - v;
    if (loop_is_policy(l, "xpipe") && forward) { /* the default rounding: halves to even */
        double exact = (double)m + (double)w * ((double)n - (double)r / 2 - 2);
        s = exact > 0 ? (int64_t)nearbyint(exact / (double)m) : 0;
    }
    if (loop_is_policy(l, "xpipe") && !forward)
        s = m + w * (r / 2 - 1) > 0 ? (m + w * (r / 2 - 1)) / m : 0;
    return s;
}

/* The factor of the distance: the one value of the policies that predict. */
double loop_reach_of(const struct loop *l) { return l->config->policy.hyper[0]; }

/* PipeMare's delay; K = 100 and D = 0.135 are its defaults. */
double loop_tau_of(const struct loop *l, int stage) {
    struct loop_at at = loop_at_of(l, stage, 1);
    return (double)((2 * height_of(at) + 1) * at.w) / (double)at.m;
}

/* The highest stage that uses a parameter decides how all its holders step it. */
int loop_param_stage(const struct loop *l, int param) {
    const struct sl_graph *graph = l->config->graph;
    int best = -1;
    for (int s = 0; s < l->stages; s++)
        for (int64_t g = 0; g < graph->grads.count; g++)
            if (graph->grads.at[g].param == param && l->stage_of[graph->grads.at[g].node] == s &&
                (best < 0 || l->height[s] > l->height[best]))
                best = s;
    return best;
}

/* Mean steps by which the weights of a stage's forwards are behind. */
static double delay_of(const struct loop *l, int stage) {
    struct loop_at at = loop_at_of(l, stage, 1);
    int64_t more = l->global_step ? (late_by(at) + 1) / 2 : 0;
    return (double)((height_of(at) + more) * at.w) / (double)at.m;
}

double loop_rate(const struct loop *l, int param, int64_t t) {
    int stage = loop_param_stage(l, param);
    struct loop_at at = loop_at_of(l, stage, 1);
    double lr = sl_optim_lr_at(&l->config->lr, l->config->base_lr, t);
    double delay = delay_of(l, stage), tau = loop_tau_of(l, stage), done = (double)(t - 1) / 100;
    if (l->rule->forward == twobw)
        delay = 1;
    if (l->rule->forward == entry)
        delay = delay_of(l, entry_of(l));
    if (loop_is_policy(l, "lr-rescale"))
        return lr * pow(1 + delay, -1.0);
    if (loop_is_policy(l, "pipemare") && tau > 1)
        return lr * pow(tau, -(1 - (done < 1 ? done : 1)));
    const struct sl_policy_use *use = &l->config->policy;
    if (!use->row || !use->row->rate || loop_is_policy(l, "pipemare"))
        return lr;
    /* Another row: its own formula, on the delay that this loop counts. */
    struct sl_policy_at where = {.height = height_of(at),
                                 .depth = height_of(at) + below_top(at) + 1,
                                 .micros = at.m,
                                 .width = at.w,
                                 .delay = delay};
    return lr * use->row->rate(use, &where, t);
}
