/* Turns options into a planning request. */
#include "cli/plan_args.h"

#include <string.h>

sl_err sl_cli_plan_request(const struct sl_args *args, struct sl_job_plan_request *out) {
    *out = (struct sl_job_plan_request){
        .machine = sl_args_text(args, "--machine", NULL),
        .cost_file = sl_args_text(args, "--cost", NULL),
        .schedule = sl_args_text(args, "--schedule", NULL),
        .dtype = sl_args_text(args, "--dtype", NULL),
        .optimizer = sl_args_text(args, "--optimizer", NULL),
        .recompute = sl_args_text(args, "--recompute", NULL),
        .zero1 = sl_args_has(args, "--zero1"),
        .no_zero1 = sl_args_has(args, "--no-zero1"),
    };
    if (out->zero1 && out->no_zero1)
        return sl_fail(SL_ERR_USAGE, "%s: give one of --zero1 and --no-zero1", args->command);
    SL_TRY(sl_args_int(args, "--batch", 1, 1 << 30, &out->batch));
    SL_TRY(sl_args_int(args, "--micro", 1, 1 << 30, &out->micros));
    SL_TRY(sl_args_int(args, "--micro-batch", 1, 1 << 30, &out->micro_size));
    if (strcmp(sl_args_text(args, "--tp", ""), "auto") == 0)
        out->tp = SL_JOB_TP_SEARCH;
    else
        SL_TRY(sl_args_int(args, "--tp", 1, SL_SHARD_MAX, &out->tp));
    SL_TRY(sl_args_bytes(args, "--memory", &out->memory_bytes));
    if (out->micros && out->micro_size)
        return sl_fail(SL_ERR_USAGE, "%s: give one of --micro and --micro-batch", args->command);
    return SL_OK;
}

sl_err sl_cli_degrees(const struct sl_args *args, int64_t *dp, int64_t *pp) {
    *dp = *pp = 0;
    SL_TRY(sl_args_int(args, "--dp", 1, SL_DEVICE_MAX, dp));
    return sl_args_int(args, "--pp", 1, SL_DEVICE_MAX, pp);
}
