/* Accumulation for kernels that can only overwrite their output. */
#include "device/cpu/pointwise/adding.h"

#include "device/cpu/pointwise/runs.h"

static int64_t own_bytes(const struct sl_instr *instr, int threads, scratch_fn *own) {
    return own ? sl_device_whole_lines(own(instr, threads)) : 0;
}

int64_t adding_scratch(const struct sl_instr *instr, int threads, scratch_fn *own) {
    int64_t copy = sl_graph_shape_numel(&instr->out[0].shape, 1) * (int64_t)sizeof(float);
    return own_bytes(instr, threads, own) + (instr->accumulate ? copy : 0);
}

static void add_part(void *ctx, int part, int parts) {
    const struct sl_device_cpu_call *call = ctx;
    int64_t from, to;
    sl_device_pool_range(numel_out(call, 0), GRAIN, part, parts, &from, &to);
    copy_run((float *)call->out[0] + from, (const float *)call->in[0] + from, to - from, true);
}

void run_adding(const struct sl_device_cpu_call *call, kernel_fn *run, scratch_fn *own) {
    if (!call->add) {
        run(call);
        return;
    }
    struct sl_device_cpu_call inner = *call, sum = *call;
    inner.add = false;
    inner.out[0] =
        (char *)call->scratch + own_bytes(call->instr, sl_device_pool_threads(call->pool), own);
    run(&inner);
    sum.in[0] = inner.out[0];
    run_parts(&sum, numel_out(&sum, 0), add_part);
}
