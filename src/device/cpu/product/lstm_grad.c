/* lstm_dgates: the gradient before the gates' non-linearities, from the last step to the first.
 *
 *   dh = dy + da[t+1] w_hh       dc = dc_out + carry + dh o (1 - tanh(c)^2)
 *   da_i = dc g i (1 - i)   da_f = dc c[t-1] f (1 - f)   da_g = dc i (1 - g^2)
 *   da_o = dh tanh(c) o (1 - o)                              carry = dc f
 */
#include "device/cpu/kernels.h"
#include "device/cpu/product/recurrent.h"
#include "device/cpu/sizes.h"
#include "device/cpu/vec_math.h"

struct lstm_back {
    struct sl_recurrent r;
    int64_t step;
    const float *gates, *c, *w_hh, *c0, *dy, *dc;
    float *da, *dh0, *dc0; /* dc0 [B,H] carries dc from step to step */
};

static struct sl_recurrent back_recurrent(const struct sl_instr *instr) {
    const int64_t *c = instr->in[1].shape.dim;
    return (struct sl_recurrent){.b = c[0], .t = c[1], .h = c[2], .k = 4 * c[2], .parts = 1};
}

/* Computes LANES units of one sample. `dh` is the gradient that comes from the next step. */
static void lstm_cell_back(const struct lstm_back *l, vf dh, int64_t b, int64_t j) {
    int64_t h = l->r.h, row = b * l->r.t + l->step, at = row * h + j, n = min_i64(LANES, h - j);
    const float *gates = l->gates + row * 4 * h + j;
    float *da = l->da + row * 4 * h + j;
    vf i = load_n(gates, n), f = load_n(gates + h, n);
    vf g = load_n(gates + 2 * h, n), o = load_n(gates + 3 * h, n);
    vf before = l->step ? load_n(l->c + at - h, n) : optional_load(l->c0, b * h + j, n);
    vf squashed = vtanh(load_n(l->c + at, n));
    dh += optional_load(l->dy, at, n);
    vf dc = optional_load(l->dc, at, n) + dh * o * (1.0f - squashed * squashed);
    if (l->step + 1 < l->r.t)
        dc += load_n(l->dc0 + b * h + j, n);
    store_n(da, dc * g * i * (1.0f - i), n);
    store_n(da + h, dc * before * f * (1.0f - f), n);
    store_n(da + 2 * h, dc * i * (1.0f - g * g), n);
    store_n(da + 3 * h, dh * squashed * o * (1.0f - o), n);
    store_n(l->dc0 + b * h + j, dc * f, n);
}

static void lstm_back_prepare(void *ctx, int thread, int threads) {
    const struct lstm_back *l = ctx;
    struct sl_recurrent_units u = units_of(&l->r, thread, threads);
    units_pack(&l->r, &u, &(struct sl_gemm_matrix){l->w_hh, l->r.h, false}, 0);
}

/* Step -1 is only the product that gives dh0. */
static void lstm_back_step(void *ctx, int thread, int threads) {
    const struct lstm_back *l = ctx;
    const struct sl_recurrent *r = &l->r;
    struct sl_recurrent_units u = units_of(r, thread, threads);
    bool last = l->step + 1 == r->t;
    if (!last)
        units_multiply(r, &u, l->da + (l->step + 1) * 4 * r->h, r->t * 4 * r->h);
    for (int64_t b = 0; b < r->b; b++)
        for (int64_t j = u.j0; j < u.j1; j += LANES) {
            vf dh = {0};
            if (!last)
                dh = load(u.sums + b * u.wide + j - u.j0);
            if (l->step >= 0)
                lstm_cell_back(l, dh, b, j);
            else
                store_n(l->dh0 + b * r->h + j, dh, u.j1 - j);
        }
}

static void lstm_dgates(const struct sl_device_cpu_call *call) {
    struct lstm_back l = {
        .r = back_recurrent(call->instr),
        .gates = call->in[0],
        .c = call->in[1],
        .w_hh = call->in[2],
        .c0 = call->in[3],
        .dy = call->in[4],
        .dc = call->in[5],
        .da = call->out[0],
        .dh0 = call->out[1],
        .dc0 = call->out[2],
    };
    l.r.scratch = call->scratch;
    l.r.scratch_step = recurrent_floats(&l.r, sl_device_pool_threads(call->pool));
    sl_device_pool_run(call->pool, lstm_back_prepare, &l);
    for (l.step = l.r.t - 1; l.step >= -1; l.step--)
        sl_device_pool_run(call->pool, lstm_back_step, &l);
}

static int64_t lstm_dgates_scratch(const struct sl_instr *instr, int threads) {
    struct sl_recurrent r = back_recurrent(instr);
    return 4 * threads * recurrent_floats(&r, threads);
}

const struct sl_device_cpu_kernel SL_ISA_NAME(lstm_grad_kernels)[] = {
    {"lstm_dgates", lstm_dgates, lstm_dgates_scratch},
    {0},
};
