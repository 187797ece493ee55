/* Target csv: the plan's schedule in the form that torch.distributed.pipelining reads. */
#include "interop/exporter.h"
#include "interop/torch_csv.h"

static sl_err write_csv(const struct sl_export *what, struct sl_text *out) {
    for (int s = 0; s < what->plan->stage_count; s++)
        if (what->plan->stages[s].passes != SL_STAGE_TRAINS)
            return sl_fail(SL_ERR_REFUSED,
                           "PyTorch's schedules train every stage, and %s is frozen here; plan "
                           "without --freeze and --lora",
                           what->plan->stages[s].name);
    SL_TRY(sl_interop_torch_csv_write(what->sched, what->comms, out));
    sl_interop_torch_csv_warn(what->sched);
    return SL_OK;
}

const struct sl_exporter sl_interop_export_csv = {
    .name = "csv",
    .brief = "the schedule as PyTorch's pipelining CSV",
    .needs_sched = true,
    .write = write_csv,
};
