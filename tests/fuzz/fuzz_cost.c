/* .cost files: read, write, read again: the same text, never a crash. */
#include "cost/cost.h"
#include "fuzz/meter.h"
#include "fuzz/round_trip.h"

SL_FUZZ_ROUND_TRIP(sl_cost, sl_cost)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sl_arena arena = {0};
    const struct sl_cost *cost;
    sl_meter_start();
    sl_err err = sl_cost_read(&arena, "fuzz", (const char *)data, size, &cost);
    sl_meter_check((int64_t)size, SL_METER_CONSTANT_BYTES);
    if (err == SL_OK)
        same_again(&arena, cost);
    sl_arena_free(&arena);
    return 0;
}
