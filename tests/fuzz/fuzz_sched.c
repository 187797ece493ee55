/* .sched files: read, lower when they are passes, verify, write, read again: never a crash. */
#include "fuzz/meter.h"
#include "interop/send_buffers.h"
#include "lower/lower.h"
#include "schedules/given.h"

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

/* As the schedule of a run of its own plan. */
static void use(struct sl_arena *arena, const struct sl_sched *sched) {
    const struct sl_schedule *row;
    struct sl_sched *passes, *lowered;
    if (sl_schedules_given_row(arena, sched, &row) != SL_OK)
        return;
    for (int i = 1; i <= 4; i++) {
        struct sl_schedule_opts opts = {
            .row = row, .batch = sched->batch, .iters = i, .global_step = i % 2};
        if (sl_schedules_generate(arena, sched->plan, &opts, &passes) == SL_OK &&
            sl_lower_passes(arena, passes, &lowered) == SL_OK)
            (void)!sl_sched_verify(lowered);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sl_arena arena = {0};
    struct sl_sched *sched, *lowered;
    sl_meter_start();
    sl_err err = sl_sched_read(&arena, "fuzz", (const char *)data, size, &sched);
    sl_meter_check((int64_t)size, SL_METER_CONSTANT_BYTES);
    if (err == SL_OK) {
        round_trip(sched);
        use(&arena, sched);
        if (sched->lowered)
            (void)sl_interop_send_buffers(sched);
        if (!sched->lowered) {
            err = sl_lower_passes(&arena, sched, &lowered);
            sched = lowered;
        }
        if (err == SL_OK && sl_sched_verify(sched) == SL_OK)
            round_trip(sched);
    }
    sl_arena_free(&arena);
    return 0;
}
