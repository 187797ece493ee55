/* The tables of CPU kernels, best first. */
#include "device/cpu/cpu.h"

extern const struct sl_cpu_kernel sl_cpu_kernels_any[];

static bool always(void) { return true; }

static const struct sl_cpu_table any = {"any", always, sl_cpu_kernels_any};

const struct sl_cpu_table *const sl_cpu_tables[] = {
    &any,
    NULL,
};
