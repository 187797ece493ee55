/* The public interface to planning: from a net and a machine to a pipeline. */
#include "job/plan.h"
#include "api/handles.h"
#include "api/request.h"
#include "sizing/degree.h"
#include "sluice/pipeline.h"

static sl_err search(const struct sl_net *net, const struct sl_plan_request *r,
                     struct sl_arena *arena, struct sl_job_planned *out) {
    const struct sl_job_plan_request request = {.graph = net->graph,
                                                .machine = r->machine,
                                                .planner = r->planner,
                                                .schedule = r->schedule,
                                                .optimizer = r->optimizer,
                                                .dtype = r->dtype,
                                                .batch = r->batch,
                                                .micros = r->micros,
                                                .memory_bytes = r->memory_bytes,
                                                .time_limit_s = r->seconds,
                                                .cost_file = r->cost,
                                                .recompute = r->recompute,
                                                .staleness_cost = r->staleness_cost,
                                                .devices = r->devices,
                                                .threads = r->threads,
                                                .straight = r->straight != 0,
                                                .whole_layers = r->whole_layers != 0};
    return sl_sizing_plan(arena, &request, out);
}

static sl_err check(const struct sl_plan_request *r) {
    if (r->batch < 0 || r->micros < 0 || r->memory_bytes < 0 || r->devices < 0 || r->threads < 0)
        return sl_fail(SL_ERR_USAGE, "struct sl_plan_request: a number is negative");
    if (!(r->seconds >= 0 && r->seconds <= 1e9))
        return sl_fail(SL_ERR_USAGE, "struct sl_plan_request: seconds is %g, expected 0 to 1e9",
                       r->seconds);
    return SL_OK;
}

/* The pipeline keeps a copy of the plan, so that the memory of the search can be freed. */
sl_err sl_pipeline_plan(const struct sl_net *net, const struct sl_plan_request *request,
                        struct sl_pipeline **out) {
    struct sl_arena arena = {0};
    struct sl_job_planned planned = {0};
    struct sl_text text = {0};
    struct sl_plan_request known;
    sl_err err = SL_OK;
    SL_API_GIVEN(out);
    *out = NULL;
    SL_API_OPEN(net, SL_API_IS_NET);
    SL_TRY(sl_api_request_copy("sl_plan_request", request, &known, SL_PLAN_REQUEST_FIRST,
                               sizeof known));
    if (!net->graph->differentiated)
        return sl_fail(SL_ERR_USAGE, "the net has no backward pass yet: sl_net_autodiff comes "
                                     "first");
    SL_TRY(check(&known));
    SL_TRY_OUT(search(net, &known, &arena, &planned));
    sl_plan_write(planned.search.plan, &text);
    SL_TRY_OUT(sl_pipeline_read_text("planned.plan", text.at, text.length, out));
out:
    sl_job_planned_close(&planned);
    sl_text_free(&text);
    sl_arena_free(&arena);
    return err;
}
