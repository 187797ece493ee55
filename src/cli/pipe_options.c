/* From --stages and --schedule (or --plan) to a plan for the model. */
#include "cli/pipe_options.h"

#include "plan/model.h"
#include "sched/schedule.h"

#include <stdlib.h>
#include <string.h>

static const char *schedule_name(const void *ctx, int i) {
    int count;
    (void)ctx;
    return sl_schedule_registry(&count)[i]->name;
}

static sl_err find_schedule(const char *name, const struct sl_schedule **out) {
    int count;
    *out = sl_schedule_find(name);
    if (*out)
        return SL_OK;
    sl_schedule_registry(&count);
    const char *near = sl_nearest(name, count, schedule_name, NULL);
    return sl_fail(SL_ERR_USAGE, "--schedule: there is no schedule '%s'%s%s%s", name,
                   near ? "; did you mean '" : "; see 'sluice list schedules'", near ? near : "",
                   near ? "'?" : "");
}

/* Which worker holds which stage: one each, in a loop, or there and back again. */
static sl_err place_stages(const struct sl_schedule *schedule, int64_t stages, int64_t workers,
                           int *worker_of) {
    bool v = schedule->layout == SL_LAYOUT_V;
    if (schedule->layout == SL_LAYOUT_CROSS)
        return sl_fail(SL_ERR_NO, "%s runs every stage twice; replicas are not run yet",
                       schedule->name);
    if (v && stages != 2 * workers)
        return sl_fail(SL_ERR_NO,
                       "%s needs two stages per worker; %lld stages on %lld workers do "
                       "not fit",
                       schedule->name, (long long)stages, (long long)workers);
    for (int64_t s = 0; s < stages; s++)
        worker_of[s] = (int)(v ? (s < workers ? s : 2 * workers - 1 - s) : s % workers);
    return SL_OK;
}

static sl_err from_stages(const struct sl_args *args, const struct sl_train_config *c,
                          struct sl_arena *arena, struct sl_pipe_choice *out) {
    int64_t stages = 1, workers = 0;
    const struct sl_schedule *schedule;
    SL_TRY(find_schedule(out->schedule, &schedule));
    SL_TRY(sl_args_int(args, "--stages", 1, 4096, &stages));
    workers = schedule->layout == SL_LAYOUT_V ? stages / 2 : stages;
    SL_TRY(sl_args_int(args, "--workers", 1, stages, &workers));
    int *worker_of = SL_NEW(arena, int, stages);
    SL_TRY(place_stages(schedule, stages, workers, worker_of));
    SL_TRY(sl_plan_cut_even(c->graph, c->device->has_kernel, (int)stages, out->stage_of));
    struct sl_model_plan_spec spec = {
        .graph = c->graph,
        .stage_of = out->stage_of,
        .stage_count = (int)stages,
        .micro_size = sl_train_full_samples(c->batch, c->micros),
        .recompute = c->recompute,
        .optim = &c->optim,
        .worker_count = (int)workers,
        .worker_of = worker_of,
        .has_kernel = c->device->has_kernel,
        .dtype = c->dtype,
    };
    return sl_plan_from_model(arena, &spec, &out->plan);
}

sl_err sl_pipe_choose(const struct sl_args *args, const struct sl_train_config *config,
                      struct sl_arena *arena, struct sl_pipe_choice *out) {
    enum { PLAN_LIMIT = 1 << 28 };
    const char *file = sl_args_text(args, "--plan", NULL);
    *out = (struct sl_pipe_choice){.schedule = sl_args_text(args, "--schedule", "1f1b")};
    if (!file && !sl_args_has(args, "--stages")) {
        if (sl_args_has(args, "--schedule"))
            return sl_fail(SL_ERR_USAGE, "--schedule needs --stages N or --plan X.plan");
        return SL_OK;
    }
    out->stage_of = SL_NEW(arena, int, config->graph->forward_count);
    if (!file)
        return from_stages(args, config, arena, out);
    char *text;
    size_t length;
    SL_TRY(sl_file_read(file, PLAN_LIMIT, &text, &length));
    sl_err err = sl_plan_read(arena, file, text, length, &out->plan);
    free(text);
    SL_TRY(err);
    if (!sl_args_has(args, "--schedule") && out->plan->schedule)
        out->schedule = out->plan->schedule;
    return sl_plan_stage_of(out->plan, config->graph, out->stage_of);
}
