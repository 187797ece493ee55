/* Kernels that cannot add to their output by themselves, made to: the result goes to scratch,
 * behind what the kernel itself needs there, and is added from there. They seldom have to: a
 * parameter must have gone straight into the op. */
#ifndef SL_DEVICE_CPU_LIGHT_ADDING_H
#define SL_DEVICE_CPU_LIGHT_ADDING_H

#include "device/cpu/light_copy.h"

typedef void kernel_run(const struct sl_cpu_call *call);
typedef int64_t kernel_scratch(const struct sl_instr *instr, int threads);

static int64_t no_scratch(const struct sl_instr *instr, int threads) {
    (void)instr;
    (void)threads;
    return 0;
}

static int64_t adding_scratch(const struct sl_instr *instr, int threads, kernel_scratch *own) {
    int64_t copy = sl_graph_shape_numel(&instr->out[0].shape, 1) * (int64_t)sizeof(float);
    return sl_whole_lines(own(instr, threads)) + (instr->accumulate ? copy : 0);
}

static void run_adding(const struct sl_cpu_call *call, kernel_run *run, kernel_scratch *own) {
    if (!call->add) {
        run(call);
        return;
    }
    struct sl_cpu_call inner = *call, sum = *call;
    int64_t threads = sl_pool_threads(call->pool);
    inner.add = false;
    inner.out[0] = (char *)call->scratch + sl_whole_lines(own(call->instr, (int)threads));
    run(&inner);
    sum.in[0] = inner.out[0];
    k_copy(&sum);
}

#define ADDING_OWN(name, own)                                                                      \
    static void k_##name##_adding(const struct sl_cpu_call *call) {                                \
        run_adding(call, k_##name, own);                                                           \
    }                                                                                              \
    static int64_t name##_scratch_adding(const struct sl_instr *instr, int threads) {              \
        return adding_scratch(instr, threads, own);                                                \
    }
#define ADDING(name) ADDING_OWN(name, no_scratch)
#define ADDING_ROW(name) #name, k_##name##_adding, name##_scratch_adding

#endif
