/* Products and what is made of them, for CPUs with AMX beside AVX-512. */
#define HEAVY_AMX
#include "device/cpu/light_isa_avx512.h"

#define HEAVY_TABLE sl_cpu_heavy_amx

#include "device/cpu/light_math.h"

#include "device/cpu/heavy.h"
