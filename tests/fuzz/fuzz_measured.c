/* Tables of measured steps and all-reduces. */
#include "cost/measured.h"
#include "fuzz/meter.h"

#include <stddef.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sl_arena arena = {0};
    const struct sl_measured_step *steps;
    const struct sl_measured_sum *sums;
    int count;
    sl_meter_start();
    sl_err err = sl_cost_measured_steps(&arena, "f", (const char *)data, size, &steps, &count);
    if (err != SL_OK)
        err = sl_cost_measured_sums(&arena, "f", (const char *)data, size, &sums, &count);
    sl_meter_check(32 * (int64_t)size, SL_METER_CONSTANT_BYTES);
    sl_arena_free(&arena);
    (void)err;
    return 0;
}
