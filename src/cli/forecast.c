/* The forecast of a run. */
#include "cli/forecast.h"

#include "base/log.h"
#include "device/bind.h"
#include "search/candidate.h"
#include "search/forecast.h"

#include <math.h>
#include <stdio.h>

/* 's0:F=1200,B=2400;s1:...': as --costs takes it, so that 'sluice sim RUN/plan.plan' can play it.
 */
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

sl_err sl_cli_forecast_play(const struct sl_forecast *f, const struct sl_sched *sched,
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

/* More workers than GPUs share them (device/cuda/device.c) and, while one computes, the others on
 * that GPU wait: a step takes at least what they compute together. */
static void share_devices(const struct sl_pipe_config *c, const struct sl_sim *sim, int64_t iters,
                          struct sl_forecast *out) {
    const struct sl_device_row *row = c->train->device;
    int workers = c->plan->worker_count;
    struct sl_device_facts facts;
    int devices = row->list && c->train->kind_count < 2 ? row->list(&facts, 1) : 0;
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

/* A step of the schedule as it will run: of many, where they overlap. */
static sl_err play(const struct sl_pipe_config *c, const int64_t (*dur)[SL_KIND_COUNT],
                   struct sl_arena *arena, struct sl_forecast *out) {
    const struct sl_schedule *row = sl_sched_row_find(c->schedule);
    struct sl_sched_opts opts = {.schedule = c->schedule,
                                 .batch = c->train->batch,
                                 .slack = c->slack,
                                 .policy = &c->train->policy,
                                 .global_step = c->global_step,
                                 .iters = row && row->rule != SL_RULE_SYNC ? SL_ASYNC_ITERS : 1};
    const struct sl_sched *sched;
    const struct sl_sim *sim;
    SL_TRY(sl_sched_build(arena, c->plan, &opts, &sched));
    SL_TRY(sl_cli_forecast_play(out, sched, false, arena, &sim));
    double idle = 0;
    for (int w = 0; w < c->plan->worker_count; w++)
        idle += (double)sl_sim_bubble(sim, w) / (double)(sim->end_ns ? sim->end_ns : 1);
    out->step_ns = sl_search_step_ns(sched, sim, dur);
    out->bubble = idle / c->plan->worker_count;
    share_devices(c, sim, opts.iters, out);
    return SL_OK;
}

sl_err sl_cli_forecast_make(const struct sl_args *args, const struct sl_pipe_config *c,
                            struct sl_arena *arena, struct sl_forecast *out) {
    const char *path = sl_args_text(args, "--cost", NULL);
    const struct sl_cost *cost;
    *out = (struct sl_forecast){0};
    if (!path)
        return SL_OK;
    if (!c->plan)
        return sl_fail(SL_ERR_USAGE, "--cost foretells a pipeline: --stages N or --plan X.plan");
    SL_TRY(sl_cost_file(arena, path, &cost));
    struct sl_forecast_spec spec = {
        .graph = c->train->graph,
        .plan = c->plan,
        .stage_of = c->stage_of,
        .has_kernel = c->train->device->has_kernel,
        .optim = &c->train->optim,
        .precision = sl_search_precision_find(sl_args_text(args, "--dtype", "fp32")),
        .cost = cost,
        .schedule = c->schedule,
        .batch = c->train->batch,
    };
    int64_t(*dur)[SL_KIND_COUNT] =
        sl_arena_alloc(arena, (int64_t)sizeof *dur * c->plan->stage_count);
    SL_TRY(sl_search_forecast_times(arena, &spec, dur));
    out->cost = path;
    out->costs = put_costs(arena, c->plan, dur);
    out->links =
        sl_arena_printf(arena, "latency=%lldns,receive=early", (long long)cost->link_latency_ns);
    if (cost->cold.after_ns)
        out->cold = sl_arena_printf(arena, "F=%lld,B=%lld,after=%lld", (long long)cost->cold.f_ns,
                                    (long long)cost->cold.b_ns, (long long)cost->cold.after_ns);
    return play(c, (const int64_t(*)[SL_KIND_COUNT])dur, arena, out);
}

void sl_cli_forecast_say(const struct sl_forecast *f) {
    char step[SL_HUMAN_BYTES];
    if (f->cost)
        sl_log_note("forecast from %s: %s a step, workers wait %.1f %%", f->cost,
                    sl_human_ns(f->step_ns, step), 100 * f->bubble);
}

void sl_cli_forecast_judge(const struct sl_forecast *f, double step_s, int64_t threads) {
    char foretold[SL_HUMAN_BYTES], measured[SL_HUMAN_BYTES], crowd[64] = "";
    int cores = sl_device_bind_count();
    if (!f->cost || isnan(step_s))
        return;
    if (threads > cores)
        snprintf(crowd, sizeof crowd, "; %lld threads shared %d core%s", (long long)threads, cores,
                 cores == 1 ? "" : "s");
    sl_log_note("a step took %s, %+.1f %% against the forecast of %s%s",
                sl_human_ns((int64_t)(1e9 * step_s), measured),
                100 * (1e9 * step_s / (double)f->step_ns - 1), sl_human_ns(f->step_ns, foretold),
                crowd);
}
