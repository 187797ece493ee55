/* .plan files: read, write, read again: the same text, never a crash. */
#include "fuzz/meter.h"
#include "fuzz/round_trip.h"
#include "plan/plan.h"

SL_FUZZ_ROUND_TRIP(plan)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sl_arena arena = {0};
    const struct sl_plan *plan;
    sl_meter_start();
    sl_err err = sl_plan_read(&arena, "fuzz", (const char *)data, size, &plan);
    sl_meter_check((int64_t)size, SL_METER_CONSTANT_BYTES);
    if (err == SL_OK)
        same_again(&arena, plan);
    sl_arena_free(&arena);
    return 0;
}
