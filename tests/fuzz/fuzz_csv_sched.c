/* PyTorch schedule CSV: an error or a schedule. A schedule that lowers must verify, simulate and
 * survive a round trip. */
#include "fuzz/meter.h"
#include "interop/torch_csv.h"
#include "lower/lower.h"
#include "report/critical.h"
#include "sim/sim.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(struct sl_arena *arena, const struct sl_sched *passes) {
    struct sl_sched *sched, *again;
    const struct sl_sim *sim;
    struct sl_sim_opts opts = {.timeline = true};
    if (sl_lower_passes(arena, passes, &sched) != SL_OK)
        return;
    if (sl_sched_verify(sched) != SL_OK)
        return;
    SL_ASSERT(sl_sim_run(arena, sched, &opts, &sim) == SL_OK);
    struct sl_critical path;
    sl_report_timeline_critical(arena, sim->timeline, &path);
    SL_ASSERT(path.gap_ns == 0);
    for (int comms = 0; comms < 2; comms++) {
        struct sl_text text = {0};
        SL_ASSERT(sl_interop_torch_csv_write(sched, comms, &text) == SL_OK);
        SL_ASSERT(sl_interop_torch_csv_read(arena, "again", text.at, text.length, &again) == SL_OK);
        SL_ASSERT(sl_sched_action_count(again) == sl_sched_action_count(passes));
        sl_text_free(&text);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sl_arena arena = {0};
    struct sl_sched *sched;
    sl_meter_start();
    sl_err err = sl_interop_torch_csv_read(&arena, "fuzz", (const char *)data, size, &sched);
    sl_meter_check((int64_t)size, SL_METER_CONSTANT_BYTES);
    if (err == SL_OK)
        check(&arena, sched);
    sl_arena_free(&arena);
    return 0;
}
