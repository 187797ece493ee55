/* Profiling: workers run in parallel; a result is the median over all samples with the same
 * signature. */
#include "profile/measure.h"
#include "profile/recompute.h"

#include "base/clock.h"
#include "base/sort.h"
#include "profile/body.h"
#include "profile/link.h"
#include "profile/relay.h"
#include "profile/slices.h"
#include "profile/steps.h"
#include "profile/tempo.h"

#include <math.h>
#include <string.h>

struct sample {
    uint64_t signature;
    int64_t f, i, w;
    int unit;
};

struct run {
    const struct sl_profile_spec *spec;
    int *unit_of; /* [forward node] its unit */
    int unit_count;
    uint64_t *signature; /* [unit] equal for units that measure the same */
    const struct sl_profile_slice *slices;
    int slice_count;
    int rounds;    /* number of rounds per size */
    int *stage_of; /* [forward node] the slice that contains it */
    struct sl_arena *arena;
    SL_VEC(struct sl_cost_row) rows;
    struct sl_step_rates rates;
    double copy_rate;
    int64_t action_ns;
    struct sl_cold cold; /* sum over sizes and workers */
    double recompute;    /* recompute time / forward time, mean over sizes and workers */
    int64_t late_ns;     /* delay between a turn and the next one (relay.h), mean over sizes */
    struct sl_tempo_log tempo;
};

static int64_t quantile(int64_t *at, int64_t count, double share) {
    sl_sort_ints(at, count);
    return at[(int64_t)(share * (double)(count - 1) + 0.5)];
}

static int compare_samples(const void *a, const void *b) {
    const struct sample *x = a, *y = b;
    return (x->signature > y->signature) - (x->signature < y->signature);
}

/* Adds the instruction times of one round to units and passes. A feed counts as forward time of the
 * node that reads it. Copies count for the unit before them, and so do sums of gradients that
 * belong to a node of another slice. */
static void add_round(const struct run *r, const struct sl_body *body,
                      const struct sl_profile_slice *slice, struct sample *out) {
    const struct sl_graph *graph = r->spec->graph;
    const struct sl_program *p = body->program;
    for (int u = slice->first; u < slice->last; u++)
        out[u - slice->first] = (struct sample){.signature = r->signature[u], .unit = u};
    for (int i = 0, unit = slice->first; i < p->instr_count; i++) {
        int n = p->instrs[i].node; /* -1: the instruction is a copy */
        int of = n < 0 ? unit : r->unit_of[graph->nodes.at[n].of < 0 ? n : graph->nodes.at[n].of];
        unit = of >= slice->first && of < slice->last ? of : unit;
        struct sample *s = &out[unit - slice->first];
        int64_t *to = p->instrs[i].pass == SL_PASS_F   ? &s->f
                      : p->instrs[i].pass == SL_PASS_I ? &s->i
                                                       : &s->w;
        *to += body->op_ns[i];
    }
    for (int64_t i = 0; i < body->feeds.count; i++)
        if (body->feeds.at[i].reader >= 0)
            out[r->unit_of[body->feeds.at[i].reader] - slice->first].f += body->feeds.at[i].dur_ns;
}

static int64_t time_of(const struct sample *s, int what) {
    const int64_t times[] = {s->f, s->i, s->w, s->f + s->i + s->w};
    return times[what];
}

/* Returns the median over the samples of one signature. */
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

/* Scales the rows so that their sum is the median of a whole pass. Delays hit different units in
 * different rounds, so the median of the sum exceeds the sum of the medians. */
static void stretch(struct run *r, int64_t first, const double share[3]) {
    for (int64_t i = first; i < r->rows.count; i++) {
        struct sl_cost_row *row = &r->rows.at[i];
        row->f = (int64_t)llround((double)row->f * share[0]);
        row->i = (int64_t)llround((double)row->i * share[1]);
        row->w = (int64_t)llround((double)row->w * share[2]);
    }
}

/* ---- workers ---- */

struct member {
    struct sl_profile_slice slice;
    struct sl_body *body;
    struct sample *samples;         /* [round][unit of the slice] measured times */
    int64_t *extra;                 /* [round] time per pass outside kernels */
    double *copy_rate;              /* [round] measured rate of copies */
    struct sl_profile_pair *passes; /* [round] times of whole passes */
    struct sl_step_rates rates;
    double recompute; /* recompute time / forward time */
};

struct crowd {
    struct run *run;
    struct member *members; /* [busy] the workers */
    struct sample *samples; /* [count] the samples of all members */
    int64_t count;
    int64_t *extra; /* [busy][round] */
    double *copies; /* [busy][round] */
    struct sl_relay relay;
};

/* Sums the samples of each round into the pass times of a worker. */
static void sum_passes(const struct member *m, int rounds) {
    int units = m->slice.last - m->slice.first;
    for (int k = 0; k < rounds; k++) {
        m->passes[k] = (struct sl_profile_pair){0};
        for (int u = 0; u < units; u++) {
            const struct sample *s = &m->samples[(int64_t)k * units + u];
            m->passes[k].f += s->f;
            m->passes[k].b += s->i + s->w;
        }
    }
}

/* Returns the pass times of a slice according to the table, whose rows of this size begin at
 * `first`. */
static struct sl_profile_pair table_passes(const struct run *r, int64_t first,
                                           const struct sl_profile_slice *slice) {
    struct sl_profile_pair sum = {0};
    for (int u = slice->first; u < slice->last; u++)
        for (int64_t i = first; i < r->rows.count; i++)
            if (r->rows.at[i].signature == r->signature[u]) {
                sum.f += r->rows.at[i].f;
                sum.b += r->rows.at[i].i + r->rows.at[i].w;
            }
    return sum;
}

/* Adds the median pass times of a worker to `out`. */
static void pass_medians(const struct member *m, int rounds, int64_t *scratch, double out[3]) {
    int units = m->slice.last - m->slice.first;
    for (int what = 0; what < 3; what++) {
        for (int k = 0; k < rounds; k++) {
            scratch[k] = 0;
            for (int u = 0; u < units; u++)
                scratch[k] += time_of(&m->samples[(int64_t)k * units + u], what);
        }
        out[what] += (double)quantile(scratch, rounds, 0.5);
    }
}

/* Adds one row per signature. `at`: the samples of all workers. */
static void add_rows(struct run *r, struct sample *at, int64_t count, const double whole[3],
                     int64_t micro) {
    int64_t before = r->rows.count, *scratch = SL_NEW(r->arena, int64_t, count + 1);
    double sum[3] = {0}, share[3];
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
        double units = (double)(j - i) / (double)r->rounds;
        sum[0] += units * (double)row.f;
        sum[1] += units * (double)row.i;
        sum[2] += units * (double)row.w;
        SL_PUSH(&r->rows, row);
    }
    for (int what = 0; what < 3; what++)
        share[what] = sum[what] > 0 ? whole[what] / sum[what] : 1;
    stretch(r, before, share);
}

/* Runs the forward of one micro-batch, then the backward of the oldest one in flight. */
static sl_err run_round(struct sl_body *body, int64_t round, int64_t *extra_ns) {
    int64_t kernels = 0, slots = body->part.slots, slot = round % slots;
    memset(body->op_ns, 0, sizeof *body->op_ns * (size_t)body->program->instr_count);
    body->copied_bytes = body->copied_ns = 0;
    SL_TRY(sl_profile_body_feed(body, (int)slot, round));
    int64_t start = sl_clock_ns();
    SL_TRY(sl_profile_body_pass(body, SL_PHASE_F, (int)slot));
    if (round >= slots - 1)
        SL_TRY(sl_profile_body_pass(body, SL_PHASE_B, (int)((round + 1) % slots)));
    int64_t all = sl_clock_ns() - start - body->copied_ns;
    for (int i = 0; i < body->program->instr_count; i++)
        kernels += body->op_ns[i];
    *extra_ns = (all - kernels) / 2;
    return SL_OK;
}

/* Keeps running until all workers have measured, so that the load does not change. */
static sl_err stay_busy(struct crowd *c, struct sl_crowd *crowd, int worker) {
    const struct run *r = c->run;
    const int64_t warm = 4 + r->spec->busy; /* rounds that fill all slots, plus four */
    struct member *m = &c->members[worker];
    struct sl_body *body = m->body;
    bool told = false;
    for (int64_t round = 0; round < r->rounds + warm || !sl_comm_crowd_is_done(crowd, &told);
         round++) {
        int64_t extra, at = round - warm;
        SL_TRY(run_round(body, round, &extra));
        if (at < 0 || at >= r->rounds)
            continue;
        m->extra[at] = extra;
        m->copy_rate[at] = 1e9 * (double)body->copied_bytes / (double)(body->copied_ns + 1);
        add_round(r, body, &m->slice, m->samples + at * (m->slice.last - m->slice.first));
    }
    return SL_OK;
}

static sl_err work(void *ctx, struct sl_crowd *crowd, int worker) {
    struct crowd *c = ctx;
    struct member *m = &c->members[worker];
    sl_err err = stay_busy(c, crowd, worker);
    if (err == SL_OK)
        err = sl_profile_recompute_measure(m->body, c->run->spec->busy, &m->recompute);
    if (err != SL_OK)
        sl_comm_gate_fail(&c->relay.gate, err); /* wakes the workers that wait for this one */
    SL_TRY(err);
    SL_TRY(sl_profile_relay_run(&c->relay, worker, m->body));
    return sl_profile_steps_measure(m->body, c->run->spec->optim, crowd, worker, c->run->spec->busy,
                                    &m->rates);
}

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_rate(double *at, int64_t count) {
    sl_sort(at, count, sizeof *at, compare_doubles);
    return at[count / 2];
}

/* Mean rate of the workers that have parameters: total parameter bytes / total seconds, so a worker
 * counts by its bytes. */
static struct sl_step_rates mean_rates(const struct member *members, int count) {
    struct sl_step_rates seconds = {0};
    double all = 0;
    for (int w = 0; w < count; w++) {
        const struct sl_step_rates *rates = &members[w].rates;
        double bytes = (double)members[w].body->program->param_bytes;
        if (!(rates->step > 0 && rates->version > 0))
            continue;
        all += bytes;
        seconds.step += bytes / rates->step;
        seconds.version += bytes / rates->version;
    }
    return all > 0 ? (struct sl_step_rates){all / seconds.step, all / seconds.version} : seconds;
}

/* Converts the samples of all workers into rows. */
static sl_err conclude(struct run *r, struct crowd *c, int size) {
    const struct sl_profile_spec *spec = r->spec;
    double whole[3] = {0};
    int64_t rounds = (int64_t)spec->busy * r->rounds, before = r->rows.count;
    int64_t *scratch = SL_NEW(r->arena, int64_t, r->rounds + 1);
    for (int w = 0; w < spec->busy; w++) {
        pass_medians(&c->members[w], r->rounds, scratch, whole);
        sum_passes(&c->members[w], r->rounds);
    }
    for (int w = 0; w < spec->busy; w++)
        sl_profile_relay_add(&c->relay, w, &r->cold);
    for (int w = 0; w < spec->busy; w++)
        r->recompute += c->members[w].recompute / (spec->busy * spec->size_count);
    r->late_ns += sl_profile_relay_late(&c->relay) / spec->size_count;
    add_rows(r, c->samples, c->count, whole, spec->sizes[size]);
    for (int w = 0; w < spec->busy; w++)
        sl_profile_tempo_add(&r->tempo, w, size, c->members[w].passes,
                             table_passes(r, before, &c->members[w].slice));
    r->rates = mean_rates(c->members, spec->busy);
    r->action_ns = quantile(c->extra, rounds, 0.5);
    r->action_ns = r->action_ns > 0 ? r->action_ns : 0;
    r->copy_rate = median_rate(c->copies, rounds);
    return r->copy_rate > 0 ? SL_OK : sl_profile_body_copy_rate(c->members[0].body, &r->copy_rate);
}

static struct crowd open_crowd(struct run *r, struct sl_arena *arena) {
    const struct sl_profile_spec *spec = r->spec;
    int64_t rounds = r->rounds, at = 0;
    struct crowd c = {.run = r,
                      .members = SL_NEW(arena, struct member, spec->busy),
                      .extra = SL_NEW(arena, int64_t, spec->busy * rounds),
                      .copies = SL_NEW(arena, double, spec->busy *rounds)};
    for (int w = 0; w < spec->busy; w++) {
        struct sl_profile_slice slice = r->slices[w % r->slice_count];
        c.members[w] = (struct member){.slice = slice,
                                       .extra = c.extra + w * rounds,
                                       .copy_rate = c.copies + w * rounds,
                                       .passes = SL_NEW(arena, struct sl_profile_pair, rounds)};
        c.count += rounds * (slice.last - slice.first);
    }
    c.samples = SL_NEW(arena, struct sample, c.count);
    for (int w = 0; w < spec->busy; w++) {
        c.members[w].samples = c.samples + at;
        at += rounds * (c.members[w].slice.last - c.members[w].slice.first);
    }
    return c;
}

static sl_err measure_size(struct run *r, int size) {
    const struct sl_profile_spec *spec = r->spec;
    struct sl_arena arena = {0};
    struct crowd c = open_crowd(r, &arena);
    sl_profile_relay_open(&arena, &c.relay, spec->busy, r->rounds);
    int place = sl_comm_crowd_place(spec->busy, spec->threads);
    c.relay.gate.own_places = place >= 0;
    sl_err err = SL_OK;
    for (int w = 0; w < spec->busy; w++) {
        int stage = w % r->slice_count, in_flight = r->slice_count - stage; /* as in 1F1B */
        struct sl_body_part part = {r->slice_count > 1 ? r->stage_of : NULL, stage,
                                    in_flight > 2 ? in_flight : 2,
                                    place < 0 ? -1 : place + w * spec->threads};
        SL_TRY_OUT(sl_profile_body_open(spec, &part, spec->sizes[size], &c.members[w].body));
    }
    SL_TRY_OUT(sl_comm_crowd_run(spec->busy, spec->threads, work, &c));
    err = conclude(r, &c, size);
out:
    for (int w = 0; w < spec->busy; w++)
        sl_profile_body_close(c.members[w].body);
    sl_profile_relay_close(&c.relay);
    sl_arena_free(&arena);
    return err;
}

int sl_profile_rounds(const struct sl_profile_spec *spec, int64_t round_ns) {
    double max = (double)SL_TEMPO_PASSES / 2 / spec->size_count, samples = 0;
    for (int s = 0; s < spec->size_count; s++)
        samples += (double)spec->sizes[s];
    double all_ns = (double)(round_ns + 1) * samples / (double)spec->sizes[0];
    double wanted = fmin(max, ceil(1e9 * spec->seconds / all_ns));
    return wanted > spec->rounds ? (int)wanted : spec->rounds;
}

/* Cuts the model into one slice per worker, by the unit times of two runs of the whole model. */
static sl_err cut_slices(struct run *r) {
    enum { ROUNDS = 2 };
    const struct sl_profile_spec *spec = r->spec;
    const struct sl_profile_slice whole = {0, r->unit_count};
    struct sl_body_part all = {NULL, 0, 2, -1};
    struct sample *samples = SL_NEW(r->arena, struct sample, r->unit_count + 1);
    int64_t extra, *unit_ns = SL_NEW(r->arena, int64_t, r->unit_count + 1);
    int64_t round_ns = 1;
    struct sl_body *body = NULL;
    sl_err err = SL_OK;
    if (spec->busy > 1 || spec->seconds > 0) {
        SL_TRY_OUT(sl_profile_body_open(spec, &all, spec->sizes[0], &body));
        for (int round = 0; round < ROUNDS; round++)
            SL_TRY_OUT(run_round(body, round, &extra));
        add_round(r, body, &whole, samples);
    }
    for (int u = 0; u < r->unit_count; u++) {
        unit_ns[u] = time_of(&samples[u], 3);
        round_ns += unit_ns[u];
    }
    r->slice_count =
        sl_profile_slices_cut(r->arena, unit_ns, r->unit_count, spec->busy, &r->slices);
    r->rounds = sl_profile_rounds(spec, round_ns / r->slice_count);
    r->stage_of = SL_NEW(r->arena, int, spec->graph->forward_count + 1);
    for (int n = 0, slice = 0; n < spec->graph->forward_count; n++) {
        for (slice = 0; r->slices[slice].last <= r->unit_of[n];)
            slice++;
        r->stage_of[n] = slice;
    }
out:
    sl_profile_body_close(body);
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
    SL_TRY_OUT(cut_slices(&r));
    sl_profile_tempo_open(arena, &r.tempo, spec->busy, r.rounds, spec->size_count);
    for (int s = 0; s < spec->size_count; s++) {
        if (spec->progress)
            spec->progress(spec->ctx, s, spec->size_count);
        SL_TRY_OUT(measure_size(&r, s));
    }
    int64_t latency_ns = r.late_ns;
    if (spec->busy < 2)
        SL_TRY_OUT(sl_profile_latency(&latency_ns));
    struct sl_cost draft = {
        .model = graph->name,
        .device = spec->device->name,
        .threads = spec->threads,
        .busy = spec->busy,
        .rows = r.rows.at,
        .row_count = (int)r.rows.count,
        .step_bytes_per_s = floor(r.rates.step),
        .version_bytes_per_s = floor(r.rates.version),
        .link_bytes_per_s = floor(r.copy_rate),
        .link_latency_ns = latency_ns,
        .action_ns = r.action_ns,
        .recompute = (int32_t)(1e6 * fmin(r.recompute, 1) + 0.5), /* a value above 1 is noise */
        .cold = sl_profile_relay_mean(&r.cold, spec->busy * spec->size_count),
        .tempo = sl_profile_tempo_of(&r.tempo)};
    err = sl_cost_build(arena, &draft, out);
out:
    SL_VEC_FREE(&r.rows);
    return err;
}
