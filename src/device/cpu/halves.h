/* Instructions with bf16 operands: kernels compute in float, on copies in scratch. */
#ifndef SL_DEVICE_CPU_HALVES_H
#define SL_DEVICE_CPU_HALVES_H

#include "device/cpu/cpu.h"

/* Scratch of the kernel and of the copies. */
int64_t sl_cpu_halves_bytes(const struct sl_cpu_kernel *kernel, const struct sl_instr *instr,
                            int threads);
void sl_cpu_halves_run(const struct sl_cpu_kernel *kernel, const struct sl_cpu_call *call);

#endif
