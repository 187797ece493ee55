/* The meter of fuzz targets. */
#include "fuzz/meter.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

/* <sanitizer/allocator_interface.h>, where there is a sanitizer. */
int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *, size_t),
                                              void (*on_free)(const volatile void *))
    __attribute__((weak));
size_t __sanitizer_get_allocated_size(const volatile void *memory) __attribute__((weak));

static atomic_bool counting;
static atomic_int_least64_t live, peak;
static int64_t max_excess, limit;

static void on_malloc(const volatile void *memory, size_t size_bytes) {
    if (!memory || !atomic_load(&counting))
        return;
    int64_t now = atomic_fetch_add(&live, (int64_t)size_bytes) + (int64_t)size_bytes;
    int64_t max = atomic_load(&peak);
    while (now > max && !atomic_compare_exchange_weak(&peak, &max, now))
        continue;
}

static void on_free(const volatile void *memory) {
    if (memory && atomic_load(&counting))
        atomic_fetch_sub(&live, (int64_t)__sanitizer_get_allocated_size(memory));
}

static void tell(void) {
    fprintf(stderr, "stat::most_over_twice_bytes:    %lld\n", (long long)max_excess);
    fprintf(stderr, "stat::limit_over_twice_bytes:   %lld\n", (long long)limit);
}

static void install(void) {
    static bool installed;
    if (installed || !__sanitizer_install_malloc_and_free_hooks)
        return;
    installed = true;
    __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
    atexit(tell);
}

void sl_meter_start(void) {
    install();
    atomic_store(&live, 0);
    atomic_store(&peak, 0);
    atomic_store(&counting, true);
}

void sl_meter_check(int64_t size_bytes, int64_t constant_bytes) {
    atomic_store(&counting, false);
    int64_t excess = atomic_load(&peak) - 2 * size_bytes;
    max_excess = excess > max_excess ? excess : max_excess;
    limit = constant_bytes;
    if (excess <= constant_bytes)
        return;
    fprintf(stderr, "the reader had %lld bytes at once for a file of %lld\n",
            (long long)atomic_load(&peak), (long long)size_bytes);
    abort();
}
