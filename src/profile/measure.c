/* Measuring: workers side by side, medians over everything that is alike. */
#include "profile/measure.h"

#include "base/clock.h"
#include "base/par.h"
#include "base/sort.h"
#include "profile/body.h"

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

/* Instructions of one round into units and passes. */
static void add_round(const struct run *r, const struct sl_program *p, const int64_t *op_ns,
                      struct sample *out) {
    const struct sl_graph *graph = r->spec->graph;
    for (int u = 0; u < r->unit_count; u++)
        out[u] = (struct sample){.signature = r->signature[u], .unit = u};
    for (int i = 0; i < p->instr_count; i++) {
        const struct sl_node *node = &graph->nodes.at[p->instrs[i].node];
        struct sample *s = &out[r->unit_of[node->of < 0 ? p->instrs[i].node : node->of]];
        int64_t *to = p->instrs[i].pass == SL_PASS_F   ? &s->f
                      : p->instrs[i].pass == SL_PASS_I ? &s->i
                                                       : &s->w;
        *to += op_ns[i];
    }
}

/* One row per signature. */
static void add_rows(struct run *r, struct sample *at, int64_t count, int64_t micro) {
    int64_t *one = SL_NEW(r->arena, int64_t, count + 1);
    sl_sort(at, count, sizeof *at, compare_samples);
    for (int64_t i = 0, j; i < count; i = j) {
        for (j = i; j < count && at[j].signature == at[i].signature;)
            j++;
        const struct sl_graph *graph = r->spec->graph;
        int node = 0;
        while (r->unit_of[node] != at[i].unit)
            node++;
        struct sl_cost_row row = {.signature = at[i].signature,
                                  .micro = micro,
                                  .seen = j - i,
                                  .name = sl_arena_printf(r->arena, "%s.%s",
                                                          graph->nodes.at[node].scope,
                                                          graph->nodes.at[node].op->name)};
        for (int what = 0; what < 4; what++) {
            for (int64_t k = i; k < j; k++)
                one[k - i] = what == 0   ? at[k].f
                             : what == 1 ? at[k].i
                             : what == 2 ? at[k].w
                                         : at[k].f + at[k].i + at[k].w;
            int64_t median = quantile(one, j - i, 0.5);
            *(what == 0 ? &row.f : what == 1 ? &row.i : &row.w) = what < 3 ? median : row.w;
            if (what == 3 && median > 0)
                row.spread = (double)(quantile(one, j - i, 0.9) - quantile(one, j - i, 0.1)) /
                             (double)median;
        }
        SL_PUSH(&r->rows, row);
    }
}

/* ---- workers ---- */

struct crowd {
    const struct run *run;
    struct sl_body **bodies; /* [busy] */
    struct sample *samples;  /* [busy][round][unit] */
    int64_t *extra;          /* [busy][round] beside kernels, per pass */
    sl_err *err;
};

static void work(void *ctx, int64_t worker) {
    struct crowd *c = ctx;
    const struct run *r = c->run;
    struct sl_body *body = c->bodies[worker];
    for (int round = -1; round < r->spec->rounds && c->err[worker] == SL_OK; round++) {
        memset(body->op_ns, 0, sizeof *body->op_ns * (size_t)body->program->instr_count);
        c->err[worker] = sl_body_feed(body);
        int64_t start = sl_clock_ns(), kernels = 0;
        if (c->err[worker] == SL_OK)
            c->err[worker] = sl_body_pass(body, SL_PHASE_F);
        if (c->err[worker] == SL_OK)
            c->err[worker] = sl_body_pass(body, SL_PHASE_B);
        int64_t all = sl_clock_ns() - start;
        if (round < 0) /* warms up */
            continue;
        for (int i = 0; i < body->program->instr_count; i++)
            kernels += body->op_ns[i];
        int64_t at = worker * r->spec->rounds + round;
        c->extra[at] = (all - kernels) / 2;
        add_round(r, body->program, body->op_ns, c->samples + at * r->unit_count);
    }
}

static sl_err measure_size(struct run *r, int64_t micro) {
    const struct sl_profile_spec *spec = r->spec;
    struct sl_arena arena = {0};
    int64_t rounds = (int64_t)spec->busy * spec->rounds;
    struct crowd c = {r, SL_NEW(&arena, struct sl_body *, spec->busy),
                      SL_NEW(&arena, struct sample, rounds * r->unit_count),
                      SL_NEW(&arena, int64_t, rounds), SL_NEW(&arena, sl_err, spec->busy)};
    sl_err err = SL_OK;
    for (int i = 0; i < spec->busy; i++)
        SL_TRY_OUT(sl_body_open(spec, micro, &c.bodies[i]));
    sl_par_for(spec->busy, spec->busy, work, &c);
    for (int i = 0; i < spec->busy; i++)
        SL_TRY_OUT(c.err[i]);
    add_rows(r, c.samples, rounds * r->unit_count, micro);
    r->action_ns = quantile(c.extra, rounds, 0.5);
    r->action_ns = r->action_ns > 0 ? r->action_ns : 0;
    SL_TRY_OUT(sl_body_step_rate(c.bodies[0], spec->optim, &r->step_rate));
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
    struct sl_cost draft = {.model = graph->name,
                            .device = spec->device->name,
                            .threads = spec->threads,
                            .busy = spec->busy,
                            .rows = r.rows.at,
                            .row_count = (int)r.rows.count,
                            .step_bytes_per_s = floor(r.step_rate),
                            .link_bytes_per_s = floor(r.copy_rate),
                            .action_ns = r.action_ns};
    err = sl_cost_build(arena, &draft, out);
out:
    SL_VEC_FREE(&r.rows);
    return err;
}
