/* The public interface to planning: a net and a machine to a pipeline. */
#include "api/handles.h"
#include "base/clock.h"
#include "device/device.h"
#include "profile/machine_file.h"
#include "sched/schedule.h"
#include "search/search.h"
#include "sluice/pipeline.h"

#include <string.h>

static const char *or_else(const char *given, const char *fallback) {
    return given ? given : fallback;
}

static sl_err set_query(const struct sl_plan_request *r, struct sl_search_spec *spec) {
    if (r->schedule && !sl_sched_row_find(r->schedule))
        return sl_fail(SL_ERR_USAGE, "no schedule '%s'", r->schedule);
    SL_TRY(sl_search_planner_find(or_else(r->planner, "sluice"), &spec->planner));
    spec->query.schedule = r->schedule;
    spec->query.until_ns = r->seconds > 0 ? sl_clock_ns() + (int64_t)(r->seconds * 1e9) : 0;
    return SL_OK;
}

static sl_err search(const struct sl_net *net, const struct sl_plan_request *r,
                     struct sl_arena *arena, struct sl_search *found) {
    const struct sl_device_row *cpu = sl_device_find("cpu");
    struct sl_optim optim;
    struct sl_problem_spec problem = {.graph = net->graph,
                                      .has_kernel = cpu->has_kernel,
                                      .optim = &optim,
                                      .batch = r->batch ? r->batch : 64,
                                      .memory = r->memory_bytes};
    struct sl_search_spec spec = {.graph = net->graph,
                                  .has_kernel = cpu->has_kernel,
                                  .extra_bytes = cpu->extra_bytes,
                                  .optim = &optim};
    if (r->batch < 0 || r->batch > 1 << 30 || r->micros < 0 || r->micros > problem.batch ||
        r->memory_bytes < 0)
        return sl_fail(SL_ERR_USAGE, "batch, micros and memory_bytes: a number is out of range");
    if (r->micros)
        problem.micro_size = (problem.batch + r->micros - 1) / r->micros;
    SL_TRY(sl_optim_parse(or_else(r->optimizer, "adamw"), &optim));
    problem.precision = sl_search_precision_find(or_else(r->dtype, "fp32"));
    if (!problem.precision)
        return sl_fail(SL_ERR_USAGE, "dtype is fp32, fp16 or bf16, not '%s'", r->dtype);
    SL_TRY(set_query(r, &spec));
    SL_TRY(sl_profile_machine_argument(arena, or_else(r->machine, "here"), &problem.machine));
    SL_TRY(sl_search_problem_build(arena, &problem, &spec.query.problem));
    return sl_search_run(arena, &spec, found);
}

/* The pipeline keeps its own copy: what the search needed is as large as the net. */
sl_err sl_pipeline_plan(const struct sl_net *net, const struct sl_plan_request *request,
                        struct sl_pipeline **out) {
    struct sl_arena arena = {0};
    struct sl_search found;
    struct sl_text text = {0};
    sl_err err = SL_OK;
    *out = NULL;
    if (!net->graph->differentiated)
        return sl_fail(SL_ERR_USAGE, "the net has no backward pass yet: sl_net_autodiff comes "
                                     "first");
    SL_TRY_OUT(search(net, request, &arena, &found));
    sl_plan_write(found.plan, &text);
    SL_TRY_OUT(sl_pipeline_read_text("planned.plan", text.at, text.length, out));
out:
    sl_text_free(&text);
    sl_arena_free(&arena);
    return err;
}
