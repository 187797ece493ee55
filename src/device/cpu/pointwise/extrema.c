/* reduce_max, reduce_min, reduce_var and their gradients, over any axes.
 *
 * Axes are merged until kept (K) and reduced (R) ones alternate. A thread works on units:
 *
 *   innermost axis R    a unit computes one result; it visits runs of R
 *   innermost axis K    a unit computes up to CHUNK results that are neighbours on that axis; it
 *                       visits rows of them
 *
 * The order within a unit depends on the shape only. */
#include "device/cpu/pointwise/adding.h"
#include "device/cpu/pointwise/loops.h"
#include "device/cpu/pointwise/runs.h"

enum { CHUNK = 512 };

struct unit {
    /* x is the visited tensor; dy and y point to the first result of the unit */
    const float *x, *dy, *y;
    float *out; /* has the shape of x, or points to the first result */
    double acc[CHUNK];
    float best[CHUNK];
    float factor, scale; /* `factor` multiplies a term of the mean, `scale` the result */
    bool across;         /* a run is reduced to one result */
};

/* Visits n elements from offset `at` of x on. */
typedef void visit_fn(struct unit *u, int64_t at, int64_t n);
typedef void end_fn(struct unit *u, int64_t n);

struct reduction {
    const struct sl_device_cpu_call *call;
    struct sl_kernel_loops kept, reduced; /* stride[0] is in x, stride[1] of `kept` in the result */
    bool across;
    int64_t columns; /* length of the innermost axis if it is kept */
};

static struct reduction reduction_of(const struct sl_device_cpu_call *call,
                                     const struct sl_shape *x) {
    struct reduction r = {.call = call};
    const struct sl_ints *axes = &call->instr->attr[0].ints;
    int64_t stride = sl_graph_shape_numel(x, 1), narrow = stride;
    bool reduced[SL_MAX_RANK] = {false};
    for (int i = 0; i < axes->count; i++) {
        reduced[axes->at[i]] = true;
        narrow /= x->dim[axes->at[i]];
    }
    for (int i = 0; i < x->rank; i++) {
        stride /= x->dim[i];
        if (reduced[i]) {
            loops_add(&r.reduced, x->dim[i], stride, 0);
        } else {
            narrow /= x->dim[i];
            loops_add(&r.kept, x->dim[i], stride, narrow);
        }
    }
    loops_close(&r.reduced);
    loops_close(&r.kept);
    r.across = r.reduced.stride[0][r.reduced.rank - 1] == 1;
    r.columns = r.across ? 1 : r.kept.size[r.kept.rank - 1];
    if (r.across) /* loops_seek leaves out the innermost axis: add one of one element */
        r.kept.size[r.kept.rank] = 1, r.kept.stride[0][r.kept.rank] = 1,
        r.kept.stride[1][r.kept.rank] = 1, r.kept.rank++;
    else
        r.reduced.size[r.reduced.rank] = 1, r.reduced.rank++;
    return r;
}

static int64_t loops_outer(const struct sl_kernel_loops *l) {
    int64_t count = 1;
    for (int i = 0; i < l->rank - 1; i++)
        count *= l->size[i];
    return count;
}

/* Visits all rows of a unit in order. */
static void visit_all(const struct reduction *r, struct unit *u, int64_t base, int64_t n,
                      visit_fn *f) {
    int last = r->reduced.rank - 1;
    int64_t rows = loops_outer(&r->reduced), at[2];
    for (int64_t i = 0; i < rows; i++) {
        loops_seek(&r->reduced, i, at);
        f(u, base + at[0], r->across ? r->reduced.size[last] : n);
    }
}

struct steps { /* up to two passes over x, and what begins and ends a unit */
    visit_fn *first, *second;
    end_fn *begin, *middle, *end;
};

static void reduce_units(const struct reduction *r, const struct unit *like, int64_t from,
                         int64_t to, const struct steps *s) {
    struct unit u = *like;
    int64_t chunks = (r->columns + CHUNK - 1) / CHUNK, at[2];
    for (int64_t i = from; i < to; i++) {
        int64_t column = i % chunks * CHUNK, left = r->columns - column;
        int64_t n = left < CHUNK ? left : CHUNK;
        loops_seek(&r->kept, i / chunks, at);
        u.dy = like->dy ? like->dy + at[1] + column : NULL;
        u.y = like->y ? like->y + at[1] + column : NULL;
        u.out = like->dy ? like->out : like->out + at[1] + column;
        u.across = r->across;
        s->begin(&u, n);
        visit_all(r, &u, at[0] + column, n, s->first);
        if (s->middle)
            s->middle(&u, n);
        if (s->second)
            visit_all(r, &u, at[0] + column, n, s->second);
        s->end(&u, n);
    }
}

static int64_t unit_count(const struct reduction *r) {
    return loops_outer(&r->kept) * ((r->columns + CHUNK - 1) / CHUNK);
}

/* ---- max and min ---- */

/* NOLINTNEXTLINE(misc-redundant-expression) */
static INLINE vf larger_or_nan(vf a, vf b) { return pick((a > b) | (a != a), a, b); }

static void begin_max(struct unit *u, int64_t n) {
    for (int64_t j = 0; j < n; j++)
        u->best[j] = -INFINITY;
}

/* `factor` is 1 for max and -1 for min, which is -max(-x) */
static void visit_max(struct unit *u, int64_t at, int64_t n) {
    const float *x = u->x + at;
    int64_t i = 0;
    if (!u->across) {
        for (; i < n; i += LANES)
            store_at(u->best, larger_or_nan(load_at(x, i, n) * u->factor, load_at(u->best, i, n)),
                     i, n);
        return;
    }
    /* independent chains of comparisons, because each comparison waits for the one before */
    enum { CHAINS = 8 };
    vf best[CHAINS];
    for (int k = 0; k < CHAINS; k++)
        best[k] = splat(u->best[0]);
    for (; i + CHAINS * LANES <= n; i += CHAINS * LANES)
        for (int k = 0; k < CHAINS; k++)
            best[k] = larger_or_nan(load(x + i + k * LANES) * u->factor, best[k]);
    for (int k = 1; k < CHAINS; k++)
        best[0] = larger_or_nan(best[k], best[0]);
    float all = best[0][0];
    for (int k = 1; k < LANES; k++)
        all = best[0][k] > all || isnan(best[0][k]) ? best[0][k] : all;
    for (; i < n; i++) {
        float v = x[i] * u->factor;
        all = v > all || isnan(v) ? v : all;
    }
    u->best[0] = all;
}

static void end_max(struct unit *u, int64_t n) {
    for (int64_t j = 0; j < n; j++)
        u->out[j] = u->best[j] * u->factor;
}

static const struct steps max_steps = {visit_max, NULL, begin_max, NULL, end_max};

static void begin_zero(struct unit *u, int64_t n) {
    for (int64_t j = 0; j < n; j++)
        u->acc[j] = 0;
}

static void end_nothing(struct unit *u, int64_t n) {
    (void)u;
    (void)n;
}

static void visit_count(struct unit *u, int64_t at, int64_t n) {
    const float *x = u->x + at;
    if (u->across) {
        int64_t count = 0;
        for (int64_t i = 0; i < n; i++)
            count += x[i] == u->y[0];
        u->acc[0] += (double)count;
        return;
    }
    for (int64_t i = 0; i < n; i++)
        u->acc[i] += x[i] == u->y[i];
}

static void middle_share(struct unit *u, int64_t n) {
    for (int64_t j = 0; j < n; j++)
        u->best[j] = (float)((double)u->dy[j] / u->acc[j]);
}

static void visit_share(struct unit *u, int64_t at, int64_t n) {
    const float *x = u->x + at;
    float *dx = u->out + at, share = u->best[0], y = u->y[0];
    for (int64_t i = 0; u->across && i < n; i++)
        dx[i] = x[i] == y ? share : 0;
    for (int64_t i = 0; !u->across && i < n; i++)
        dx[i] = x[i] == u->y[i] ? u->best[i] : 0;
}

static const struct steps max_dx_steps = {visit_count, visit_share, begin_zero, middle_share,
                                          end_nothing};

/* ---- var ---- */

static void visit_sum(struct unit *u, int64_t at, int64_t n) {
    const float *x = u->x + at;
    if (u->across)
        u->acc[0] += (double)sum_run(x, n);
    else
        for (int64_t i = 0; i < n; i++)
            u->acc[i] += (double)x[i];
}

/* terms[0]: terms of a sum; terms[1]: terms less the correction. */
static void var_terms(const struct sl_device_cpu_call *call, const struct sl_operand *x,
                      const struct sl_operand *y, double terms[2]) {
    terms[0] = (double)x->numel / (double)y->numel;
    terms[1] = terms[0] - (double)call->instr->attr[2].i;
}

static void visit_square(struct unit *u, int64_t at, int64_t n) {
    const float *x = u->x + at;
    if (!u->across) {
        for (int64_t i = 0; i < n; i++) {
            float off = x[i] - u->best[i];
            u->acc[i] += (double)(off * off);
        }
        return;
    }
    vf sum[2] = {{0}}, mean = splat(u->best[0]);
    int64_t i = 0;
    float rest = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES)
        for (int k = 0; k < 2; k++) {
            vf off = load(x + i + k * LANES) - mean;
            sum[k] += off * off;
        }
    for (; i < n; i++)
        rest += (x[i] - u->best[0]) * (x[i] - u->best[0]);
    u->acc[0] += (double)sum_lanes(sum[0] + sum[1]) + (double)rest;
}

static void middle_mean(struct unit *u, int64_t n) {
    for (int64_t j = 0; j < n; j++) {
        u->best[j] = (float)(u->acc[j] * (double)u->factor);
        u->acc[j] = 0;
    }
}

static void end_sum(struct unit *u, int64_t n) {
    for (int64_t j = 0; j < n; j++)
        u->out[j] = (float)(u->acc[j] * (double)u->scale);
}

static const struct steps var_steps = {visit_sum, visit_square, begin_zero, middle_mean, end_sum};

static void visit_off(struct unit *u, int64_t at, int64_t n) {
    const float *x = u->x + at;
    float *dx = u->out + at, mean = u->best[0], dy = u->dy[0] * u->scale;
    for (int64_t i = 0; u->across && i < n; i++)
        dx[i] = dy * (x[i] - mean);
    for (int64_t i = 0; !u->across && i < n; i++)
        dx[i] = u->dy[i] * u->scale * (x[i] - u->best[i]);
}

static const struct steps var_dx_steps = {visit_sum, visit_off, begin_zero, middle_mean,
                                          end_nothing};

struct reduce_job {
    struct reduction r;
    struct unit like;
    const struct steps *steps;
};

static void job_part(void *ctx, int part, int parts) {
    const struct reduce_job *job = ctx;
    int64_t from, to;
    sl_device_pool_range(unit_count(&job->r), 1, part, parts, &from, &to);
    reduce_units(&job->r, &job->like, from, to, job->steps);
}

static void run_job(struct reduce_job *job, int64_t elements) {
    if (elements < SMALL)
        job_part(job, 0, 1);
    else
        sl_device_pool_share(job->r.call->pool, job_part, job);
}

static void forward(const struct sl_device_cpu_call *call, const struct steps *steps, double factor,
                    double scale) {
    struct reduce_job job = {.r = reduction_of(call, &call->instr->in[0].shape), .steps = steps};
    job.like = (struct unit){
        .x = call->in[0], .out = call->out[0], .factor = (float)factor, .scale = (float)scale};
    run_job(&job, numel_in(call, 0));
}

static void k_reduce_max(const struct sl_device_cpu_call *call) { forward(call, &max_steps, 1, 1); }
static void k_reduce_min(const struct sl_device_cpu_call *call) {
    forward(call, &max_steps, -1, 1);
}

static void k_reduce_var(const struct sl_device_cpu_call *call) {
    double terms[2];
    var_terms(call, &call->instr->in[0], &call->instr->out[0], terms);
    forward(call, &var_steps, 1 / terms[0], 1 / terms[1]);
}

static void k_reduce_max_dx(const struct sl_device_cpu_call *call) {
    struct reduce_job job = {.r = reduction_of(call, &call->instr->in[1].shape),
                             .steps = &max_dx_steps};
    job.like = (struct unit){
        .x = call->in[1], .dy = call->in[0], .y = call->in[2], .out = call->out[0], .factor = 1};
    run_job(&job, numel_in(call, 1));
}

static void k_reduce_var_dx(const struct sl_device_cpu_call *call) {
    struct reduce_job job = {.r = reduction_of(call, &call->instr->in[1].shape),
                             .steps = &var_dx_steps};
    double terms[2];
    var_terms(call, &call->instr->in[1], &call->instr->in[0], terms);
    job.like = (struct unit){.x = call->in[1],
                             .dy = call->in[0],
                             .out = call->out[0],
                             .factor = (float)(1 / terms[0]),
                             .scale = (float)(2 / terms[1])};
    run_job(&job, numel_in(call, 1));
}

ADDING(reduce_max)
ADDING(reduce_min)
ADDING(reduce_var)
ADDING(reduce_max_dx)
ADDING(reduce_var_dx)

const struct sl_device_cpu_kernel SL_ISA_NAME(extrema_kernels)[] = {
    {ADDING_ROW(reduce_max)}, {ADDING_ROW(reduce_max_dx)}, {ADDING_ROW(reduce_min)},
    {ADDING_ROW(reduce_var)}, {ADDING_ROW(reduce_var_dx)}, {0},
};
