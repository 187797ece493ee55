/* From --stages and --schedule (or --plan) to a plan for the model. */
#include "cli/pipe_options.h"

#include "plan/model.h"
#include "sched/schedule.h"
#include "search/candidate.h"

#include <stdlib.h>
#include <string.h>

struct cut_out {
    struct sl_arena *arena;
    int *stage_of; /* [forward nodes] */
    int *worker_of;
    int stages, workers;
};

/* Which worker holds which stage: one each, in a loop, or there and back again. */
static sl_err place_stages(const struct sl_schedule *schedule, int64_t stages, int64_t workers,
                           int *worker_of) {
    bool v = schedule->layout == SL_LAYOUT_V;
    if (v && stages != 2 * workers)
        return sl_fail(SL_ERR_REFUSED,
                       "%s needs two stages per worker, not %lld stages on %lld; use an even "
                       "--stages and leave out --workers",
                       schedule->name, (long long)stages, (long long)workers);
    for (int64_t s = 0; s < stages; s++)
        worker_of[s] = (int)(v ? (s < workers ? s : 2 * workers - 1 - s) : s % workers);
    return SL_OK;
}

/* Cut the model and place the stages; *stages as asked for, or as many as there are branches. */
static sl_err cut_stages(const struct sl_args *args, const struct sl_train_config *c,
                         const struct sl_schedule *schedule, struct cut_out *out) {
    const char *way = sl_args_text(args, "--cut", "even");
    int64_t workers;
    if (strcmp(way, "even") != 0 && strcmp(way, "branches") != 0)
        return sl_fail(SL_ERR_USAGE, "--cut: 'even' or 'branches', not '%s'", way);
    bool even = strcmp(way, "even") == 0;
    if (even)
        SL_TRY(sl_plan_cut_even(c->graph, c->device->has_kernel, out->stages, out->stage_of));
    else
        SL_TRY(sl_plan_cut_branches(c->graph, c->device->has_kernel, out->stages, out->stage_of,
                                    &out->stages));
    workers = schedule->layout == SL_LAYOUT_V ? (out->stages + 1) / 2 : out->stages;
    SL_TRY(sl_args_int(args, "--workers", 1, out->stages, &workers));
    out->workers = (int)workers;
    out->worker_of = SL_NEW(out->arena, int, out->stages);
    if (even || schedule->layout == SL_LAYOUT_V)
        return place_stages(schedule, out->stages, workers, out->worker_of);
    sl_plan_spread(c->graph, out->stage_of, out->stages, out->workers, out->worker_of);
    return SL_OK;
}

/* Replicas of every stage: stage s on workers s*w .. s*w + w-1, or for two crossing pipelines on s
 * and its opposite. */
static sl_err replicate(const struct sl_args *args, const struct sl_schedule *schedule,
                        struct cut_out *cut, struct sl_model_plan_spec *spec) {
    bool cross = schedule->layout == SL_LAYOUT_CROSS;
    int64_t width = cross ? 2 : 1;
    SL_TRY(sl_args_int(args, "--replicas", 1, 4096, &width));
    if (width == 1)
        return SL_OK;
    if (cross && width != 2)
        return sl_fail(SL_ERR_REFUSED, "%s has two replicas of every stage", schedule->name);
    if (cross && cut->stages % 2)
        return sl_fail(SL_ERR_REFUSED,
                       "%s needs an even number of stages, not %d: the middle one would have both "
                       "replicas on one worker",
                       schedule->name, cut->stages);
    if (!cross && (cut->workers != cut->stages || schedule->layout == SL_LAYOUT_V))
        return sl_fail(SL_ERR_REFUSED,
                       "--replicas needs a worker for every stage; leave out --workers, "
                       "or describe the layout in a plan");
    int *widths = SL_NEW(cut->arena, int, cut->stages);
    const int **workers = SL_NEW(cut->arena, const int *, cut->stages);
    for (int s = 0; s < cut->stages; s++) {
        int *at = SL_NEW(cut->arena, int, width);
        for (int r = 0; r < width; r++)
            at[r] = cross ? (r ? cut->stages - 1 - s : s) : s * (int)width + r;
        widths[s] = (int)width;
        workers[s] = at;
    }
    spec->width_of = widths;
    spec->workers_of = workers;
    spec->worker_count = cut->stages * (cross ? 1 : (int)width);
    return SL_OK;
}

static sl_err from_stages(const struct sl_args *args, const struct sl_train_config *c,
                          struct sl_arena *arena, struct sl_pipe_choice *out) {
    int64_t stages = 0;
    const struct sl_schedule *schedule;
    SL_TRY(sl_sched_row_require(out->schedule, &schedule));
    SL_TRY(sl_args_int(args, "--stages", 1, 4096, &stages));
    struct cut_out cut = {.arena = arena, .stage_of = out->stage_of, .stages = (int)stages};
    SL_TRY(cut_stages(args, c, schedule, &cut));
    struct sl_model_plan_spec spec = {
        .graph = c->graph,
        .stage_of = out->stage_of,
        .stage_count = cut.stages,
        .micro_size = sl_run_train_full_samples(c->batch, c->micros),
        .recompute = c->recompute,
        .optim = &c->optim,
        .policy = &c->policy,
        .worker_count = cut.workers,
        .worker_of = cut.worker_of,
        .has_kernel = c->device->has_kernel,
        .dtype = c->dtype,
        .extra_bytes = c->device->extra_bytes,
        .threads = c->threads,
        .split = schedule->splits_backward,
    };
    SL_TRY(replicate(args, schedule, &cut, &spec));
    return sl_plan_from_model(arena, &spec, &out->plan);
}

/* What was asked for; else what the schedule takes by itself, as planners play it: stages step
 * together, which needs most, where none has replicas. */
static sl_err choose_slack(const struct sl_args *args, const struct sl_train_config *c,
                           struct sl_pipe_choice *out) {
    bool planned = out->plan->batch && !sl_args_has(args, "--batch");
    struct sl_sched_opts opts = {.schedule = out->schedule,
                                 .batch = planned ? out->plan->batch : c->batch,
                                 .iters = SL_ASYNC_ITERS,
                                 .policy = &c->policy,
                                 .global_step = out->plan->seat_count == out->plan->stage_count};
    out->slack = sl_sched_row_slack(out->plan, &opts);
    return sl_args_int(args, "--slack", 0, 1 << 20, &out->slack);
}

/* A plan says all of these; one of them beside it would go unheard. */
static sl_err refuse_both(const struct sl_args *args) {
    static const char *const said[] = {"--stages", "--cut", "--workers", "--replicas"};
    for (int i = 0; i < SL_COUNT(said); i++)
        if (sl_args_has(args, said[i]))
            return sl_fail(SL_ERR_USAGE, "%s does not go with --plan, which says it already",
                           said[i]);
    return SL_OK;
}

sl_err sl_cli_pipe_choose(const struct sl_args *args, const struct sl_train_config *config,
                          struct sl_arena *arena, struct sl_pipe_choice *out) {
    enum { PLAN_LIMIT = 1 << 28 };
    const char *file = sl_args_text(args, "--plan", NULL);
    *out = (struct sl_pipe_choice){.schedule = sl_args_text(args, "--schedule", "1f1b")};
    if (!file && !sl_args_has(args, "--stages") &&
        strcmp(sl_args_text(args, "--cut", ""), "branches") != 0) {
        if (sl_args_has(args, "--schedule"))
            return sl_fail(SL_ERR_USAGE, "--schedule needs --stages N or --plan X.plan");
        if (config->policy.row)
            return sl_fail(SL_ERR_USAGE, "--policy needs an asynchronous pipeline: --stages N or "
                                         "--plan X.plan, and --schedule");
        return sl_cli_run_one_device(config);
    }
    out->stage_of = SL_NEW(arena, int, config->graph->forward_count);
    if (!file) {
        SL_TRY(from_stages(args, config, arena, out));
        return choose_slack(args, config, out);
    }
    char *text;
    size_t length;
    SL_TRY(refuse_both(args));
    SL_TRY(sl_file_read(file, PLAN_LIMIT, &text, &length));
    sl_err err = sl_plan_read(arena, file, text, length, &out->plan);
    free(text);
    SL_TRY(err);
    if (!sl_args_has(args, "--schedule") && out->plan->schedule)
        out->schedule = out->plan->schedule;
    SL_TRY(choose_slack(args, config, out));
    return sl_plan_stage_of(out->plan, config->graph, out->stage_of);
}
