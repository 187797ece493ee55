/* Conversion between stored bf16 and the floats that kernels compute with. A bf16 operand may be a
 * part of each row of a wider tensor; the floats are contiguous. */
#include "device/cpu/pointwise/kernel.h"
#include "device/cpu/vec.h"

typedef uint16_t vh __attribute__((vector_size(SL_ISA_VEC_BYTES / 2)));

static void widen_run(float *to, const uint16_t *from, int64_t n) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        vh half;
        memcpy(&half, from + i, sizeof half);
        store(to + i, (vf)(__builtin_convertvector(half, vu) << 16));
    }
    for (; i < n; i++) {
        uint32_t bits = (uint32_t)from[i] << 16;
        memcpy(to + i, &bits, sizeof bits);
    }
}

static void round_run(uint16_t *to, const float *from, int64_t n) {
    for (int64_t i = 0; i < n; i += LANES) {
        int64_t count = n - i < LANES ? n - i : LANES;
        vf x = {0};
        memcpy(&x, from + i, sizeof(float) * (size_t)count);
        vh half = __builtin_convertvector(bf16_nearest(x) >> 16, vh);
        memcpy(to + i, &half, sizeof *to * (size_t)count);
    }
}

/* The contiguous elements of an operand from element i on, up to `to` at most. */
struct half_run {
    int64_t at, count; /* offset in the wider tensor, and length */
};

static struct half_run run_of(const struct sl_operand *operand, int64_t i, int64_t to) {
    if (!operand->row)
        return (struct half_run){i, to - i};
    int64_t within = i % operand->run, left = operand->run - within;
    return (struct half_run){i / operand->run * operand->row + within,
                             left < to - i ? left : to - i};
}

static void widen_part(void *ctx, int thread, int threads) {
    const struct sl_device_cpu_call *call = ctx;
    const struct sl_operand *operand = &call->instr->in[0];
    int64_t i, to;
    sl_device_pool_range(operand->numel, GRAIN, thread, threads, &i, &to);
    for (struct half_run run; i < to; i += run.count) {
        run = run_of(operand, i, to);
        widen_run((float *)call->out[0] + i, (const uint16_t *)call->in[0] + run.at, run.count);
    }
}

static void k_bf16_widen(const struct sl_device_cpu_call *call) {
    run_parts(call, call->instr->in[0].numel, widen_part);
}

static void round_part(void *ctx, int thread, int threads) {
    const struct sl_device_cpu_call *call = ctx;
    const struct sl_operand *operand = &call->instr->out[0];
    int64_t i, to;
    sl_device_pool_range(operand->numel, GRAIN, thread, threads, &i, &to);
    for (struct half_run run; i < to; i += run.count) {
        run = run_of(operand, i, to);
        round_run((uint16_t *)call->out[0] + run.at, (const float *)call->in[0] + i, run.count);
    }
}

static void k_bf16_round(const struct sl_device_cpu_call *call) {
    run_parts(call, call->instr->out[0].numel, round_part);
}

const struct sl_device_cpu_kernel SL_ISA_NAME(bf16_kernels)[] = {
    {"bf16_round", k_bf16_round, NULL},
    {"bf16_widen", k_bf16_widen, NULL},
    {0},
};
