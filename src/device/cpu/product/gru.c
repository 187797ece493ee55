/* gru, rnn and their gradients: the products with x for all steps at once, then the recurrent ones
 * step by step; see lstm.c and op/recurrent.c. */
#include "device/cpu/kernels.h"
#include "device/cpu/product/gemm.h"
#include "device/cpu/product/recurrent.h"
#include "device/cpu/sizes.h"
#include "device/cpu/vec_math.h"

struct layer {
    struct sl_recurrent r;
    int64_t step; /* index of the current step */
    bool relu;
    const float *w_hh, *bias_ih, *bias_hh, *h0;
    float *y, *gates; /* gates is NULL for an rnn, whose sums with x are in y */
};

static struct sl_recurrent recurrent_of(const struct sl_instr *instr) {
    const int64_t *y = instr->out[0].shape.dim;
    return (struct sl_recurrent){
        .b = y[0], .t = y[1], .h = y[2], .k = y[2], .parts = instr->out_count == 2 ? 3 : 1};
}

/* Returns the sums over h of LANES units of one part, plus their bias. If `sums` is NULL, h is
 * 0. */
static INLINE vf from_h(const struct layer *l, const float *sums, int64_t part, int64_t j,
                        int64_t wide, int64_t n) {
    vf a = optional_load(l->bias_hh, part * l->r.h + j, n);
    return sums ? a + load(sums + part * wide) : a;
}

static INLINE vf before_of(const struct layer *l, int64_t at, int64_t b, int64_t j, int64_t n) {
    int64_t h = l->r.h;
    return l->step ? load_n(l->y + (at - 1) * h + j, n) : optional_load(l->h0, b * h + j, n);
}

static void gru_cell(const struct layer *l, const float *sums, int64_t wide, int64_t b, int64_t j) {
    int64_t h = l->r.h, at = b * l->r.t + l->step, n = min_i64(LANES, h - j);
    float *gates = l->gates + at * 4 * h + j;
    vf x[3];
    for (int p = 0; p < 3; p++)
        x[p] = load_n(gates + p * h, n) + optional_load(l->bias_ih, p * h + j, n);
    vf r = vsigmoid(x[0] + from_h(l, sums, 0, j, wide, n));
    vf z = vsigmoid(x[1] + from_h(l, sums, 1, j, wide, n));
    vf m = from_h(l, sums, 2, j, wide, n), next = vtanh(x[2] + r * m);
    store_n(gates, r, n);
    store_n(gates + h, z, n);
    store_n(gates + 2 * h, next, n);
    store_n(gates + 3 * h, m, n);
    store_n(l->y + at * h + j, (1.0f - z) * next + z * before_of(l, at, b, j, n), n);
}

static void rnn_cell(const struct layer *l, const float *sums, int64_t wide, int64_t b, int64_t j) {
    int64_t h = l->r.h, at = b * l->r.t + l->step, n = min_i64(LANES, h - j);
    vf a = load_n(l->y + at * h + j, n) + optional_load(l->bias_ih, j, n);
    a += from_h(l, sums, 0, j, wide, n);
    store_n(l->y + at * h + j, l->relu ? vmax(a, splat(0)) : vtanh(a), n);
}

static void layer_prepare(void *ctx, int thread, int threads) {
    const struct layer *l = ctx;
    struct sl_recurrent_units u = units_of(&l->r, thread, threads);
    units_pack(&l->r, &u, &(struct sl_gemm_matrix){l->w_hh, l->r.h, true}, l->r.h);
}

static void layer_step(void *ctx, int thread, int threads) {
    const struct layer *l = ctx;
    const struct sl_recurrent *r = &l->r;
    struct sl_recurrent_units u = units_of(r, thread, threads);
    bool has_left = l->step > 0 || l->h0;
    if (l->step > 0)
        units_multiply(r, &u, l->y + (l->step - 1) * r->h, r->t * r->h);
    else if (l->h0)
        units_multiply(r, &u, l->h0, r->h);
    for (int64_t b = 0; b < r->b; b++)
        for (int64_t j = u.j0; j < u.j1; j += LANES) {
            const float *sums = has_left ? u.sums + b * r->parts * u.wide + j - u.j0 : NULL;
            (l->gates ? gru_cell : rnn_cell)(l, sums, u.wide, b, j);
        }
}

/* Inputs: x, w_ih, w_hh, then bias_ih, bias_hh, h0 (optional). */
static void layer(const struct sl_device_cpu_call *call) {
    struct layer l = {
        .r = recurrent_of(call->instr),
        .w_hh = call->in[2],
        .bias_ih = call->in[3],
        .bias_hh = call->in[4],
        .h0 = call->in[5],
        .y = call->out[0],
        .gates = call->instr->out_count == 2 ? call->out[1] : NULL,
        .relu = call->instr->out_count == 1 && call->instr->attr[0].i,
    };
    int64_t inputs = call->instr->in[0].shape.dim[2];
    struct sl_gemm_batch batch = {
        .gemm = {.m = l.r.b * l.r.t,
                 .n = l.r.parts * l.r.h,
                 .k = inputs,
                 .a = {call->in[0], inputs, false},
                 .b = {call->in[1], inputs, true},
                 .c = l.gates ? l.gates : l.y,
                 .ldc = l.gates ? 4 * l.r.h : l.r.h},
        .count = 1,
        .scratch = call->scratch,
    };
    gemm_run(call->pool, &batch);
    l.r.scratch = call->scratch;
    l.r.scratch_step = recurrent_floats(&l.r, sl_device_pool_threads(call->pool));
    sl_device_pool_run(call->pool, layer_prepare, &l);
    for (l.step = 0; l.step < l.r.t; l.step++)
        sl_device_pool_run(call->pool, layer_step, &l);
}

static int64_t layer_scratch(const struct sl_instr *instr, int threads) {
    struct sl_recurrent r = recurrent_of(instr);
    int64_t inputs = instr->in[0].shape.dim[2];
    int64_t product = gemm_scratch(r.b * r.t, r.parts * r.h, inputs, 1, threads);
    return 4 * threads * max_i64(product, recurrent_floats(&r, threads));
}

/* ---- gradients, from the last step to the first ---- */

struct back {
    struct sl_recurrent r; /* `parts` is 1; `k` is the number of rows of w_hh */
    int64_t step;
    bool relu;
    const float *gates, *y, *w_hh, *dy, *h0;
    /* dh is the gradient of the product with w_hh; dh0 [B,H] carries it from step to step */
    float *dx, *dh, *dh0;
};

static struct sl_recurrent back_recurrent(const struct sl_instr *instr) {
    const int64_t *da = instr->out[0].shape.dim;
    bool gru = instr->out_count == 3;
    int64_t h = gru ? da[2] / 3 : da[2];
    return (struct sl_recurrent){.b = da[0], .t = da[1], .h = h, .k = da[2], .parts = 1};
}

static INLINE void gru_cell_back(const struct back *l, vf d, int64_t b, int64_t j) {
    int64_t h = l->r.h, at = b * l->r.t + l->step, n = min_i64(LANES, h - j);
    const float *g = l->gates + at * 4 * h + j;
    float *dx = l->dx + at * 3 * h + j, *dh = l->dh + at * 3 * h + j;
    vf r = load_n(g, n), z = load_n(g + h, n), next = load_n(g + 2 * h, n);
    vf m = load_n(g + 3 * h, n);
    vf before = l->step ? load_n(l->y + (at - 1) * h + j, n) : optional_load(l->h0, b * h + j, n);
    vf dn = d * (1.0f - z) * (1.0f - next * next);
    vf dr = dn * m * r * (1.0f - r), dz = d * (before - next) * z * (1.0f - z);
    store_n(dx, dr, n);
    store_n(dh, dr, n);
    store_n(dx + h, dz, n);
    store_n(dh + h, dz, n);
    store_n(dx + 2 * h, dn, n);
    store_n(dh + 2 * h, dn * r, n);
    store_n(l->dh0 + b * h + j, d * z, n);
}

static INLINE void rnn_cell_back(const struct back *l, vf d, int64_t b, int64_t j) {
    int64_t h = l->r.h, at = (b * l->r.t + l->step) * h + j, n = min_i64(LANES, h - j);
    vf y = load_n(l->y + at, n);
    store_n(l->dx + at, l->relu ? pick(y > 0.0f, d, splat(0)) : d * (1.0f - y * y), n);
}

static void back_prepare(void *ctx, int thread, int threads) {
    const struct back *l = ctx;
    struct sl_recurrent_units u = units_of(&l->r, thread, threads);
    units_pack(&l->r, &u, &(struct sl_gemm_matrix){l->w_hh, l->r.h, false}, 0);
}

/* Step -1 is only the product that gives dh0. */
static void back_step(void *ctx, int thread, int threads) {
    const struct back *l = ctx;
    const struct sl_recurrent *r = &l->r;
    struct sl_recurrent_units u = units_of(r, thread, threads);
    bool last = l->step + 1 == r->t;
    if (!last)
        units_multiply(r, &u, l->dh + (l->step + 1) * r->k, r->t * r->k);
    for (int64_t b = 0; b < r->b; b++)
        for (int64_t j = u.j0; j < u.j1; j += LANES) {
            int64_t n = min_i64(LANES, r->h - j), at = (b * r->t + l->step) * r->h + j;
            vf d = {0};
            if (!last)
                d = load(u.sums + b * u.wide + j - u.j0);
            if (!last && l->gates)
                d += load_n(l->dh0 + b * r->h + j, n);
            if (l->step < 0)
                store_n(l->dh0 + b * r->h + j, d, n);
            else if (l->gates)
                gru_cell_back(l, d + load_n(l->dy + at, n), b, j);
            else
                rnn_cell_back(l, d + load_n(l->dy + at, n), b, j);
        }
}

static void run_back(const struct sl_device_cpu_call *call, struct back l) {
    l.r = back_recurrent(call->instr);
    l.r.scratch = call->scratch;
    l.r.scratch_step = recurrent_floats(&l.r, sl_device_pool_threads(call->pool));
    sl_device_pool_run(call->pool, back_prepare, &l);
    for (l.step = l.r.t - 1; l.step >= -1; l.step--)
        sl_device_pool_run(call->pool, back_step, &l);
}

/* Inputs: gates, y, w_hh, dy, h0 (optional). Outputs: dgates_x, dgates_h, dh0. */
static void gru_dgates(const struct sl_device_cpu_call *call) {
    run_back(call, (struct back){.gates = call->in[0],
                                 .y = call->in[1],
                                 .w_hh = call->in[2],
                                 .dy = call->in[3],
                                 .h0 = call->in[4],
                                 .dx = call->out[0],
                                 .dh = call->out[1],
                                 .dh0 = call->out[2]});
}

/* Inputs: y, w_hh, dy. Outputs: dgates, dh0. */
static void rnn_dgates(const struct sl_device_cpu_call *call) {
    run_back(call, (struct back){.y = call->in[0],
                                 .w_hh = call->in[1],
                                 .dy = call->in[2],
                                 .dx = call->out[0],
                                 .dh = call->out[0],
                                 .dh0 = call->out[1],
                                 .relu = call->instr->attr[0].i != 0});
}

static int64_t back_scratch(const struct sl_instr *instr, int threads) {
    struct sl_recurrent r = back_recurrent(instr);
    return 4 * threads * recurrent_floats(&r, threads);
}

extern const struct sl_device_cpu_kernel SL_ISA_NAME(gru_kernels)[];

const struct sl_device_cpu_kernel SL_ISA_NAME(gru_kernels)[] = {
    {"gru", layer, layer_scratch},
    {"gru_dgates", gru_dgates, back_scratch},
    {"rnn", layer, layer_scratch},
    {"rnn_dgates", rnn_dgates, back_scratch},
    {0},
};
