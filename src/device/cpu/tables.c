/* The tables of CPU kernels, best first. Several may serve one instruction set. */
#include "device/cpu/cpu.h"

extern const struct sl_cpu_kernel sl_cpu_kernels_any[];
extern const struct sl_cpu_kernel sl_cpu_light_any[];
extern const struct sl_cpu_kernel sl_cpu_light_avx2[];
extern const struct sl_cpu_kernel sl_cpu_light_avx512[];

static bool always(void) { return true; }

static bool has_avx2(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static bool has_avx512(void) {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

static const struct sl_cpu_table any = {"any", always, sl_cpu_kernels_any};
static const struct sl_cpu_table light_any = {"any", always, sl_cpu_light_any};
static const struct sl_cpu_table light_avx2 = {"avx2", has_avx2, sl_cpu_light_avx2};
static const struct sl_cpu_table light_avx512 = {"avx512", has_avx512, sl_cpu_light_avx512};

const struct sl_cpu_table *const sl_cpu_tables[] = {
    &light_avx512, &light_avx2, &light_any, &any, NULL,
};
