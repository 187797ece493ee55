/* Describes this computer as a machine: cores, memory, speed of copies and of multiply-adds. */
#include "profile/host_info.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

/* Measures the bytes per second (read + written) of a copy by one core, in buffers larger than the
 * caches. */
static double measure_copy(int64_t bytes) {
    char *a = malloc((size_t)bytes), *b = malloc((size_t)bytes);
    double best = 0;
    if (a && b) {
        memset(a, 1, (size_t)bytes);
        for (int round = 0; round < 4; round++) {
            int64_t start = sl_clock_ns();
            memcpy(b, a, (size_t)bytes);
            a[round] = b[bytes - 1 - round]; /* keeps the compiler from removing the copy */
            int64_t ns = sl_clock_ns() - start;
            double speed = 2e9 * (double)bytes / (double)(ns > 0 ? ns : 1);
            best = speed > best ? speed : best;
        }
    }
    free(a);
    free(b);
    return best > 0 ? best : 1e9;
}

/* Measures the flops per second of independent multiply-adds, vectorized by the compiler. */
static double measure_flops(void) {
    enum { LANES = 64, ROUNDS = 1 << 17 };
    static float x[LANES];
    double best = 0;
    for (int round = 0; round < 3; round++) {
        float a[LANES];
        for (int i = 0; i < LANES; i++)
            a[i] = (float)i * 1e-3f;
        int64_t start = sl_clock_ns();
        for (int r = 0; r < ROUNDS; r++)
            for (int i = 0; i < LANES; i++)
                a[i] = a[i] * 0.999f + 0.5f;
        int64_t ns = sl_clock_ns() - start;
        memcpy(x, a, sizeof x);
        double speed = 2e9 * LANES * ROUNDS / (double)(ns > 0 ? ns : 1);
        best = speed > best ? speed : best;
    }
    return best * (x[0] > -1 ? 1 : 0);
}

sl_err sl_profile_machine_here(struct sl_arena *arena, const struct sl_machine **out) {
    struct sl_host_info here = {0};
    sl_profile_host_info_read(&here);
    int64_t buffer = here.cache_bytes * 2 > (32 << 20) ? here.cache_bytes * 2 : 32 << 20;
    double copy = measure_copy(buffer < (256 << 20) ? buffer : 256 << 20);
    double flops = measure_flops();
    struct sl_cost_device_kind kind = {.name = "core",
                                       .memory_bytes = here.memory_bytes / here.cores,
                                       .stream = (double)(int64_t)copy,
                                       .flops = {(double)(int64_t)(flops > 1e9 ? flops : 1e9)},
                                       .efficiency = 1,
                                       .overhead_ns = 300};
    struct sl_link link = {
        .name = "memory", .bandwidth = (double)(int64_t)(copy / 2), .latency_ns = 500};
    struct sl_host_part part = {0, here.cores};
    struct sl_host host = {"here", 1, 0, &part, 1};
    struct sl_machine draft = {.name = "here",
                               .kinds = &kind,
                               .kind_count = 1,
                               .links = &link,
                               .link_count = 1,
                               .hosts = &host,
                               .host_count = 1};
    draft.brief = sl_arena_printf(arena, "%d cores of this computer (%s)", here.cores, here.source);
    return sl_cost_machine_build(arena, &draft, out);
}
