/* The same for programs whose activations are bf16: products round weights to bf16, activations are
 * that already, sums are float. */
#define HEAVY_AMX
#define AMX_PARTS 1
#include "device/cpu/light_isa_avx512.h"

#define HEAVY_TABLE sl_cpu_heavy_bf16_amx

#include "device/cpu/light_math.h"

#include "device/cpu/heavy.h"
