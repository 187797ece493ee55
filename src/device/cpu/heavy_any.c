/* Products and what is made of them, for any CPU. */
#include "device/cpu/light_isa_any.h"

#define HEAVY_TABLE sl_cpu_heavy_any

#include "device/cpu/light_math.h"

#include "device/cpu/heavy.h"
