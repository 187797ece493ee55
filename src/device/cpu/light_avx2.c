/* The light kernels for CPUs with AVX2 and FMA. */
#include "device/cpu/light_isa_avx2.h"

#define LIGHT_TABLE sl_cpu_light_avx2

#include "device/cpu/light_math.h"

#include "device/cpu/light_table.h"
