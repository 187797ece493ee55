/* Products and what is made of them, for CPUs with AVX2. */
#include "device/cpu/light_isa_avx2.h"

#define HEAVY_TABLE sl_cpu_heavy_avx2

#include "device/cpu/light_math.h"

#include "device/cpu/heavy.h"
