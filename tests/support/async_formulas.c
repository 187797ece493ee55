/* The formulas of the plain loop: version, look-ahead and rate of a pass or step. */
#include "support/async_formulas.h"

#include <math.h>
#include <string.h>

static int64_t newest(int64_t k, int64_t f, int64_t m) { return (k > f ? k - f : 0) / m; }
static int64_t twobw(struct loop_at at) { return at.k > 2 * at.m ? (at.k - 1) / at.m - 1 : 0; }
static int64_t local(struct loop_at at) { return newest(at.k, at.f, at.m); }
static int64_t entry(struct loop_at at) { return newest(at.k, at.entry_f, at.m); }
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

/* Passes of a stage between backward vm and version v when all step together. */
static int64_t late_by(struct loop_at at) {
    int64_t r = at.entry_f - at.f;
    return r + 1 + (r + 1) / 2;
}

static int64_t place(struct loop_at at, int64_t k, bool forward, int64_t all) {
    int64_t before = at.f + k - 1 < all ? at.f + k - 1 : all;
    return k - 1 + (forward ? (k > at.f ? k - at.f : 0) : before);
}

static int64_t newest_at(struct loop_at at, bool forward, int64_t all) {
    int64_t v = 0, here = place(at, at.k, forward, all);
    while ((v + 1) * at.m <= all && place(at, (v + 1) * at.m, false, all) + late_by(at) < here)
        v++;
    return v;
}

/* The version that a pass reads, in a run of `all` micro-batches. */
int64_t loop_version_of(const struct loop *l, const struct loop_rule *rule, struct loop_at at,
                        bool forward, int64_t all) {
    struct loop_at top = at;
    top.f = at.entry_f;
    if (!l->global_step || rule->forward == twobw)
        return forward ? rule->forward(at) : rule->backward(at);
    if (rule->forward == entry)
        return newest_at(top, true, all);
    return newest_at(at, forward || rule->backward == local, all);
}

bool loop_is_policy(const struct loop *l, const char *name) {
    return l->config->policy.row && strcmp(l->config->policy.row->name, name) == 0;
}

/* How far ahead of version v (of this run) the pass reads. */
int64_t loop_look_ahead(const struct loop *l, struct loop_at at, bool forward, int64_t v) {
    int64_t n = at.entry_f, r = at.entry_f - at.f, m = at.m, k = at.k, s = 0;
    if (loop_is_policy(l, "spectrain"))
        s = (k - 1 + (l->global_step ? 0 : r / 2)) / m - v;
    if (loop_is_policy(l, "pipeoptim") && forward)
        s = (k - 1) / m - v;
    if (loop_is_policy(l, "2bw-predict"))
        s = (k - 1) / m - v;
    if (loop_is_policy(l, "xpipe") && forward) /* the default rounding: halves to even */
        s = (int64_t)nearbyint(((double)m + (double)n - (double)r / 2 - 2) / (double)m);
    if (loop_is_policy(l, "xpipe") && !forward)
        s = (m + r / 2 - 1) / m;
    return s;
}

/* The factor of the distance: the one value of the policies that predict. */
double loop_reach_of(const struct loop *l) { return l->config->policy.hyper[0]; }

/* PipeMare's delay; K = 100 and D = 0.135 are its defaults. */
double loop_tau_of(const struct loop *l, int height) {
    return (double)(2 * height + 1) / (double)l->config->micros;
}

/* The height of a parameter is that of the highest stage that uses it. */
int loop_param_height(const struct loop *l, int param) {
    const struct sl_graph *graph = l->config->graph;
    int max = 0;
    for (int64_t g = 0; g < graph->grads.count; g++) {
        int height = l->height[l->stage_of[graph->grads.at[g].node]];
        if (graph->grads.at[g].param == param && height > max)
            max = height;
    }
    return max;
}

double loop_rate(const struct loop *l, int param, int64_t t) {
    int height = loop_param_height(l, param);
    struct loop_at at = {.f = height + 1, .entry_f = l->depth};
    double more = l->global_step ? (double)((late_by(at) + 1) / 2) : 0;
    double lr = sl_optim_lr_at(&l->config->lr, l->config->base_lr, t),
           m = (double)l->config->micros;
    double delay = (height + more) / m, tau = loop_tau_of(l, height), done = (double)(t - 1) / 100;
    if (l->rule->forward == twobw)
        delay = 1;
    if (l->rule->forward == entry)
        delay = (l->depth - 1 + l->global_step) / m;
    if (loop_is_policy(l, "lr-rescale"))
        return lr * pow(1 + delay, -1.0);
    if (loop_is_policy(l, "pipemare") && tau > 1)
        return lr * pow(tau, -(1 - (done < 1 ? done : 1)));
    const struct sl_policy_use *use = &l->config->policy;
    if (!use->row || !use->row->rate || loop_is_policy(l, "pipemare"))
        return lr;
    /* Another row: its own formula, on the delay that this loop counts. */
    struct sl_policy_at where = {
        .height = height, .depth = l->depth, .micros = l->config->micros, .delay = delay};
    return lr * use->row->rate(use, &where, t);
}
