/* The tables of CPU kernels, best first. Several may serve one instruction set. */
#include "device/cpu/cpu.h"

extern const struct sl_cpu_kernel sl_cpu_kernels_any[];
extern const struct sl_cpu_kernel sl_cpu_heavy_any[];
extern const struct sl_cpu_kernel sl_cpu_heavy_avx2[];
extern const struct sl_cpu_kernel sl_cpu_heavy_avx512[];
extern const struct sl_cpu_kernel sl_cpu_light_any[];
extern const struct sl_cpu_kernel sl_cpu_light_avx2[];
extern const struct sl_cpu_kernel sl_cpu_light_avx512[];

bool sl_cpu_has_any(void) { return true; }

bool sl_cpu_has_avx2(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

bool sl_cpu_has_avx512(void) {
    return sl_cpu_has_avx2() && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}

static const struct sl_cpu_table any = {"any", sl_cpu_has_any, sl_cpu_kernels_any};
static const struct sl_cpu_table heavy_any = {"any", sl_cpu_has_any, sl_cpu_heavy_any};
static const struct sl_cpu_table heavy_avx2 = {"avx2", sl_cpu_has_avx2, sl_cpu_heavy_avx2};
static const struct sl_cpu_table heavy_avx512 = {"avx512", sl_cpu_has_avx512, sl_cpu_heavy_avx512};
static const struct sl_cpu_table light_any = {"any", sl_cpu_has_any, sl_cpu_light_any};
static const struct sl_cpu_table light_avx2 = {"avx2", sl_cpu_has_avx2, sl_cpu_light_avx2};
static const struct sl_cpu_table light_avx512 = {"avx512", sl_cpu_has_avx512, sl_cpu_light_avx512};

const struct sl_cpu_table *const sl_cpu_tables[] = {
    &heavy_avx512, &light_avx512, &heavy_avx2, &light_avx2, &heavy_any, &light_any, &any, NULL,
};
