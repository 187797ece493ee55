/* From a request to a simulated schedule. */
#include "job/sim.h"

#include "schedules/given.h"

#include <string.h>

static const int64_t picture_max = 20000000; /* number of actions; they take about 2 GiB */

static sl_err set_links(struct sl_arena *arena, const struct sl_job_sim_request *r,
                        struct sl_sim_opts *opts) {
    static const char *const modes[] = {[SL_SEND_OVERLAP] = "overlap",
                                        [SL_SEND_RENDEZVOUS] = "rendezvous",
                                        [SL_SEND_BLOCKING] = "blocking"};
    const char *mode = r->send ? r->send : "overlap";
    int at = 0;
    while (at < SL_COUNT(modes) && strcmp(modes[at], mode) != 0)
        at++;
    if (at == SL_COUNT(modes))
        return sl_fail(SL_ERR_USAGE, "`send`: '%s' is not overlap, rendezvous or blocking", mode);
    opts->send = (enum sl_sim_send)at;
    if (r->cold)
        SL_TRY(sl_sim_cold_parse(r->cold, &opts->cold));
    if (!r->links)
        return SL_OK;
    struct sl_sim_links *parsed = SL_NEW(arena, struct sl_sim_links, 1);
    SL_TRY(sl_sim_links_parse(r->links, parsed));
    opts->net = sl_sim_uniform(parsed);
    return SL_OK;
}

static bool has_times(const struct sl_sched *sched) {
    for (int s = 0; sched->dur_ns && s < sched->plan->stage_count; s++)
        for (int k = 0; k < SL_KIND_COUNT; k++)
            if (sched->dur_ns[s][k])
                return true;
    return false;
}

/* Costs of the request override those in the file. A file without times gets those of a CSV. */
static sl_err set_costs(struct sl_arena *arena, const char *costs, struct sl_sched *sched) {
    static const int64_t units[SL_KIND_COUNT] = {[SL_FORWARD] = 1,
                                                 [SL_BACKWARD] = 2,
                                                 [SL_BACKWARD_INPUT] = 1,
                                                 [SL_BACKWARD_WEIGHT] = 1,
                                                 [SL_RECOMPUTE] = 1};
    int stages = sched->plan->stage_count;
    if (!costs && has_times(sched))
        return SL_OK;
    int64_t(*dur)[SL_KIND_COUNT] = sl_arena_alloc(arena, (int64_t)sizeof *dur * stages);
    for (int s = 0; s < stages && !costs; s++)
        memcpy(dur[s], units, sizeof dur[s]);
    if (costs)
        SL_TRY(sl_sim_costs(sched->plan, costs, dur));
    sched->dur_ns = (const int64_t(*)[SL_KIND_COUNT])dur;
    return SL_OK;
}

/* The request's schedule for the plan and the batch of the file. */
static sl_err build_other(struct sl_arena *arena, const struct sl_sched *file,
                          const struct sl_job_sched_request *request, const struct sl_sched **out) {
    struct sl_job_sched_request r = {
        .schedule = request->schedule, .batch = file->batch, .iters = file->iters};
    struct sl_schedule_opts opts;
    SL_TRY(sl_job_sched_open(arena, &r));
    SL_TRY(sl_job_sched_opts(arena, &r, file->plan, &opts));
    opts.dur_ns = file->dur_ns;
    return sl_schedules_build(arena, file->plan, &opts, out);
}

/* A file of passes or a lowered program. */
static sl_err open_file(struct sl_arena *arena, const char *path,
                        const struct sl_job_sched_request *request, const struct sl_sched **out) {
    struct sl_sched *sched;
    SL_TRY(sl_job_sched_read(arena, path, &sched));
    SL_TRY(set_costs(arena, request->costs, sched));
    if (request->schedule)
        return build_other(arena, sched, request, out);
    if (!sched->lowered)
        SL_TRY(sl_schedules_given_lower(arena, sched, &sched));
    *out = sched;
    return sl_sched_verify(sched);
}

static sl_err build(struct sl_arena *arena, const struct sl_job_sched_request *request,
                    const struct sl_sched **out) {
    struct sl_job_sched_request r = *request;
    const struct sl_plan *plan;
    struct sl_schedule_opts opts;
    SL_TRY(sl_job_sched_open(arena, &r));
    SL_TRY(sl_job_sched_plan(arena, &r, &plan));
    SL_TRY(sl_job_sched_opts(arena, &r, plan, &opts));
    return sl_schedules_build(arena, plan, &opts, out);
}

static const char *detail_of(struct sl_arena *arena, const struct sl_sched *sched) {
    return sl_arena_printf(arena, "%d stages on %d workers, %d micro-batches, %d iteration%s",
                           sched->plan->stage_count, sched->plan->worker_count, sched->micros[0],
                           sched->iters, sched->iters == 1 ? "" : "s");
}

static int64_t action_total(const struct sl_sched *sched) {
    int64_t count = 0;
    for (int w = 0; w < sched->plan->worker_count; w++)
        count += sched->lists[SL_PROLOGUE][w].count + sched->lists[SL_EPILOGUE][w].count +
                 sched->reps * sched->lists[SL_PERIOD][w].count;
    return count;
}

sl_err sl_job_sim(struct sl_arena *arena, const struct sl_job_sim_request *request,
                  struct sl_report_sim *out) {
    struct sl_sim_opts opts = {.timeline = request->picture};
    *out = (struct sl_report_sim){.has_picture = request->picture};
    SL_TRY(set_links(arena, request, &opts));
    if (request->sched_file)
        SL_TRY(open_file(arena, request->sched_file, &request->sched, &out->sched));
    else
        SL_TRY(build(arena, &request->sched, &out->sched));
    if (request->picture && action_total(out->sched) > picture_max)
        return sl_fail(
            SL_ERR_REFUSED,
            "%lld actions are too many for a picture; fewer iterations (`iters`) or micro-batches "
            "show the same",
            (long long)action_total(out->sched));
    SL_TRY(sl_sim_run(arena, out->sched, &opts, &out->sim));
    if (request->picture)
        sl_report_picture_build(arena, out->sim->timeline, out->sched->name,
                                detail_of(arena, out->sched), &out->picture);
    return SL_OK;
}
