/* Exporting a plan. */
#include "job/export.h"

#include "base/log.h"
#include "interop/exporter.h"
#include "job/model.h"
#include "job/schedule.h"
#include "job/sim.h"
#include "plan/model.h"
#include "plan/pipeline.h"
#include "schedules/schedule.h"
#include "sim/sim.h"

/* Opens the model named by the plan, or by the request. */
static sl_err open_graph(const struct sl_job_export_request *r, const struct sl_exporter *row,
                         struct sl_arena *arena, struct sl_export *what, struct sl_graph **graph) {
    const char *model = r->model ? r->model : what->plan->model;
    if (!model || !what->plan->node_count)
        return sl_fail(SL_ERR_REFUSED,
                       "%s: the plan names no model, and %s needs the names of its layers; give "
                       "`model`",
                       r->plan_file, row->name);
    SL_TRY(sl_job_model_open(&(struct sl_job_model_request){.name = model,
                                                            .dirs = r->model_dirs,
                                                            .plan = what->plan,
                                                            .sizes = r->sizes,
                                                            .loss = r->loss,
                                                            .freeze = r->freeze,
                                                            .lora = r->lora},
                             graph, NULL));
    SL_TRY(sl_graph_autodiff(*graph));
    int *stage_of = SL_NEW(arena, int, (*graph)->forward_count + 1);
    SL_TRY(sl_plan_stage_of(what->plan, *graph, stage_of));
    what->graph = *graph;
    what->stage_of = stage_of;
    return SL_OK;
}

/* Opens the plan, with the schedule and the batch of the request. */
static sl_err open_plan(const struct sl_job_export_request *r, struct sl_arena *arena,
                        struct sl_export *what) {
    const struct sl_plan *file;
    SL_TRY(sl_job_plan_read(arena, r->plan_file, &file));
    struct sl_plan plan = *file;
    plan.schedule = r->schedule ? r->schedule : plan.schedule;
    plan.batch = r->batch ? r->batch : plan.batch;
    SL_TRY(sl_plan_build(arena, &plan, &what->plan));
    return SL_OK;
}

/* Opens the schedule, whose name may be that of a file. */
static sl_err open_schedule(const struct sl_exporter *row, struct sl_arena *arena,
                            struct sl_export *what) {
    if (!what->plan->schedule || !(row->needs_graph || row->needs_sched))
        return SL_OK;
    return sl_job_schedule_open(arena, what->plan->schedule, NULL, &what->schedule);
}

static sl_err build_sched(struct sl_arena *arena, const struct sl_plan *plan,
                          const struct sl_schedule *schedule, const struct sl_sched **out) {
    const struct sl_schedule_opts opts = {.row = schedule, .batch = plan->batch};
    return sl_schedules_build(arena, plan, &opts, out);
}

static sl_err open_sched(const struct sl_job_export_request *r, struct sl_arena *arena,
                         struct sl_export *what) {
    const struct sl_plan *plan = what->plan;
    if (!plan->schedule || !plan->batch)
        return sl_fail(SL_ERR_USAGE, "%s: this plan names no %s; give `%s`", r->plan_file,
                       plan->schedule ? "batch" : "schedule",
                       plan->schedule ? "batch" : "schedule");
    bool apart = what->schedule->layout != SL_LAYOUT_CROSS &&
                 !sl_schedules_given_passes(what->schedule) && sl_plan_pipelines(plan) > 1;
    if (apart) {
        sl_log_note("the schedule of one of %d equal pipelines", sl_plan_pipelines(plan));
        SL_TRY(sl_plan_pipeline(arena, plan, &plan));
    }
    return build_sched(arena, plan, what->schedule, &what->sched);
}

/* ---- a schedule that the target cannot run ---- */

static sl_err step_under(struct sl_arena *arena, const struct sl_plan *plan,
                         const struct sl_schedule *schedule, int64_t *out) {
    const struct sl_sched *sched;
    const struct sl_sim *sim;
    SL_TRY(build_sched(arena, plan, schedule, &sched));
    SL_TRY(sl_sim_run(arena, sched, &(struct sl_sim_opts){0}, &sim));
    *out = sim->step_ns;
    return SL_OK;
}

/* Returns the schedule that the target runs instead: one for several stages per worker, or one for
 * a single stage. */
static const struct sl_schedule *run_by(const struct sl_exporter *target,
                                        const struct sl_plan *plan) {
    bool several = plan->seat_count > plan->worker_count;
    int count;
    const struct sl_schedule *const *rows = sl_schedules_row_registry(&count);
    for (int i = 0; i < count; i++)
        if (target->requests(rows[i]) && rows[i]->layout_chunks == several)
            return rows[i];
    return NULL;
}

/* Notes what the other schedule costs. */
static sl_err note_schedule(const struct sl_exporter *target, struct sl_arena *arena,
                            const struct sl_export *what) {
    const struct sl_schedule *row = what->schedule;
    int64_t own, other;
    char a[SL_HUMAN_BYTES], b[SL_HUMAN_BYTES];
    if (!target->requests || !row || !what->plan->batch)
        return SL_OK;
    const struct sl_schedule *instead = run_by(target, what->plan);
    if (instead == row)
        return SL_OK;
    if (!instead)
        return sl_fail(SL_ERR_REFUSED,
                       "options of %s cannot request %s; plan with another schedule", target->name,
                       row->name);
    SL_TRY(step_under(arena, what->plan, row, &own));
    if (step_under(arena, what->plan, instead, &other) != SL_OK)
        return sl_err_context(SL_ERR_REFUSED,
                              "options of %s cannot request %s, and it cannot run %s instead",
                              target->name, row->name, instead->name);
    sl_log_note("options of %s cannot request %s: it will run %s, %s a step instead of %s "
                "(%+.1f %%, simulated with messages that take no time)",
                target->name, row->name, instead->name, sl_human_ns(other, a), sl_human_ns(own, b),
                100.0 * (double)(other - own) / (double)(own ? own : 1));
    return SL_OK;
}

sl_err sl_job_export(const struct sl_job_export_request *request, struct sl_text *out) {
    struct sl_arena arena = {0};
    struct sl_graph *graph = NULL;
    struct sl_export what = {.comms = request->comms};
    const struct sl_exporter *row;
    sl_err err = SL_OK;
    SL_TRY_OUT(sl_interop_exporter_find(request->target, &row));
    SL_TRY_OUT(open_plan(request, &arena, &what));
    SL_TRY_OUT(open_schedule(row, &arena, &what));
    if (row->needs_graph)
        SL_TRY_OUT(open_graph(request, row, &arena, &what, &graph));
    if (row->needs_sched)
        SL_TRY_OUT(open_sched(request, &arena, &what));
    SL_TRY_OUT(row->write(&what, out));
    SL_TRY_OUT(note_schedule(row, &arena, &what));
out:
    sl_graph_close(graph);
    sl_arena_free(&arena);
    return err;
}
