/* lstm: the products with x for all steps at once, then the recurrent ones step by step. */
#include "device/cpu/kernels.h"
#include "device/cpu/product/gemm.h"
#include "device/cpu/product/recurrent.h"
#include "device/cpu/sizes.h"
#include "device/cpu/vec_math.h"

struct lstm {
    struct sl_recurrent r;
    int64_t step; /* index of the current step */
    const float *w_hh, *bias_ih, *bias_hh, *h0, *c0;
    float *y, *c, *gates;
};

static struct sl_recurrent lstm_recurrent(const struct sl_instr *instr) {
    const int64_t *y = instr->out[0].shape.dim;
    return (struct sl_recurrent){.b = y[0], .t = y[1], .h = y[2], .k = y[2], .parts = 4};
}

/* Computes gates, c and y of LANES units of one sample from the sums of both products. */
static void lstm_cell(const struct lstm *l, const float *sums, int64_t wide, int64_t b, int64_t j) {
    int64_t h = l->r.h, at = b * l->r.t + l->step, n = min_i64(LANES, h - j);
    float *gates = l->gates + at * 4 * h;
    vf g[4];
    for (int part = 0; part < 4; part++) {
        int64_t place = part * h + j;
        vf a = load_n(gates + place, n) + optional_load(l->bias_ih, place, n) +
               optional_load(l->bias_hh, place, n);
        if (sums)
            a += load(sums + part * wide);
        g[part] = part == 2 ? vtanh(a) : vsigmoid(a);
        store_n(gates + place, g[part], n);
    }
    vf before = l->step ? load_n(l->c + (at - 1) * h + j, n) : optional_load(l->c0, b * h + j, n);
    vf c = g[1] * before + g[0] * g[2];
    store_n(l->c + at * h + j, c, n);
    store_n(l->y + at * h + j, g[3] * vtanh(c), n);
}

static void lstm_prepare(void *ctx, int thread, int threads) {
    const struct lstm *l = ctx;
    struct sl_recurrent_units u = units_of(&l->r, thread, threads);
    units_pack(&l->r, &u, &(struct sl_gemm_matrix){l->w_hh, l->r.h, true}, l->r.h);
}

static void lstm_step(void *ctx, int thread, int threads) {
    const struct lstm *l = ctx;
    const struct sl_recurrent *r = &l->r;
    struct sl_recurrent_units u = units_of(r, thread, threads);
    bool has_left = l->step > 0 || l->h0;
    if (l->step > 0)
        units_multiply(r, &u, l->y + (l->step - 1) * r->h, r->t * r->h);
    else if (l->h0)
        units_multiply(r, &u, l->h0, r->h);
    for (int64_t b = 0; b < r->b; b++)
        for (int64_t j = u.j0; j < u.j1; j += LANES)
            lstm_cell(l, has_left ? u.sums + b * 4 * u.wide + j - u.j0 : NULL, u.wide, b, j);
}

static void lstm(const struct sl_device_cpu_call *call) {
    int threads = sl_device_pool_threads(call->pool);
    struct lstm l = {
        .r = lstm_recurrent(call->instr),
        .w_hh = call->in[2],
        .bias_ih = call->in[3],
        .bias_hh = call->in[4],
        .h0 = call->in[5],
        .c0 = call->in[6],
        .y = call->out[0],
        .c = call->out[1],
        .gates = call->out[2],
    };
    int64_t inputs = call->instr->in[0].shape.dim[2];
    struct sl_gemm_batch batch = {
        .gemm =
            {
                .m = l.r.b * l.r.t,
                .n = 4 * l.r.h,
                .k = inputs,
                .a = {call->in[0], inputs, false},
                .b = {call->in[1], inputs, true},
                .c = l.gates,
                .ldc = 4 * l.r.h,
            },
        .count = 1,
        .scratch = call->scratch,
    };
    gemm_run(call->pool, &batch);
    l.r.scratch = call->scratch;
    l.r.scratch_step = recurrent_floats(&l.r, threads);
    sl_device_pool_run(call->pool, lstm_prepare, &l);
    for (l.step = 0; l.step < l.r.t; l.step++)
        sl_device_pool_run(call->pool, lstm_step, &l);
}

static int64_t lstm_scratch(const struct sl_instr *instr, int threads) {
    struct sl_recurrent r = lstm_recurrent(instr);
    int64_t product = gemm_scratch(r.b * r.t, 4 * r.h, instr->in[0].shape.dim[2], 1, threads);
    return 4 * threads * max_i64(product, recurrent_floats(&r, threads));
}

/* ---- y one step later ---- */

static void lstm_hprev(const struct sl_device_cpu_call *call) {
    const int64_t *dim = call->instr->in[0].shape.dim;
    const float *y = call->in[0], *h0 = call->in[1];
    float *out = call->out[0];
    for (int64_t b = 0; b < dim[0]; b++)
        for (int64_t t = 0; t < dim[1]; t++)
            for (int64_t j = 0; j < dim[2]; j++) {
                int64_t at = (b * dim[1] + t) * dim[2] + j;
                float value = t ? y[at - dim[2]] : h0 ? h0[b * dim[2] + j] : 0;
                out[at] = call->add ? out[at] + value : value;
            }
}

const struct sl_device_cpu_kernel SL_ISA_NAME(lstm_kernels)[] = {
    {"lstm", lstm, lstm_scratch},
    {"lstm_hprev", lstm_hprev, NULL},
    {0},
};
