/* Instructions with bf16 operands: kernels compute in float, on copies in scratch. */
#ifndef SL_DEVICE_CPU_HALVES_H
#define SL_DEVICE_CPU_HALVES_H

#include "device/cpu/cpu.h"

/* Bytes of scratch for the kernel and the copies. */
int64_t sl_device_cpu_halves_bytes(const struct sl_device_cpu_kernel *kernel,
                                   const struct sl_instr *instr, int threads);
void sl_device_cpu_halves_run(const struct sl_device_cpu_kernel *kernel,
                              const struct sl_device_cpu_call *call);

#endif
