/* The tables of CPU kernels, best first, and what this CPU supports. */
#define _GNU_SOURCE
#include "device/cpu/cpu.h"

#include <cpuid.h>
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef const struct sl_device_cpu_kernel *const families[];

/* device/cpu/product/table.c */
extern families sl_device_cpu_product_amx, sl_device_cpu_product_amx_bf16;
extern families sl_device_cpu_product_any, sl_device_cpu_product_avx2, sl_device_cpu_product_avx512;
/* device/cpu/pointwise/table.c */
extern families sl_device_cpu_pointwise_any, sl_device_cpu_pointwise_avx2;
extern families sl_device_cpu_pointwise_avx512;

bool sl_device_cpu_has_any(void) { return true; }

bool sl_device_cpu_has_avx2(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

bool sl_device_cpu_has_avx512(void) {
    return sl_device_cpu_has_avx2() && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}

/* Asks the system for AMX. The CPU must have it, the system must save the tiles, and this process
 * needs a permission. */
static bool request_amx(void) {
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
    const unsigned bf16_and_tiles = 1u << 22 | 1u << 24, saved = 3u << 17;
    unsigned a, b, c, d, low, high;
    if (!sl_device_cpu_has_avx512() || !__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE))
        return false;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & bf16_and_tiles) != bf16_and_tiles)
        return false;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & saved) == saved &&
           syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}

static bool has_amx;
static void find_amx(void) { has_amx = request_amx(); }

bool sl_device_cpu_has_amx(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_amx);
    return has_amx;
}

static const struct sl_device_cpu_table amx = {
    "amx",
    sl_device_cpu_has_amx,
    sl_device_cpu_product_amx,
    NULL,
};
static const struct sl_device_cpu_table avx512 = {
    "avx512",
    sl_device_cpu_has_avx512,
    sl_device_cpu_product_avx512,
    sl_device_cpu_pointwise_avx512,
};
static const struct sl_device_cpu_table avx2 = {
    "avx2",
    sl_device_cpu_has_avx2,
    sl_device_cpu_product_avx2,
    sl_device_cpu_pointwise_avx2,
};
static const struct sl_device_cpu_table any = {
    "any",
    sl_device_cpu_has_any,
    sl_device_cpu_product_any,
    sl_device_cpu_pointwise_any,
};

const struct sl_device_cpu_table *const sl_device_cpu_tables[] = {&amx, &avx512, &avx2, &any, NULL};
const struct sl_device_cpu_table sl_device_cpu_table_bf16 = {
    "amx",
    sl_device_cpu_has_amx,
    sl_device_cpu_product_amx_bf16,
    NULL,
};

static const struct sl_device_cpu_kernel *find_in(const struct sl_device_cpu_kernel *const *list,
                                                  const char *name) {
    for (; list && *list; list++)
        for (const struct sl_device_cpu_kernel *k = *list; k->name; k++)
            if (strcmp(k->name, name) == 0)
                return k;
    return NULL;
}

const struct sl_device_cpu_kernel *sl_device_cpu_table_find(const struct sl_device_cpu_table *table,
                                                            const char *name) {
    if (!table->supported())
        return NULL;
    const struct sl_device_cpu_kernel *found = find_in(table->product, name);
    return found ? found : find_in(table->pointwise, name);
}
