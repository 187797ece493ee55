/* The tables of CPU kernels, best first. Several may serve one instruction set. */
#define _GNU_SOURCE
#include "device/cpu/cpu.h"

#include <cpuid.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

extern const struct sl_cpu_kernel sl_cpu_kernels_any[];
extern const struct sl_cpu_kernel sl_cpu_heavy_amx[];
extern const struct sl_cpu_kernel sl_cpu_heavy_any[];
extern const struct sl_cpu_kernel sl_cpu_heavy_avx2[];
extern const struct sl_cpu_kernel sl_cpu_heavy_avx512[];
extern const struct sl_cpu_kernel sl_cpu_heavy_bf16_amx[];
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

/* The processor has it, the system saves it, and this process may use it: tiles must be asked for.
 */
static bool ask_for_amx(void) {
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
    const unsigned bf16_and_tiles = 1u << 22 | 1u << 24, saved = 3u << 17;
    unsigned a, b, c, d, low, high;
    if (!sl_cpu_has_avx512() || !__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE))
        return false;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & bf16_and_tiles) != bf16_and_tiles)
        return false;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & saved) == saved &&
           syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}

static bool has_amx;
static void find_amx(void) { has_amx = ask_for_amx(); }

bool sl_cpu_has_amx(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_amx);
    return has_amx;
}

static const struct sl_cpu_table any = {"any", sl_cpu_has_any, sl_cpu_kernels_any};
static const struct sl_cpu_table heavy_amx = {"amx", sl_cpu_has_amx, sl_cpu_heavy_amx};
static const struct sl_cpu_table heavy_any = {"any", sl_cpu_has_any, sl_cpu_heavy_any};
static const struct sl_cpu_table heavy_avx2 = {"avx2", sl_cpu_has_avx2, sl_cpu_heavy_avx2};
static const struct sl_cpu_table heavy_avx512 = {"avx512", sl_cpu_has_avx512, sl_cpu_heavy_avx512};
static const struct sl_cpu_table light_any = {"any", sl_cpu_has_any, sl_cpu_light_any};
static const struct sl_cpu_table light_avx2 = {"avx2", sl_cpu_has_avx2, sl_cpu_light_avx2};
static const struct sl_cpu_table light_avx512 = {"avx512", sl_cpu_has_avx512, sl_cpu_light_avx512};

const struct sl_cpu_table sl_cpu_table_bf16 = {"amx", sl_cpu_has_amx, sl_cpu_heavy_bf16_amx};
const struct sl_cpu_table *const sl_cpu_tables[] = {
    &heavy_amx, &heavy_avx512, &light_avx512, &heavy_avx2, &light_avx2,
    &heavy_any, &light_any,    &any,          NULL,
};
