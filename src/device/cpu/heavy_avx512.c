/* Products and what is made of them, for CPUs with AVX-512. */
#include "device/cpu/light_isa_avx512.h"

#define HEAVY_TABLE sl_cpu_heavy_avx512

#include "device/cpu/light_math.h"

#include "device/cpu/heavy.h"
