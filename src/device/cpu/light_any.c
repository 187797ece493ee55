/* The light kernels for any CPU. */
#include "device/cpu/light_isa_any.h"

#define LIGHT_TABLE sl_cpu_light_any

#include "device/cpu/light_math.h"

#include "device/cpu/light_table.h"
