/* The public interface to plans and schedules. It owns their arena and checks the order of calls,
 * then calls plan, sched, sim and report. */
#include "sluice/pipeline.h"

#include "api/handles.h"
#include "interop/torch_csv.h"
#include "schedules/given.h"
#include "schedules/schedule.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct sl_pipeline *new_pipeline(void) {
    return sl_api_handle_new(SL_API_IS_PIPELINE, sizeof(struct sl_pipeline));
}

/* Sets *out to the handle; after an error closes it and sets NULL. */
static sl_err finish(struct sl_pipeline *p, sl_err err, struct sl_pipeline **out) {
    if (err != SL_OK)
        sl_pipeline_close(p);
    *out = err == SL_OK ? p : NULL;
    return err;
}

void sl_pipeline_close(struct sl_pipeline *pipeline) {
    if (!sl_api_handle_end(pipeline, SL_API_IS_PIPELINE, __func__))
        return;
    sl_text_free(&pipeline->text);
    sl_arena_free(&pipeline->arena);
    free(pipeline);
}

sl_err sl_pipeline_chain(int stages, struct sl_pipeline **out) {
    SL_API_GIVEN(out);
    struct sl_pipeline *p = new_pipeline();
    sl_err err =
        stages < 1 || stages > SL_STAGE_MAX
            ? sl_fail(SL_ERR_USAGE, "a chain has 1 to %d stages, not %d", SL_STAGE_MAX, stages)
            : sl_plan_chain(&p->arena, stages, stages, SL_LAYOUT_LOOP, &p->plan);
    return finish(p, err, out);
}

sl_err sl_pipeline_dag(const char *edges, struct sl_pipeline **out) {
    SL_API_GIVEN(out);
    *out = NULL;
    SL_API_GIVEN(edges);
    struct sl_pipeline *p = new_pipeline();
    return finish(p, sl_plan_dag(&p->arena, edges, 0, &p->plan), out);
}

static bool ends(const char *name, const char *ending) {
    size_t length = strlen(name), tail = strlen(ending);
    return length >= tail && strcmp(name + length - tail, ending) == 0;
}

static sl_err read_text(struct sl_pipeline *p, const char *name, const char *text, size_t length) {
    if (ends(name, ".plan"))
        return sl_plan_read(&p->arena, name, text, length, &p->plan);
    if (ends(name, ".csv"))
        SL_TRY(sl_interop_torch_csv_read(&p->arena, name, text, length, &p->read));
    else if (ends(name, ".sched"))
        SL_TRY(sl_sched_read(&p->arena, name, text, length, &p->read));
    else
        return sl_fail(SL_ERR_USAGE, "%s: unknown ending; expected .plan, .sched or .csv", name);
    p->plan = p->read->plan;
    return SL_OK;
}

sl_err sl_pipeline_read_text(const char *name, const char *text, size_t length,
                             struct sl_pipeline **out) {
    SL_API_GIVEN(out);
    *out = NULL;
    SL_API_GIVEN(name);
    SL_API_GIVEN(text);
    struct sl_pipeline *p = new_pipeline();
    return finish(p, read_text(p, name, text, length), out);
}

sl_err sl_pipeline_read(const char *file, struct sl_pipeline **out) {
    char *text;
    size_t length;
    SL_API_GIVEN(out);
    *out = NULL;
    SL_API_GIVEN(file);
    SL_TRY(sl_file_read(file, (int64_t)8 << 30, &text, &length));
    sl_err err = sl_pipeline_read_text(file, text, length, out);
    free(text);
    return err;
}

sl_err sl_pipeline_costs(struct sl_pipeline *pipeline, const char *costs) {
    SL_API_OPEN(pipeline, SL_API_IS_PIPELINE);
    SL_API_GIVEN(costs);
    int64_t(*dur)[SL_KIND_COUNT] =
        sl_arena_alloc(&pipeline->arena, (int64_t)sizeof *dur * pipeline->plan->stage_count);
    SL_TRY(sl_sim_costs(pipeline->plan, costs, dur));
    pipeline->dur_ns = (const int64_t(*)[SL_KIND_COUNT])dur;
    return SL_OK;
}

sl_err sl_pipeline_schedule(struct sl_pipeline *pipeline, const char *schedule, int64_t micros,
                            int64_t iterations) {
    SL_API_OPEN(pipeline, SL_API_IS_PIPELINE);
    struct sl_schedule_opts opts = {
        .schedule = schedule ? schedule : pipeline->plan->schedule,
        .batch = micros ? 0 : pipeline->plan->batch,
        .micros = micros,
        .iters = iterations,
        .dur_ns = pipeline->dur_ns,
    };
    pipeline->sched = NULL;
    pipeline->sim = NULL;
    if (!opts.schedule)
        return sl_fail(SL_ERR_USAGE, "no schedule is named, neither in the call nor in the plan");
    if (micros < 0 || micros > INT32_MAX / 4 || iterations < 0 || iterations > INT32_MAX / 4)
        return sl_fail(SL_ERR_USAGE, "%lld micro-batches and %lld iterations are out of range",
                       (long long)micros, (long long)iterations);
    if (!opts.batch && !opts.micros)
        return sl_fail(SL_ERR_USAGE, "micros is 0 and the plan names no batch");
    return sl_schedules_build(&pipeline->arena, pipeline->plan, &opts, &pipeline->sched);
}

sl_err sl_pipeline_verify(struct sl_pipeline *pipeline) {
    SL_API_OPEN(pipeline, SL_API_IS_PIPELINE);
    struct sl_sched *sched = pipeline->read;
    pipeline->sched = NULL;
    pipeline->sim = NULL;
    if (!sched)
        return sl_fail(SL_ERR_USAGE, "no schedule was read; sl_pipeline_schedule builds and "
                                     "verifies one");
    if (pipeline->dur_ns)
        sched->dur_ns = pipeline->dur_ns;
    if (!sched->lowered)
        SL_TRY(sl_schedules_given_lower(&pipeline->arena, sched, &sched));
    SL_TRY(sl_sched_verify(sched));
    pipeline->sched = sched;
    return SL_OK;
}

sl_err sl_pipeline_simulate(struct sl_pipeline *pipeline, const char *links) {
    SL_API_OPEN(pipeline, SL_API_IS_PIPELINE);
    struct sl_sim_opts opts = {.timeline = true};
    struct sl_sim_links parsed;
    pipeline->sim = NULL;
    if (!pipeline->sched)
        return sl_fail(
            SL_ERR_USAGE,
            "no schedule to simulate: call sl_pipeline_schedule or sl_pipeline_verify first");
    if (links) {
        SL_TRY(sl_sim_links_parse(links, &parsed));
        opts.net = sl_sim_uniform(&parsed);
    }
    return sl_sim_run(&pipeline->arena, pipeline->sched, &opts, &pipeline->sim);
}

static double of_worker(const struct sl_pipeline *p, enum sl_pipeline_stat stat, int worker) {
    if (worker < 0 || worker >= p->plan->worker_count)
        return NAN;
    if (stat == SL_PIPELINE_MEMORY_BYTES)
        return p->sched ? (double)sl_sched_worker_bytes(p->sched, worker) : NAN;
    if (!p->sim)
        return NAN;
    const struct sl_sim_worker *w = &p->sim->workers[worker];
    if (stat == SL_PIPELINE_BUBBLE)
        return (double)sl_sim_bubble(p->sim, worker) / (double)p->sim->end_ns;
    return (double)(stat == SL_PIPELINE_BUSY_NS ? w->busy_ns : w->peak_bytes);
}

double sl_pipeline_stat(const struct sl_pipeline *pipeline, enum sl_pipeline_stat stat,
                        int worker) {
    if (sl_api_check(pipeline, SL_API_IS_PIPELINE, __func__) != SL_OK)
        return NAN;
    switch (stat) {
    case SL_PIPELINE_STAGES: return pipeline->plan->stage_count;
    case SL_PIPELINE_WORKERS: return pipeline->plan->worker_count;
    case SL_PIPELINE_DEPTH: return pipeline->plan->depth;
    case SL_PIPELINE_ACTIONS:
        return pipeline->sched ? (double)sl_sched_action_count(pipeline->sched) : NAN;
    case SL_PIPELINE_STEP_NS: return pipeline->sim ? (double)pipeline->sim->step_ns : NAN;
    case SL_PIPELINE_END_NS: return pipeline->sim ? (double)pipeline->sim->end_ns : NAN;
    case SL_PIPELINE_MEMORY_BYTES:
    case SL_PIPELINE_BUSY_NS:
    case SL_PIPELINE_BUBBLE:
    case SL_PIPELINE_PEAK_BYTES: return of_worker(pipeline, stat, worker);
    }
    return NAN;
}

static sl_err put_picture(struct sl_pipeline *p, const char *format, struct sl_text *out) {
    struct sl_arena arena = {0};
    struct sl_picture picture;
    sl_err err = SL_OK;
    if (!p->sim)
        return sl_fail(SL_ERR_USAGE, "'%s' needs a simulation", format);
    sl_report_picture_build(&arena, p->sim->timeline, p->sched->name, "", &picture);
    if (strcmp(format, "grid") == 0)
        sl_report_grid(&picture, &(struct sl_grid_opts){.critical = true}, out);
    else if (strcmp(format, "svg") == 0)
        sl_report_svg(&picture, 1200, out);
    else if (strcmp(format, "html") == 0)
        sl_report_html(&picture, 1, out);
    else if (strcmp(format, "trace") == 0)
        sl_report_trace(&picture, out);
    else
        err = sl_fail(SL_ERR_USAGE, "'%s' is none of plan, sched, csv, grid, svg, html, trace",
                      format);
    sl_arena_free(&arena);
    return err;
}

const char *sl_pipeline_text(struct sl_pipeline *pipeline, const char *format) {
    if (sl_api_check(pipeline, SL_API_IS_PIPELINE, __func__) != SL_OK ||
        sl_api_given(format, "format", __func__) != SL_OK)
        return NULL;
    const struct sl_sched *sched = pipeline->sched ? pipeline->sched : pipeline->read;
    struct sl_text *out = &pipeline->text;
    sl_err err = SL_OK;
    sl_text_free(out);
    *out = (struct sl_text){0};
    sl_text_put(out, "");
    if (strcmp(format, "plan") == 0)
        sl_plan_write(pipeline->plan, out);
    else if (strcmp(format, "sched") != 0 &&
             strcmp(format, "csv") != 0) /* not an entry: a format of this call */
        err = put_picture(pipeline, format, out);
    else if (!sched)
        err = sl_fail(SL_ERR_USAGE, "'%s' needs a schedule", format);
    else if (strcmp(format, "sched") == 0)
        sl_sched_write(sched, out);
    else
        err = sl_interop_torch_csv_write(sched, false, out);
    return err == SL_OK ? out->at : NULL;
}
