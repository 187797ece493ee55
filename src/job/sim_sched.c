/* Turns a request into a plan and the options of a schedule. */
#include "base/text.h"
#include "interop/torch_csv.h"
#include "job/schedule.h"
#include "job/sim.h"
#include "search/candidate.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const int64_t plan_max_bytes = (int64_t)1 << 30, sched_max_bytes = (int64_t)8 << 30;

sl_err sl_job_plan_read(struct sl_arena *arena, const char *path, const struct sl_plan **out) {
    char *text;
    size_t length;
    SL_TRY(sl_file_read(path, plan_max_bytes, &text, &length));
    sl_err err = sl_plan_read(arena, path, text, length, out);
    free(text);
    return err;
}

static bool ends(const char *path, const char *ending) {
    size_t length = strlen(path), tail = strlen(ending);
    return length > tail && strcasecmp(path + length - tail, ending) == 0;
}

/* Generates the passes of the schedule and batch that a plan names. */
static sl_err plan_passes(struct sl_arena *arena, const char *path, struct sl_sched **out) {
    struct sl_job_sched_request request = {.plan_file = path};
    const struct sl_plan *plan;
    struct sl_schedule_opts opts;
    SL_TRY(sl_job_sched_plan(arena, &request, &plan));
    if (!plan->schedule || !plan->batch)
        return sl_fail(SL_ERR_USAGE,
                       "%s names no %s; 'sluice sched %s --schedule S --batch B' proves one", path,
                       plan->schedule ? "batch" : "schedule", path);
    SL_TRY(sl_job_sched_opts(arena, &request, plan, &opts));
    const struct sl_schedule *row = opts.row ? opts.row : sl_schedules_row_find(plan->schedule);
    if (!opts.iters && row && row->rule != SL_RULE_SYNC)
        opts.iters = SL_ASYNC_ITERS;
    return sl_schedules_generate(arena, plan, &opts, out);
}

sl_err sl_job_sched_read(struct sl_arena *arena, const char *path, struct sl_sched **out) {
    char *text;
    size_t length;
    bool csv = ends(path, ".csv");
    if (ends(path, ".plan"))
        return plan_passes(arena, path, out);
    SL_TRY(sl_file_read(path, sched_max_bytes, &text, &length));
    sl_err err = csv ? sl_interop_torch_csv_read(arena, path, text, length, out)
                     : sl_sched_read(arena, path, text, length, out);
    free(text);
    return err;
}

static sl_err build_chain(struct sl_arena *arena, const struct sl_job_sched_request *r,
                          const struct sl_plan **out) {
    const struct sl_schedule *row =
        r->row ? r->row : sl_schedules_row_find(r->schedule ? r->schedule : "1f1b");
    enum sl_layout layout = row ? row->layout : SL_LAYOUT_LOOP;
    int64_t chunks = r->chunks ? r->chunks : row && row->layout_chunks ? 2 : 1;
    if (r->chain % chunks)
        return sl_fail(SL_ERR_REFUSED, "%lld stages cannot be put on workers in chunks of %lld",
                       (long long)r->chain, (long long)chunks);
    int64_t workers = r->ranks ? r->ranks : r->chain / chunks;
    return sl_plan_chain(arena, (int)r->chain, (int)workers, layout, out);
}

/* Ties the first and last stage. Workers that hold the same weights wait for each other. */
static sl_err tie_ends(struct sl_arena *arena, const struct sl_plan **plan) {
    const int last = (*plan)->stage_count - 1;
    const struct sl_tie tie = {"embedding", (const int[]){0, last}, 2, 0};
    struct sl_plan draft = **plan;
    if (last == 0)
        return SL_OK;
    draft.ties = &tie;
    draft.tie_count = 1;
    return sl_plan_build(arena, &draft, plan);
}

sl_err sl_job_sched_open(struct sl_arena *arena, struct sl_job_sched_request *request) {
    bool own = request->module || sl_job_schedule_is_file(request->schedule);
    return own ? sl_job_schedule_open(arena, request->schedule, request->module, &request->row)
               : SL_OK;
}

/* Takes the sketch in the schedule's file if the request has no plan. */
static sl_err take_sketch(const struct sl_job_sched_request *r, const struct sl_plan **out) {
    const struct sl_plan *plan = sl_schedules_given_passes(r->row)->plan;
    if (r->dag || r->tied || r->chunks || (r->ranks && r->ranks != plan->worker_count) ||
        (r->chain && r->chain != plan->stage_count))
        return sl_fail(SL_ERR_USAGE,
                       "the file %s has its own %d stages on %d workers; leave out what describes "
                       "others",
                       r->schedule, plan->stage_count, plan->worker_count);
    *out = plan;
    return SL_OK;
}

sl_err sl_job_sched_plan(struct sl_arena *arena, const struct sl_job_sched_request *request,
                         const struct sl_plan **out) {
    if (!request->plan_file && sl_schedules_given_passes(request->row))
        return take_sketch(request, out);
    if ((request->plan_file != NULL) + (request->chain > 0) + (request->dag != NULL) != 1)
        return sl_fail(SL_ERR_USAGE, "give one of a plan, `chain` and `dag`");
    if (request->plan_file)
        return sl_job_plan_read(arena, request->plan_file, out);
    if (request->chain)
        SL_TRY(build_chain(arena, request, out));
    else
        SL_TRY(sl_plan_dag(arena, request->dag, (int)request->ranks, out));
    return request->tied ? tie_ends(arena, out) : SL_OK;
}

sl_err sl_job_sched_opts(struct sl_arena *arena, const struct sl_job_sched_request *r,
                         const struct sl_plan *plan, struct sl_schedule_opts *out) {
    const struct sl_schedule *row = r->row;
    if (!row && !r->schedule && sl_job_schedule_is_file(plan->schedule))
        SL_TRY(sl_job_schedule_open(arena, plan->schedule, NULL, &row));
    const struct sl_sched *given = sl_schedules_given_passes(row);
    *out = (struct sl_schedule_opts){.schedule = r->schedule ? r->schedule : plan->schedule,
                                     .row = row,
                                     .micros = r->micros,
                                     .batch = r->batch || r->micros ? r->batch : plan->batch,
                                     .last_batch = r->last_batch,
                                     .iters = r->iters,
                                     .group = r->group,
                                     .slack = r->slack,
                                     .global_step = r->global_step};
    if (given && !out->batch && !out->micros)
        out->batch = r->plan_file ? plan->stages[0].micro_size * given->micros[0] : given->batch;
    if (given && !out->iters) /* of a period, one iteration is enough */
        out->iters = given->rule == SL_RULE_SYNC && given->reps ? 1 : given->iters;
    if (given && !out->slack)
        out->slack = given->slack;
    if (given && given->policy.row)
        out->policy = &given->policy;
    out->global_step |= given && given->global_step;
    if (!out->schedule && !out->row)
        return sl_fail(SL_ERR_USAGE, "`schedule` is missing; 'sluice list schedules' shows the "
                                     "choices");
    if (!out->batch && !out->micros)
        return sl_fail(SL_ERR_USAGE,
                       "the number of micro-batches, `micro`, is missing, or `batch`");
    if (r->policy) {
        struct sl_policy_use *policy = SL_NEW(arena, struct sl_policy_use, 1);
        SL_TRY(sl_optim_policy_parse(r->policy, policy));
        out->policy = policy;
    }
    if (r->costs) {
        int64_t(*dur)[SL_KIND_COUNT] =
            sl_arena_alloc(arena, (int64_t)sizeof *dur * plan->stage_count);
        SL_TRY(sl_sim_costs(plan, r->costs, dur));
        out->dur_ns = (const int64_t(*)[SL_KIND_COUNT])dur;
    }
    return SL_OK;
}
