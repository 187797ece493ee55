/* The light kernels for CPUs with AVX-512. */
#include "device/cpu/light_isa_avx512.h"

#define LIGHT_TABLE sl_cpu_light_avx512

#include "device/cpu/light_math.h"

#include "device/cpu/light_table.h"
