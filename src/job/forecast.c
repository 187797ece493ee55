/* Makes the forecast of a run. */
#include "job/forecast.h"

#include "device/bind.h"
#include "job/parts.h"
#include "search/candidate.h"
#include "search/forecast.h"

/* Writes "s0:F=1200,B=2400;s1:...", the form of --costs, so that 'sluice sim RUN/plan.plan' can use
 * it. */
static const char *put_costs(struct sl_arena *arena, const struct sl_plan *plan,
                             int64_t (*dur)[SL_KIND_COUNT]) {
    struct sl_text text = {0};
    for (int s = 0; s < plan->stage_count; s++) {
        sl_text_printf(&text, "%s%s:", s ? ";" : "", plan->stages[s].name);
        for (int k = 0, first = 1; k < SL_KIND_COUNT; k++)
            if (k != SL_SEND && k != SL_RECV) {
                sl_text_printf(&text, "%s%s=%lld", first ? "" : ",",
                               sl_sched_kind_name((enum sl_kind)k), (long long)dur[s][k]);
                first = 0;
            }
    }
    const char *kept = sl_arena_dup(arena, text.at, text.length);
    sl_text_free(&text);
    return kept;
}

sl_err sl_job_forecast_play(const struct sl_forecast *f, const struct sl_sched *sched,
                            bool timeline, struct sl_arena *arena, const struct sl_sim **out) {
    int64_t(*dur)[SL_KIND_COUNT] =
        sl_arena_alloc(arena, (int64_t)sizeof *dur * sched->plan->stage_count);
    struct sl_sim_links links;
    struct sl_cold cold = {0};
    SL_TRY(sl_sim_costs(sched->plan, f->costs, dur));
    SL_TRY(sl_sim_links_parse(f->links, &links));
    if (f->cold)
        SL_TRY(sl_sim_cold_parse(f->cold, &cold));
    struct sl_sim_opts opts = {.dur_ns = (const int64_t(*)[SL_KIND_COUNT])dur,
                               .net = sl_sim_uniform(&links),
                               .cold = cold,
                               .timeline = timeline};
    return sl_sim_run(arena, sched, &opts, out);
}

/* Raises the forecast if workers share a GPU (device/cuda/device.c): they compute one at a time, so
 * a step takes at least the sum of their work. */
static void share_devices(const struct sl_job_work *work, const struct sl_sim *sim, int64_t iters,
                          struct sl_forecast *out) {
    const struct sl_device_row *row = work->train.device;
    int workers = work->pipe.plan->worker_count;
    struct sl_device_facts facts;
    int devices = row->list && work->train.kind_count < 2 ? row->list(&facts, 1) : 0;
    if (devices < 1 || devices >= workers)
        return;
    int64_t step = sl_sim_shared_ns(sim, workers, devices) / iters, busy = 0;
    if (step <= out->step_ns)
        return;
    for (int w = 0; w < workers; w++)
        busy += sim->workers[w].busy_ns;
    out->step_ns = step;
    out->bubble = 1 - (double)busy / ((double)(iters * workers) * (double)step);
}

/* Returns the step if the threads of all workers share the cores that this process may use and were
 * profiled without sharing; 0: they do not share. */
static int64_t shared_ns(const struct sl_job_work *work, const struct sl_cost *cost,
                         const struct sl_sim *sim, int64_t iters) {
    int workers = work->pipe.plan->worker_count, threads = work->train.threads;
    int room = sl_device_bind_count() / (threads > 0 ? threads : 1);
    room = room > 0 ? room : 1;
    if (!work->train.device->is_host || work->pipe.comm || workers <= room || cost->busy > room)
        return 0;
    return sl_sim_shared_ns(sim, workers, room) / iters;
}

/* Simulates one step of a synchronous schedule; many steps of an asynchronous one, because they
 * overlap. */
static sl_err play(struct sl_job_work *work, const struct sl_cost *cost,
                   const int64_t (*dur)[SL_KIND_COUNT]) {
    const struct sl_pipe_config *pipe = &work->pipe;
    const struct sl_schedule *row = pipe->row;
    struct sl_forecast *out = &work->forecast;
    struct sl_schedule_opts opts = {.schedule = pipe->schedule,
                                    .row = pipe->row,
                                    .batch = work->train.batch,
                                    .slack = pipe->slack,
                                    .policy = &work->train.policy,
                                    .global_step = pipe->global_step,
                                    .iters = row->rule != SL_RULE_SYNC ? SL_ASYNC_ITERS : 1};
    const struct sl_sched *sched;
    const struct sl_sim *sim;
    SL_TRY(sl_schedules_build(&work->arena, pipe->plan, &opts, &sched));
    SL_TRY(sl_job_forecast_play(out, sched, false, &work->arena, &sim));
    double idle = 0;
    for (int w = 0; w < pipe->plan->worker_count; w++)
        idle += (double)sl_sim_bubble(sim, w) / (double)(sim->end_ns ? sim->end_ns : 1);
    out->step_ns = sl_search_step_ns(sched, sim, dur);
    out->bubble = idle / pipe->plan->worker_count;
    share_devices(work, sim, opts.iters, out);
    const struct sl_forecast_interval interval =
        sl_search_forecast_interval(cost, out->step_ns, shared_ns(work, cost, sim, opts.iters));
    out->low_ns = interval.low_ns;
    out->high_ns = interval.high_ns;
    return SL_OK;
}

sl_err sl_job_forecast_make(struct sl_job_work *work) {
    const struct sl_pipe_config *pipe = &work->pipe;
    struct sl_forecast *out = &work->forecast;
    struct sl_arena *arena = &work->arena;
    const struct sl_cost *cost;
    if (!*work->job.cost)
        return SL_OK;
    SL_TRY(sl_cost_file(arena, work->job.cost, &cost));
    struct sl_forecast_spec spec = {
        .graph = work->graph,
        .plan = pipe->plan,
        .stage_of = pipe->stage_of,
        .has_kernel = work->train.device->has_kernel,
        .optim = &work->train.optim,
        .precision = sl_search_precision_find(sl_job_dtype_name(&work->job)),
        .cost = cost,
        .schedule = pipe->schedule,
        .batch = work->train.batch,
    };
    int64_t(*dur)[SL_KIND_COUNT] =
        sl_arena_alloc(arena, (int64_t)sizeof *dur * pipe->plan->stage_count);
    SL_TRY(sl_search_forecast_times(arena, &spec, dur));
    out->cost = work->job.cost;
    out->costs = put_costs(arena, pipe->plan, dur);
    out->links =
        sl_arena_printf(arena, "latency=%lldns,receive=early", (long long)cost->link_latency_ns);
    if (cost->cold.after_ns)
        out->cold = sl_arena_printf(arena, "F=%lld,B=%lld,after=%lld", (long long)cost->cold.f_ns,
                                    (long long)cost->cold.b_ns, (long long)cost->cold.after_ns);
    return play(work, cost, (const int64_t(*)[SL_KIND_COUNT])dur);
}
