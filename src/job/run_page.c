/* Writes the page of a run directory. If the run was traced, its schedule is simulated with the
 * measured pass times, and with those of the forecast. */
#include "job/run_page.h"

#include "base/json.h"
#include "graph/model.h"
#include "job/forecast.h"
#include "job/op_times.h"
#include "job/sim.h"
#include "op/registry.h"
#include "report/compare.h"
#include "report/curves.h"

#include <stdlib.h>
#include <string.h>

/* Largest number of passes; longer timelines are shown without a prediction. */
static const int64_t passes_max = 2000000;

struct run {
    const char *path;
    struct sl_arena *arena;
    struct sl_job job; /* the job in RUN/config.json */
    struct sl_report_run page;
    struct sl_report_pipeline pipeline;
    struct sl_graph *graph;
    struct sl_picture measured, replayed, foretold;
};

/* Reads the strings and numbers of config.json as they are written. */
static sl_err read_facts(struct sl_json_in *json, struct sl_arena *arena,
                         struct sl_report_run *page) {
    enum { FACTS_MAX = 64 };
    const char *(*facts)[2] = sl_arena_alloc(arena, (int64_t)sizeof *facts * FACTS_MAX);
    page->facts = (const char *const(*)[2])facts;
    SL_TRY(sl_json_take(json, SL_JSON_OBJECT));
    for (;;) {
        SL_TRY(sl_json_next(json));
        if (json->event == SL_JSON_OBJECT_END)
            return SL_OK;
        const char *name = sl_json_unescape(json, arena);
        SL_TRY(sl_json_next(json));
        bool plain = json->event == SL_JSON_STRING || json->event == SL_JSON_NUMBER;
        if (plain && json->string.length && page->fact_count < FACTS_MAX) {
            facts[page->fact_count][0] = name;
            facts[page->fact_count++][1] = sl_json_unescape(json, arena);
        }
        SL_TRY(sl_json_skip(json));
    }
}

/* Reads RUN/name into the arena. */
static sl_err read_of_run(struct sl_arena *arena, const char *run, const char *name,
                          const char **path, struct sl_str *out) {
    char *text;
    size_t length;
    *path = sl_arena_printf(arena, "%s/%s", run, name);
    SL_TRY(sl_file_read(*path, (int64_t)1 << 32, &text, &length));
    *out = (struct sl_str){sl_arena_dup(arena, text, length), length};
    free(text);
    return SL_OK;
}

static bool has_file(const struct run *r, const char *name) {
    return sl_file_exists(sl_arena_printf(r->arena, "%s/%s", r->path, name));
}

/* Builds the schedule as the run built it, for `iters` steps. */
static sl_err build_sched(struct run *r, const struct sl_plan *plan, int64_t iters,
                          const struct sl_sched **out) {
    const struct sl_job *job = &r->job;
    struct sl_job_sched_request request = {.schedule = *job->schedule ? job->schedule : "1f1b",
                                           .policy = job->policy,
                                           .batch = job->batch,
                                           .iters = iters,
                                           .slack = job->slack,
                                           .global_step = sl_job_is_global(job, NULL)};
    struct sl_schedule_opts opts;
    SL_TRY(sl_job_sched_open(r->arena, &request));
    SL_TRY(sl_job_sched_opts(r->arena, &request, plan, &opts));
    return sl_schedules_build(r->arena, plan, &opts, out);
}

/* Simulates the schedule with the mean pass times of the run; messages take no time. */
static sl_err replay(struct run *r, const struct sl_plan *plan) {
    int64_t(*dur)[SL_KIND_COUNT] =
        sl_arena_alloc(r->arena, (int64_t)sizeof *dur * plan->stage_count);
    const struct sl_sim *sim;
    sl_report_picture_durations(&r->measured, dur);
    struct sl_sim_opts opts = {.dur_ns = (const int64_t(*)[SL_KIND_COUNT])dur, .timeline = true};
    SL_TRY(sl_sim_run(r->arena, r->pipeline.sched, &opts, &sim));
    sl_report_picture_build(r->arena, sim->timeline, "replayed",
                            "the schedule, with the mean pass times of this run", &r->replayed);
    r->pipeline.replayed = &r->replayed;
    return SL_OK;
}

/* Simulates the schedule with the times of the forecast. */
static sl_err play_forecast(struct run *r) {
    const struct sl_forecast *forecast;
    const struct sl_sim *sim;
    const char *path;
    struct sl_str text;
    if (!has_file(r, "forecast.json"))
        return SL_OK;
    SL_TRY(read_of_run(r->arena, r->path, "forecast.json", &path, &text));
    SL_TRY(sl_report_forecast_read(r->arena, path, text.at, text.length, &forecast));
    sl_err err = sl_job_forecast_play(forecast, r->pipeline.sched, true, r->arena, &sim);
    if (err != SL_OK)
        return sl_err_context(SL_ERR_INPUT, "%s", path);
    sl_report_picture_build(
        r->arena, sim->timeline, "forecast",
        sl_arena_printf(r->arena, "made before the run from %s", forecast->cost), &r->foretold);
    r->pipeline.foretold = &r->foretold;
    r->pipeline.cost = forecast->cost;
    r->pipeline.foretold_ns = r->foretold.end_ns;
    int64_t steps = sl_report_picture_steps(&r->measured);
    if (r->pipeline.sched->rule == SL_RULE_SYNC && forecast->step_ns <= INT64_MAX / steps)
        r->pipeline.foretold_ns = forecast->step_ns * steps;
    return SL_OK;
}

/* Makes predictions for as many steps as the measured timeline has. */
static sl_err predict(struct run *r, const struct sl_plan *plan) {
    int64_t iters = sl_report_picture_steps(&r->measured);
    r->pipeline.measured = &r->measured;
    r->measured.title = "measured";
    if (r->measured.stage_count != plan->stage_count || iters == 0 ||
        r->measured.lane_at[r->measured.lane_count] > passes_max)
        return SL_OK;
    SL_TRY(build_sched(r, plan, iters, &r->pipeline.sched));
    SL_TRY(replay(r, plan));
    return play_forecast(r);
}

static sl_err read_pipeline(struct run *r) {
    const struct sl_plan *plan;
    const char *path;
    struct sl_str text;
    if (!has_file(r, "plan.plan"))
        return SL_OK;
    SL_TRY(read_of_run(r->arena, r->path, "plan.plan", &path, &text));
    SL_TRY(sl_plan_read(r->arena, path, text.at, text.length, &plan));
    SL_TRY(build_sched(r, plan, 1, &r->pipeline.sched));
    if (plan->node_count == r->graph->nodes.count)
        r->pipeline.graph = r->graph;
    r->page.pipeline = &r->pipeline;
    if (!has_file(r, "timeline.trace.json"))
        return SL_OK;
    path = sl_arena_printf(r->arena, "%s/timeline.trace.json", r->path);
    SL_TRY(sl_report_trace_file(r->arena, path, &r->measured));
    return predict(r, plan);
}

/* Measures kernels with the micro-batch size of the run, on synthetic data. */
static sl_err measure_ops(struct run *r, const char *model) {
    enum { ROUNDS = 3 };
    struct sl_job job;
    sl_job_init(&job);
    sl_err err = sl_job_set(&job, "model", model);
    job.batch = (r->job.batch + r->job.micro - 1) / r->job.micro;
    if (err == SL_OK)
        err = sl_job_op_times(&job, &(struct sl_job_host){0}, ROUNDS, r->arena, &r->page.ops,
                              &r->page.op_count);
    sl_job_free(&job);
    return err;
}

static sl_err read_run(struct run *r, bool measure) {
    struct sl_model_options options = {.find_op = sl_op_find, .nearest_op = sl_op_nearest};
    struct sl_json_in json;
    struct sl_str log, config;
    const char *path;
    SL_TRY(read_of_run(r->arena, r->path, "config.json", &path, &config));
    sl_json_read(&json, path, config.at, config.length);
    SL_TRY(read_facts(&json, r->arena, &r->page));
    SL_TRY(sl_job_read_run(&r->job, r->path));
    SL_TRY(read_of_run(r->arena, r->path, "log.jsonl", &path, &log));
    SL_TRY(sl_report_record_read(r->arena, path, log.at, log.length, &r->page.record));
    path = sl_arena_printf(r->arena, "%s/model.model", r->path);
    SL_TRY(sl_graph_model_read_file(path, &options, &r->graph));
    SL_TRY(read_pipeline(r));
    return measure ? measure_ops(r, path) : SL_OK;
}

sl_err sl_job_run_page(const char *run, bool measure_kernels, struct sl_text *out) {
    struct sl_arena arena = {0};
    struct run r = {.path = run, .arena = &arena, .page.title = run};
    sl_job_init(&r.job);
    sl_err err = read_run(&r, measure_kernels);
    if (err == SL_OK)
        sl_report_run_page_put(&r.page, out);
    sl_job_free(&r.job);
    sl_graph_close(r.graph);
    sl_arena_free(&arena);
    return err;
}
