/* The instruction set that a kernel file is compiled for.
 *
 * CMake compiles every .c file of device/cpu/pointwise, product and optim once per instruction set
 * (cmake/SluiceRooms.cmake) and defines:
 *
 *   SL_ISA             suffix of external names: any, avx2, avx512, amx, amx_bf16
 *   SL_ISA_VEC_BYTES   bytes of a vector register: 16, 32, 64
 *   SL_ISA_AMX_PARTS   bf16 numbers that AMX uses for one float; 0: no AMX
 *
 * Code calls the name without the suffix; its header maps it:
 *
 *   #define gemm_run SL_ISA_NAME(gemm_run)      the symbol is sl_device_cpu_, gemm_run, _avx2
 */
#ifndef SL_DEVICE_CPU_ISA_H
#define SL_DEVICE_CPU_ISA_H

#ifndef SL_ISA
#define SL_ISA any
#define SL_ISA_VEC_BYTES 16
#define SL_ISA_AMX_PARTS 0
#endif

#define SL_ISA_NAME(name) SL_ISA_JOIN(name, SL_ISA)
#define SL_ISA_JOIN(name, isa) SL_ISA_JOIN_EXPANDED(name, isa)
#define SL_ISA_JOIN_EXPANDED(name, isa) sl_device_cpu_##name##_##isa
/* The name of the instruction set as text, for example "avx2". */
#define SL_ISA_TEXT SL_ISA_QUOTE(SL_ISA)
#define SL_ISA_QUOTE(isa) SL_ISA_QUOTE_EXPANDED(isa)
#define SL_ISA_QUOTE_EXPANDED(isa) #isa

/* -ffp-contract=fast fuses a product with a sum only inside a function. A function marked
 * INLINE is always inlined, so its results have the same bits at every optimization level. */
#define INLINE inline __attribute__((always_inline))

#endif
