/* Ops at the border of a tensor-parallel region: the copies that the shards of one worker read, and
 * the sum of the terms that they compute. */
#include "device/cpu/pointwise/kernel.h"
#include "device/cpu/pointwise/runs.h"

static void fan_part(void *ctx, int thread, int threads) {
    const struct sl_device_cpu_call *call = ctx;
    int64_t from, to;
    sl_device_pool_range(numel_in(call, 0), GRAIN, thread, threads, &from, &to);
    for (int i = 0; i < call->instr->out_count; i++)
        if (call->out[i])
            copy_run((float *)call->out[i] + from, (const float *)call->in[0] + from, to - from,
                     false);
}

static void k_shard_fan(const struct sl_device_cpu_call *call) {
    run_parts(call, numel_in(call, 0), fan_part);
}

static void sum_part(void *ctx, int thread, int threads) {
    const struct sl_device_cpu_call *call = ctx;
    float *y = call->out[0];
    int64_t from, to;
    sl_device_pool_range(numel_out(call, 0), GRAIN, thread, threads, &from, &to);
    if (call->out[0] != call->in[0])
        copy_run(y + from, (const float *)call->in[0] + from, to - from, call->add);
    for (int i = 1; i < call->instr->in_count; i++)
        copy_run(y + from, (const float *)call->in[i] + from, to - from, true);
}

static void k_shard_sum(const struct sl_device_cpu_call *call) {
    run_parts(call, numel_out(call, 0), sum_part);
}

const struct sl_device_cpu_kernel SL_ISA_NAME(shard_kernels)[] = {
    {"shard_enter", k_shard_fan, NULL},
    {"shard_fan", k_shard_fan, NULL},
    {"shard_sum", k_shard_sum, NULL},
    {0},
};
