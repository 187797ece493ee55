/* Turns options into requests for a schedule or a simulation. */
#include "cli/sched_args.h"

#include "base/log.h"
#include "cli/terminal.h"
#include "job/schedule.h"

sl_err sl_cli_sched_request(const struct sl_args *args, const char *path,
                            struct sl_job_sched_request *out) {
    *out = (struct sl_job_sched_request){.plan_file = path,
                                         .dag = sl_args_text(args, "--dag", NULL),
                                         .schedule = sl_args_text(args, "--schedule", NULL),
                                         .module = sl_args_text(args, "--schedule-module", NULL),
                                         .policy = sl_args_text(args, "--policy", NULL),
                                         .costs = sl_args_text(args, "--costs", NULL),
                                         .global_step = sl_args_has(args, "--global-step")};
    if (sl_args_has(args, "--together")) {
        sl_log_note("--together is now called --global-step");
        out->global_step = true;
    }
    SL_TRY(sl_args_int(args, "--chain", 1, SL_STAGE_MAX, &out->chain));
    /* such a file has its own sketch of a plan */
    bool sketch = sl_job_schedule_is_file(out->schedule);
    int sources = (path != NULL) + (out->chain > 0) + (out->dag != NULL);
    if (sources > 1 || (sources == 0 && !sketch))
        return sl_fail(SL_ERR_USAGE, "%s: give one of X.plan, --chain N and --dag EDGES",
                       args->command);
    SL_TRY(sl_args_int(args, "--ranks", 1, SL_WORKER_MAX, &out->ranks));
    SL_TRY(sl_args_int(args, "--chunks", 1, out->chain ? out->chain : SL_STAGE_MAX, &out->chunks));
    SL_TRY(sl_args_int(args, "--micro", 1, INT32_MAX / 4, &out->micros));
    SL_TRY(sl_args_int(args, "--batch", 1, INT64_MAX >> 16, &out->batch));
    SL_TRY(sl_args_int(args, "--last-batch", 1, INT64_MAX >> 16, &out->last_batch));
    SL_TRY(sl_args_int(args, "--iters", 1, INT32_MAX / 4, &out->iters));
    SL_TRY(sl_args_int(args, "--group", 1, INT32_MAX / 4, &out->group));
    return sl_args_int(args, "--slack", 0, 1 << 20, &out->slack);
}

/* A file of a schedule states what these options choose. */
static sl_err refuse_options(const struct sl_args *args, const char *path) {
    static const char *const stated[] = {
        "--chain",       "--dag",        "--schedule", "--schedule-module", "--micro",
        "--batch",       "--last-batch", "--ranks",    "--chunks",          "--policy",
        "--global-step", "--together",   "--iters",    "--slack",           "--group"};
    for (int i = 0; i < SL_COUNT(stated); i++)
        if (sl_args_has(args, stated[i]))
            return sl_fail(SL_ERR_USAGE,
                           "%s: %s states its own schedule; leave out %s, or give the file as "
                           "--schedule %s",
                           args->command, path, stated[i], path);
    return SL_OK;
}

sl_err sl_cli_sim_request(const struct sl_args *args, const char *path,
                          struct sl_job_sim_request *out) {
    *out = (struct sl_job_sim_request){.links = sl_args_text(args, "--links", NULL),
                                       .cold = sl_args_text(args, "--cold", NULL),
                                       .send = sl_args_text(args, "--send", NULL)};
    if (!path || sl_cli_ends(path, ".plan"))
        return sl_cli_sched_request(args, path, &out->sched);
    SL_TRY(refuse_options(args, path));
    out->sched_file = path;
    out->sched.costs = sl_args_text(args, "--costs", NULL);
    return SL_OK;
}
