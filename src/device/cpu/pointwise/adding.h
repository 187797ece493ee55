/* Accumulation for kernels that can only overwrite their output.
 *
 * ADDING(NAME) wraps k_NAME: if the call adds, the kernel writes its result to scratch, behind the
 * part that it uses itself, and the wrapper adds it from there. This is rare: it happens only if a
 * parameter feeds the op directly.
 */
#ifndef SL_DEVICE_CPU_POINTWISE_ADDING_H
#define SL_DEVICE_CPU_POINTWISE_ADDING_H

#include "device/cpu/pointwise/kernel.h"

typedef void kernel_fn(const struct sl_device_cpu_call *call);
typedef int64_t scratch_fn(const struct sl_instr *instr, int threads);

#define run_adding SL_ISA_NAME(run_adding)
#define adding_scratch SL_ISA_NAME(adding_scratch)

/* `own` returns the bytes of scratch that the kernel itself needs; NULL: none. */
void run_adding(const struct sl_device_cpu_call *call, kernel_fn *run, scratch_fn *own);
int64_t adding_scratch(const struct sl_instr *instr, int threads, scratch_fn *own);

#define ADDING_OWN(name, own)                                                                      \
    static void k_##name##_adding(const struct sl_device_cpu_call *call) {                         \
        run_adding(call, k_##name, own);                                                           \
    }                                                                                              \
    static int64_t name##_scratch_adding(const struct sl_instr *instr, int threads) {              \
        return adding_scratch(instr, threads, own);                                                \
    }
#define ADDING(name) ADDING_OWN(name, NULL)
#define ADDING_ROW(name) #name, k_##name##_adding, name##_scratch_adding

#endif
