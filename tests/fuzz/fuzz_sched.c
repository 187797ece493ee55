/* .sched files: read, lower when they are passes, verify, write, read again: never a crash. */
#include "fuzz/meter.h"
#include "sched/sched.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void round_trip(const struct sl_sched *sched) {
    struct sl_arena arena = {0};
    struct sl_text once = {0}, twice = {0};
    struct sl_sched *again;
    sl_sched_write(sched, &once);
    if (sl_sched_read(&arena, "again", once.at, once.length, &again) != SL_OK)
        abort();
    sl_sched_write(again, &twice);
    if (once.length != twice.length || memcmp(once.at, twice.at, once.length) != 0)
        abort();
    sl_text_free(&once);
    sl_text_free(&twice);
    sl_arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sl_arena arena = {0};
    struct sl_sched *sched, *lowered;
    sl_meter_start();
    sl_err err = sl_sched_read(&arena, "fuzz", (const char *)data, size, &sched);
    sl_meter_check((int64_t)size, SL_METER_CONSTANT_BYTES);
    if (err == SL_OK) {
        round_trip(sched);
        if (!sched->lowered) {
            err = sl_sched_lower(&arena, sched, &lowered);
            sched = lowered;
        }
        if (err == SL_OK && sl_sched_verify(sched) == SL_OK)
            round_trip(sched);
    }
    sl_arena_free(&arena);
    return 0;
}
