/* .plan files: read, write, read again: the same text, never a crash. */
#include "fuzz/meter.h"
#include "fuzz/round_trip.h"
#include "plan/plan.h"

SL_FUZZ_ROUND_TRIP(sl_plan, sl_plan)

/* A worker may have no stage, so a short file may have many workers: 28 bytes each in four tables.
 * An arena block is at most twice its content. */
enum { WORKER_BYTES = 2 * 28 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sl_arena arena = {0};
    const struct sl_plan *plan;
    sl_meter_start();
    sl_err err = sl_plan_read(&arena, "fuzz", (const char *)data, size, &plan);
    sl_meter_check((int64_t)size, SL_METER_CONSTANT_BYTES + SL_WORKER_MAX * WORKER_BYTES);
    if (err == SL_OK)
        same_again(&arena, plan);
    sl_arena_free(&arena);
    return 0;
}
