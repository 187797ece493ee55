/* Measuring: workers side by side, medians over everything that is alike. */
#include "profile/measure.h"

#include "base/clock.h"
#include "base/par.h"
#include "base/sort.h"
#include "profile/body.h"
#include "profile/link.h"

#include <math.h>
#include <string.h>

struct sample {
    uint64_t signature;
    int64_t f, i, w;
    int unit;
};

struct run {
    const struct sl_profile_spec *spec;
    int *unit_of; /* [forward node] */
    int unit_count;
    uint64_t *signature; /* [unit] */
    struct sl_arena *arena;
    SL_VEC(struct sl_cost_row) rows;
    double step_rate, copy_rate;
    int64_t action_ns;
};

static int compare_ints(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int64_t quantile(int64_t *at, int64_t count, double share) {
    sl_sort(at, count, sizeof *at, compare_ints);
    return at[(int64_t)(share * (double)(count - 1) + 0.5)];
}

static int compare_samples(const void *a, const void *b) {
    const struct sample *x = a, *y = b;
    return (x->signature > y->signature) - (x->signature < y->signature);
}

/* Instructions of one round into units and passes; what is fed is part of the forward pass of who
 * reads it. */
static void add_round(const struct run *r, const struct sl_body *body, struct sample *out) {
    const struct sl_graph *graph = r->spec->graph;
    const struct sl_program *p = body->program;
    for (int u = 0; u < r->unit_count; u++)
        out[u] = (struct sample){.signature = r->signature[u], .unit = u};
    for (int i = 0, unit = 0; i < p->instr_count; i++) {
        int n = p->instrs[i].node; /* -1: a copy, for the one before it */
        if (n >= 0)
            unit = r->unit_of[graph->nodes.at[n].of < 0 ? n : graph->nodes.at[n].of];
        struct sample *s = &out[unit];
        int64_t *to = p->instrs[i].pass == SL_PASS_F   ? &s->f
                      : p->instrs[i].pass == SL_PASS_I ? &s->i
                                                       : &s->w;
        *to += body->op_ns[i];
    }
    for (int64_t i = 0; i < body->feeds.count; i++)
        out[r->unit_of[body->feeds.at[i].reader]].f += body->feeds.at[i].dur_ns;
}

static int64_t time_of(const struct sample *s, int what) {
    const int64_t times[] = {s->f, s->i, s->w, s->f + s->i + s->w};
    return times[what];
}

/* The median over samples that are alike. */
static int64_t middle(const struct sample *at, int64_t count, int what, int64_t *scratch,
                      double *spread) {
    for (int64_t k = 0; k < count; k++)
        scratch[k] = time_of(&at[k], what);
    int64_t median = quantile(scratch, count, 0.5);
    if (spread && median > 0)
        *spread = (double)(quantile(scratch, count, 0.9) - quantile(scratch, count, 0.1)) /
                  (double)median;
    return median;
}

static const char *name_of(const struct run *r, int unit) {
    const struct sl_graph *graph = r->spec->graph;
    int node = 0;
    while (r->unit_of[node] != unit)
        node++;
    return sl_arena_printf(r->arena, "%s.%s", graph->nodes.at[node].scope,
                           graph->nodes.at[node].op->name);
}

/* Delays hit this unit or that one: the median of a sum is more than the sum of medians. Rows are
 * stretched so that a whole pass takes its own median. */
static void stretch(struct run *r, int64_t first, const double share[3]) {
    for (int64_t i = first; i < r->rows.count; i++) {
        struct sl_cost_row *row = &r->rows.at[i];
        row->f = (int64_t)llround((double)row->f * share[0]);
        row->i = (int64_t)llround((double)row->i * share[1]);
        row->w = (int64_t)llround((double)row->w * share[2]);
    }
}

/* Medians of the passes of all units together, by the samples of each round. */
static void pass_medians(const struct run *r, const struct sample *at, int64_t rounds,
                         int64_t *scratch, double out[3]) {
    for (int what = 0; what < 3; what++) {
        for (int64_t k = 0; k < rounds; k++) {
            scratch[k] = 0;
            for (int u = 0; u < r->unit_count; u++)
                scratch[k] += time_of(&at[k * r->unit_count + u], what);
        }
        out[what] = (double)quantile(scratch, rounds, 0.5);
    }
}

/* One row per signature. */
static void add_rows(struct run *r, struct sample *at, int64_t rounds, int64_t micro) {
    int64_t count = rounds * r->unit_count, before = r->rows.count;
    int64_t *scratch = SL_NEW(r->arena, int64_t, count + 1);
    double whole[3], sum[3] = {0}, share[3];
    pass_medians(r, at, rounds, scratch, whole);
    sl_sort(at, count, sizeof *at, compare_samples);
    for (int64_t i = 0, j; i < count; i = j) {
        for (j = i; j < count && at[j].signature == at[i].signature;)
            j++;
        struct sl_cost_row row = {.signature = at[i].signature,
                                  .micro = micro,
                                  .seen = j - i,
                                  .name = name_of(r, at[i].unit)};
        row.f = middle(at + i, j - i, 0, scratch, NULL);
        row.i = middle(at + i, j - i, 1, scratch, NULL);
        row.w = middle(at + i, j - i, 2, scratch, NULL);
        (void)middle(at + i, j - i, 3, scratch, &row.spread);
        double units = (double)(j - i) / (double)rounds;
        sum[0] += units * (double)row.f;
        sum[1] += units * (double)row.i;
        sum[2] += units * (double)row.w;
        SL_PUSH(&r->rows, row);
    }
    for (int what = 0; what < 3; what++)
        share[what] = sum[what] > 0 ? whole[what] / sum[what] : 1;
    stretch(r, before, share);
}

/* ---- workers ---- */

struct crowd {
    const struct run *run;
    struct sl_body **bodies; /* [busy] */
    struct sample *samples;  /* [busy][round][unit] */
    int64_t *extra;          /* [busy][round] beside kernels, per pass */
    double *step_rate;       /* [busy] */
    sl_err *err;
};

/* Forward of one micro-batch, backward of the one before: two are in flight. */
static sl_err run_round(struct sl_body *body, int round, int64_t *extra_ns) {
    int64_t kernels = 0, slot = round & 1;
    memset(body->op_ns, 0, sizeof *body->op_ns * (size_t)body->program->instr_count);
    SL_TRY(sl_body_feed(body, (int)slot, round));
    int64_t start = sl_clock_ns();
    SL_TRY(sl_body_pass(body, SL_PHASE_F, (int)slot));
    if (round > 0)
        SL_TRY(sl_body_pass(body, SL_PHASE_B, (int)!slot));
    int64_t all = sl_clock_ns() - start;
    for (int i = 0; i < body->program->instr_count; i++)
        kernels += body->op_ns[i];
    *extra_ns = (all - kernels) / 2;
    return SL_OK;
}

static void work(void *ctx, int64_t worker) {
    enum { WARM = 2 };
    struct crowd *c = ctx;
    const struct run *r = c->run;
    struct sl_body *body = c->bodies[worker];
    for (int round = 0; round < r->spec->rounds + WARM; round++) {
        int64_t extra, at = worker * r->spec->rounds + round - WARM;
        c->err[worker] = run_round(body, round, &extra);
        if (c->err[worker] != SL_OK)
            return;
        if (round < WARM)
            continue;
        c->extra[at] = extra;
        add_round(r, body, c->samples + at * r->unit_count);
    }
    c->err[worker] = sl_body_step_rate(body, r->spec->optim, &c->step_rate[worker]);
}

static sl_err measure_size(struct run *r, int64_t micro) {
    const struct sl_profile_spec *spec = r->spec;
    struct sl_arena arena = {0};
    int64_t rounds = (int64_t)spec->busy * spec->rounds;
    struct crowd c = {r,
                      SL_NEW(&arena, struct sl_body *, spec->busy),
                      SL_NEW(&arena, struct sample, rounds * r->unit_count),
                      SL_NEW(&arena, int64_t, rounds),
                      SL_NEW(&arena, double, spec->busy),
                      SL_NEW(&arena, sl_err, spec->busy)};
    sl_err err = SL_OK;
    for (int i = 0; i < spec->busy; i++)
        SL_TRY_OUT(sl_body_open(spec, micro, &c.bodies[i]));
    sl_par_for(spec->busy, spec->busy, work, &c);
    r->step_rate = 0;
    for (int i = 0; i < spec->busy; i++) {
        SL_TRY_OUT(c.err[i]);
        r->step_rate += c.step_rate[i] / spec->busy;
    }
    add_rows(r, c.samples, rounds, micro);
    r->action_ns = quantile(c.extra, rounds, 0.5);
    r->action_ns = r->action_ns > 0 ? r->action_ns : 0;
    SL_TRY_OUT(sl_body_copy_rate(c.bodies[0], &r->copy_rate));
out:
    for (int i = 0; i < spec->busy; i++)
        sl_body_close(c.bodies[i]);
    sl_arena_free(&arena);
    return err;
}

sl_err sl_profile_run(struct sl_arena *arena, const struct sl_profile_spec *spec,
                      const struct sl_cost **out) {
    const struct sl_graph *graph = spec->graph;
    struct run r = {.spec = spec, .arena = arena};
    sl_err err = SL_OK;
    r.unit_of = SL_NEW(arena, int, graph->forward_count + 1);
    r.unit_count = sl_pass_units(arena, graph, spec->device->has_kernel, r.unit_of);
    r.signature = SL_NEW(arena, uint64_t, r.unit_count + 1);
    int *nodes = SL_NEW(arena, int, graph->forward_count + 1);
    for (int u = 0; u < r.unit_count; u++) {
        int count = 0;
        for (int n = 0; n < graph->forward_count; n++)
            if (r.unit_of[n] == u)
                nodes[count++] = n;
        r.signature[u] = sl_cost_signature(graph, nodes, count);
    }
    for (int s = 0; s < spec->size_count; s++) {
        if (spec->progress)
            spec->progress(spec->ctx, s, spec->size_count);
        SL_TRY_OUT(measure_size(&r, spec->sizes[s]));
    }
    int64_t latency_ns = 0;
    SL_TRY_OUT(sl_profile_latency(&latency_ns));
    struct sl_cost draft = {.model = graph->name,
                            .device = spec->device->name,
                            .threads = spec->threads,
                            .busy = spec->busy,
                            .rows = r.rows.at,
                            .row_count = (int)r.rows.count,
                            .step_bytes_per_s = floor(r.step_rate),
                            .link_bytes_per_s = floor(r.copy_rate),
                            .link_latency_ns = latency_ns,
                            .action_ns = r.action_ns};
    err = sl_cost_build(arena, &draft, out);
out:
    SL_VEC_FREE(&r.rows);
    return err;
}
