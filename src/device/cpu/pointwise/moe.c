/* Mixture of experts: slots, dispatch, combine, load and balance; see op/moe.c. A thread owns whole
 * tokens or whole rows, so that no sum depends on the threads. */
#include "device/cpu/pointwise/adding.h"
#include "device/cpu/pointwise/runs.h"

#include <math.h>

/* Two passes over the choices, in order: the first counts the choices of every expert, the second
 * gives each choice the next free row. */
static void k_moe_slots(const struct sl_device_cpu_call *call) {
    const int32_t *choice = call->in[0];
    const union sl_attr *attr = call->instr->attr;
    int32_t *slots = call->out[0], *ranges = call->out[1];
    int64_t count = numel_in(call, 0), experts = attr[0].i, next = 0;
    int64_t samples = call->samples > 0 && count % call->samples == 0 ? call->samples : 1;
    bool dropless = !(attr[1].f > 0);
    int64_t each = count / samples;
    int64_t room =
        dropless ? count : samples * (int64_t)ceil(attr[1].f * (double)each / (double)experts);
    for (int64_t e = 0; e < experts; e++)
        ranges[2 * e + 1] = 0;
    for (int64_t i = 0; i < count; i++) {
        SL_ASSERT(choice[i] >= 0 && choice[i] < experts);
        ranges[2 * choice[i] + 1]++;
    }
    for (int64_t e = 0; e < experts; e++) {
        ranges[2 * e] = (int32_t)(dropless ? next : e * room);
        next += ranges[2 * e + 1];
        ranges[2 * e + 1] = ranges[2 * e];
    }
    for (int64_t i = 0; i < count; i++) {
        int32_t *end = &ranges[2 * choice[i] + 1];
        slots[i] = *end - ranges[2 * choice[i]] < room ? (*end)++ : -1;
    }
}

/* Clears the rows of y. Afterwards each choice fills its own row; no two choices have the same
 * one. */
static void clear_part(void *ctx, int thread, int threads) {
    const struct sl_device_cpu_call *call = ctx;
    int64_t from, to;
    sl_device_pool_range(numel_out(call, 0), GRAIN, thread, threads, &from, &to);
    memset((float *)call->out[0] + from, 0, (size_t)(to - from) * sizeof(float));
}

static void dispatch_part(void *ctx, int thread, int threads) {
    const struct sl_device_cpu_call *call = ctx;
    int64_t n = call->instr->out[0].shape.dim[1], k = rows_of(&call->instr->in[1].shape).n, from,
            to;
    const int32_t *slot = call->in[1];
    const float *weight = call->in[2];
    sl_device_pool_range(numel_in(call, 1), 1, thread, threads, &from, &to);
    for (int64_t i = from; i < to; i++) {
        if (slot[i] < 0)
            continue;
        const float *x = (const float *)call->in[0] + i / k * n;
        float *y = (float *)call->out[0] + slot[i] * n;
        for (int64_t j = 0; j < n; j += LANES)
            store_at(y, weight ? load_at(x, j, n) * weight[i] : load_at(x, j, n), j, n);
    }
}

static void k_moe_dispatch(const struct sl_device_cpu_call *call) {
    run_parts(call, numel_out(call, 0), clear_part);
    run_parts(call, numel_out(call, 0), dispatch_part);
}

/* y[token] = the sum over its choices, in order, of weight x row. */
static void combine_part(void *ctx, int thread, int threads) {
    const struct sl_device_cpu_call *call = ctx;
    int64_t n = call->instr->in[0].shape.dim[1], from, to;
    struct sl_kernel_rows tokens = rows_of(&call->instr->in[1].shape);
    const int32_t *slot = call->in[1];
    const float *weight = call->in[2], *rows = call->in[0];
    sl_device_pool_range(tokens.count, 1, thread, threads, &from, &to);
    for (int64_t t = from; t < to; t++)
        for (int64_t j = 0; j < n; j += LANES) {
            vf sum = {0};
            for (int64_t i = t * tokens.n; i < (t + 1) * tokens.n; i++)
                if (slot[i] >= 0)
                    sum += load_at(rows + slot[i] * n, j, n) * (weight ? weight[i] : 1.0f);
            float *y = (float *)call->out[0] + t * n;
            store_at(y, call->add ? load_at(y, j, n) + sum : sum, j, n);
        }
}

static void k_moe_combine(const struct sl_device_cpu_call *call) {
    run_parts(call, numel_in(call, 0), combine_part);
}

/* Inputs: dy [tokens,C], rows [R,C], slots. */
static void combine_dw_part(void *ctx, int thread, int threads) {
    const struct sl_device_cpu_call *call = ctx;
    int64_t n = call->instr->in[1].shape.dim[1], k = rows_of(&call->instr->in[2].shape).n, from, to;
    const int32_t *slot = call->in[2];
    float *dw = call->out[0];
    sl_device_pool_range(numel_in(call, 2), 16, thread, threads, &from, &to);
    for (int64_t i = from; i < to; i++) {
        const float *dy = (const float *)call->in[0] + i / k * n;
        const float *row = (const float *)call->in[1] + (slot[i] < 0 ? 0 : slot[i]) * n;
        vf sum = {0};
        for (int64_t j = 0; j < n && slot[i] >= 0; j += LANES)
            sum += load_at(dy, j, n) * load_at(row, j, n);
        dw[i] = (call->add ? dw[i] : 0) + sum_lanes(sum);
    }
}

static void k_moe_combine_dw(const struct sl_device_cpu_call *call) {
    run_parts(call, numel_in(call, 1), combine_dw_part);
}

static void k_moe_load(const struct sl_device_cpu_call *call) {
    const int32_t *choice = call->in[0];
    int64_t count = numel_in(call, 0), experts = call->instr->attr[0].i;
    float *load = call->out[0];
    for (int64_t e = 0; e < experts; e++) /* as floats, counts are exact up to 2^24 */
        load[e] = 0;
    for (int64_t i = 0; i < count; i++)
        load[choice[i]] += 1;
    for (int64_t e = 0; e < experts; e++)
        load[e] /= (float)count;
}

static void k_moe_balance(const struct sl_device_cpu_call *call) {
    const float *bias = call->in[0], *load = call->in[1];
    float *next = call->out[0], rate = (float)call->instr->attr[0].f;
    int64_t n = numel_in(call, 0);
    for (int64_t e = 0; e < n; e++) {
        float off = (float)(1 / (double)n) - load[e];
        next[e] = bias[e] + (off > 0 ? rate : off < 0 ? -rate : 0);
    }
}

static void k_moe_balance_eval(const struct sl_device_cpu_call *call) {
    memcpy(call->out[0], call->in[0], (size_t)numel_in(call, 0) * sizeof(float));
}

#define k_moe_combine_dx k_moe_dispatch
ADDING(moe_dispatch)
ADDING(moe_combine_dx)

const struct sl_device_cpu_kernel SL_ISA_NAME(moe_kernels)[] = {
    {"moe_balance", k_moe_balance, NULL},
    {"moe_balance_eval", k_moe_balance_eval, NULL},
    {"moe_combine", k_moe_combine, NULL},
    {"moe_combine_dw", k_moe_combine_dw, NULL},
    {ADDING_ROW(moe_combine_dx)},
    {ADDING_ROW(moe_dispatch)},
    {"moe_load", k_moe_load, NULL},
    {"moe_slots", k_moe_slots, NULL},
    {0},
};
