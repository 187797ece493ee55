/* Exporting a plan. */
#include "job/export.h"

#include "interop/exporter.h"
#include "job/model.h"
#include "job/sim.h"
#include "plan/model.h"

/* Opens the model named by the plan, or by the request. */
static sl_err open_graph(const struct sl_job_export_request *r, const struct sl_exporter *row,
                         struct sl_arena *arena, struct sl_export *what, struct sl_graph **graph) {
    const char *model = r->model ? r->model : what->plan->model;
    if (!model || !what->plan->node_count)
        return sl_fail(SL_ERR_REFUSED,
                       "%s: the plan names no model, and %s needs the names of its layers; give "
                       "`model`",
                       r->plan_file, row->name);
    SL_TRY(sl_job_model_open(
        &(struct sl_job_model_request){model, r->model_dirs, what->plan, r->sizes, r->loss}, graph,
        NULL));
    SL_TRY(sl_graph_autodiff(*graph));
    int *stage_of = SL_NEW(arena, int, (*graph)->forward_count + 1);
    SL_TRY(sl_plan_stage_of(what->plan, *graph, stage_of));
    what->graph = *graph;
    what->stage_of = stage_of;
    return SL_OK;
}

static sl_err open_sched(const struct sl_job_export_request *r, struct sl_arena *arena,
                         struct sl_export *what) {
    const struct sl_plan *plan = what->plan;
    struct sl_sched_opts opts = {.schedule = r->schedule ? r->schedule : plan->schedule,
                                 .batch = r->batch ? r->batch : plan->batch};
    if (!opts.schedule || !opts.batch)
        return sl_fail(SL_ERR_USAGE, "%s: this plan names no %s; give `%s`", r->plan_file,
                       opts.schedule ? "batch" : "schedule", opts.schedule ? "batch" : "schedule");
    return sl_sched_build(arena, plan, &opts, &what->sched);
}

sl_err sl_job_export(const struct sl_job_export_request *request, struct sl_text *out) {
    struct sl_arena arena = {0};
    struct sl_graph *graph = NULL;
    struct sl_export what = {.comms = request->comms};
    const struct sl_exporter *row;
    sl_err err = SL_OK;
    SL_TRY_OUT(sl_interop_exporter_find(request->target, &row));
    SL_TRY_OUT(sl_job_plan_read(&arena, request->plan_file, &what.plan));
    if (row->needs_graph)
        SL_TRY_OUT(open_graph(request, row, &arena, &what, &graph));
    if (row->needs_sched)
        SL_TRY_OUT(open_sched(request, &arena, &what));
    SL_TRY_OUT(row->write(&what, out));
out:
    sl_graph_close(graph);
    sl_arena_free(&arena);
    return err;
}
