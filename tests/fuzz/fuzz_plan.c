/* .plan files: read, write, read again: the same text, never a crash. */
#include "fuzz/meter.h"
#include "plan/plan.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sl_arena arena = {0};
    struct sl_text once = {0}, twice = {0};
    const struct sl_plan *plan;
    sl_meter_start();
    sl_err err = sl_plan_read(&arena, "fuzz", (const char *)data, size, &plan);
    sl_meter_check((int64_t)size, SL_METER_CONSTANT_BYTES);
    if (err == SL_OK) {
        sl_plan_write(plan, &once);
        if (sl_plan_read(&arena, "again", once.at, once.length, &plan) != SL_OK)
            abort();
        sl_plan_write(plan, &twice);
        if (once.length != twice.length || memcmp(once.at, twice.at, once.length) != 0)
            abort();
    }
    sl_text_free(&once);
    sl_text_free(&twice);
    sl_arena_free(&arena);
    return 0;
}
