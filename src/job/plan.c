/* Plans a model: from a request to a problem, a search and its result. */
#include "job/planning.h"

#include "base/clock.h"
#include "base/vec.h"
#include "job/defaults.h"
#include "planners/registry.h"
#include "profile/machine_file.h"
#include "schedules/schedule.h"
#include "shard/shard.h"

#include <string.h>

/* Uses the link between threads of this host, if the cost table has measured it. */
static void use_measured_link(struct sl_job_planning *p) {
    struct sl_machine *m = SL_NEW(p->arena, struct sl_machine, 1);
    if (!p->cost || !(p->cost->link_bytes_per_s > 0))
        return;
    *m = *p->machine;
    struct sl_link *links = sl_vec_freeze(p->arena, m->links, m->link_count, sizeof *links);
    for (int h = 0; h < m->host_count; h++) {
        links[m->hosts[h].link].bandwidth = p->cost->link_bytes_per_s;
        if (p->cost->link_latency_ns)
            links[m->hosts[h].link].latency_ns = p->cost->link_latency_ns;
    }
    m->links = links;
    p->machine = m;
}

static sl_err open_machine(struct sl_job_planning *p) {
    const struct sl_job_plan_request *r = p->request;
    p->machine = r->given_machine;
    if (!p->machine)
        SL_TRY(sl_profile_machine_argument(p->arena, SL_JOB_OR(r->machine, "here"), &p->machine));
    if (r->devices && r->devices != p->machine->device_count)
        SL_TRY(sl_cost_machine_first(p->arena, p->machine, (int)r->devices, &p->machine));
    if (r->cost_file)
        SL_TRY(sl_cost_file(p->arena, r->cost_file, &p->cost));
    use_measured_link(p);
    /* fuses as on the device that was measured */
    p->device = p->cost ? sl_device_find(p->cost->device) : NULL;
    if (!p->device)
        p->device = sl_device_find(SL_JOB_DEVICE);
    return SL_OK;
}

static sl_err parse_recompute(const char *text, enum sl_recompute *out) {
    static const char *const names[] = {
        [SL_RECOMPUTE_MAY] = "auto", [SL_RECOMPUTE_NEVER] = "none", [SL_RECOMPUTE_ALWAYS] = "all"};
    for (int i = 0; i < SL_COUNT(names); i++)
        if (strcmp(names[i], text) == 0) {
            *out = (enum sl_recompute)i;
            return SL_OK;
        }
    return sl_fail(SL_ERR_USAGE, "`recompute`: '%s' is not auto, none or all", text);
}

/* Parses one item of "2bw=1.2,stash=1.05". */
static sl_err parse_staleness(struct sl_arena *arena, const char *item, size_t length,
                              struct sl_staleness_cost *out) {
    size_t name = strcspn(item, "=");
    if (name >= length)
        return sl_fail(SL_ERR_USAGE, "`staleness_cost`: '%s' is not 2bw=1.2,stash=1.05", item);
    const char *number = sl_arena_dup(arena, item + name + 1, length - name - 1);
    out->schedule = sl_arena_dup(arena, item, name);
    SL_TRY(sl_parse_double(number, "`staleness_cost`", &out->tokens));
    const struct sl_schedule *row = sl_schedules_row_find(out->schedule);
    if (!row || row->rule == SL_RULE_SYNC || row->rule == SL_RULE_FORWARD)
        return sl_fail(SL_ERR_USAGE,
                       "`staleness_cost`: '%s' is not a schedule with stale weights; see "
                       "'sluice list schedules'",
                       out->schedule);
    if (!(out->tokens >= 1 && out->tokens <= 1000))
        return sl_fail(SL_ERR_USAGE, "`staleness_cost`: %s=%s is not in 1..1000 times the tokens",
                       out->schedule, number);
    return SL_OK;
}

static sl_err read_staleness(struct sl_job_planning *p, const char *text) {
    enum { MAX = 16 };
    struct sl_staleness_cost *at = SL_NEW(p->arena, struct sl_staleness_cost, MAX);
    for (; *text; p->staleness_count++) {
        size_t length = strcspn(text, ",");
        if (p->staleness_count == MAX)
            return sl_fail(SL_ERR_USAGE, "`staleness_cost`: more than %d schedules", MAX);
        SL_TRY(parse_staleness(p->arena, text, length, &at[p->staleness_count]));
        text += length + (text[length] == ',');
    }
    p->staleness = at;
    return SL_OK;
}

/* Returns the schedules to try: the synchronous ones and those with a staleness cost; NULL: only
 * the synchronous ones. */
static const char *const *schedules_to_try(const struct sl_job_planning *p) {
    const char *one[SL_QUERY_SCHEDULES];
    int count = 0;
    const char *const *sync = sl_search_query_schedules(&(struct sl_search_query){0}, one);
    if (!p->staleness_count)
        return NULL;
    while (sync[count])
        count++;
    const char **all = SL_NEW(p->arena, const char *, count + p->staleness_count + 1);
    memcpy(all, sync, sizeof *all * (size_t)count);
    for (int i = 0; i < p->staleness_count; i++)
        all[count + i] = p->staleness[i].schedule;
    return all;
}

static sl_err check_numbers(const struct sl_job_plan_request *r) {
    int64_t batch = r->batch ? r->batch : SL_JOB_BATCH;
    if (batch < 1 || batch > 1 << 30)
        return sl_fail(SL_ERR_USAGE, "`batch`: %lld is not in 1..%d", (long long)batch, 1 << 30);
    if (r->micros < 0 || r->micros > batch)
        return sl_fail(SL_ERR_USAGE, "`micro`: %lld micro-batches of a batch of %lld samples",
                       (long long)r->micros, (long long)batch);
    if (r->micro_size < 0 || r->micro_size > batch)
        return sl_fail(SL_ERR_USAGE, "`micro_batch`: %lld samples of a batch of %lld",
                       (long long)r->micro_size, (long long)batch);
    if (r->dp < 0 || r->dp > SL_DEVICE_MAX || r->pp < 0 || r->pp > SL_DEVICE_MAX)
        return sl_fail(SL_ERR_USAGE, "`dp`, `pp`: a degree is not in 1..%d", SL_DEVICE_MAX);
    if (r->tp < SL_JOB_TP_SEARCH || r->tp > SL_SHARD_MAX)
        return sl_fail(SL_ERR_USAGE, "`tp`: %lld shards is not in 1..%d", (long long)r->tp,
                       SL_SHARD_MAX);
    if (r->memory_bytes < 0)
        return sl_fail(SL_ERR_USAGE, "`memory`: %lld bytes: a size is 0 or more",
                       (long long)r->memory_bytes);
    return SL_OK;
}

/* Makes the graph of one shard and the machine of teams. */
static sl_err divide(struct sl_job_planning *p, struct sl_problem_spec *spec,
                     struct sl_problem_shards *out) {
    *out = (struct sl_problem_shards){.count = (int)p->request->tp, .whole = spec->graph};
    SL_TRY(sl_cost_machine_teams(p->arena, p->machine, out->count, &p->machine, &out->link));
    /* in fp32 the plan will run here, so embedding and head are on every shard */
    SL_TRY(sl_shard_alone(p->arena, spec->graph, out->count, !spec->precision->exact_bytes,
                          &p->shard, &out->whole_of));
    spec->machine = p->machine;
    spec->graph = p->shard;
    spec->shards = out;
    return SL_OK;
}

static sl_err build_problem(struct sl_job_planning *p) {
    struct sl_problem_shards shards;
    const struct sl_job_plan_request *r = p->request;
    const char *dtype = SL_JOB_OR(r->dtype, SL_JOB_DTYPE);
    struct sl_problem_spec spec = {.graph = r->graph,
                                   .has_kernel = p->device->has_kernel,
                                   .machine = p->machine,
                                   .cost = p->cost,
                                   .optim = p->optim,
                                   .batch = r->batch ? r->batch : SL_JOB_BATCH,
                                   .sizes = r->sizes,
                                   .size_count = r->size_count,
                                   .memory = r->memory_bytes,
                                   .zero1 = r->zero1,
                                   .straight = r->straight,
                                   .uniform = r->uniform,
                                   .whole_layers = r->whole_layers};
    spec.precision = sl_search_precision_find(dtype);
    if (!spec.precision)
        return sl_fail(SL_ERR_USAGE, "`dtype`: '%s' is not fp32, fp16 or bf16", dtype);
    p->dtype = strcmp(dtype, "bf16") == 0   ? SL_BF16
               : strcmp(dtype, "fp16") == 0 ? SL_FP16
                                            : SL_FLOAT;
    SL_TRY(parse_recompute(SL_JOB_OR(r->recompute, "auto"), &spec.recompute));
    SL_TRY(read_staleness(p, SL_JOB_OR(r->staleness_cost, "")));
    spec.staleness = p->staleness;
    spec.staleness_count = p->staleness_count;
    if (r->micros)
        spec.micro_size = (spec.batch + r->micros - 1) / r->micros;
    if (r->micro_size)
        spec.micro_size = r->micro_size;
    if (r->tp > 1)
        SL_TRY(divide(p, &spec, &shards));
    return sl_search_problem_build(p->arena, &spec, &p->problem);
}

static int64_t deadline(double seconds) {
    return seconds > 0 ? sl_clock_ns() + (int64_t)(seconds * 1e9) : 0;
}

static sl_err build_spec(const struct sl_job_planning *p, struct sl_job_planned *out) {
    const struct sl_job_plan_request *r = p->request;
    const struct sl_schedule *row;
    bool automatic = !r->schedule || strcmp(r->schedule, "auto") == 0;
    out->spec = (struct sl_search_spec){.graph = p->shard ? p->shard : r->graph,
                                        .has_kernel = p->device->has_kernel,
                                        .extra_bytes = p->device->extra_bytes,
                                        .optim = p->optim,
                                        .threads = p->cost ? p->cost->threads : 1,
                                        .what_if = r->what_if};
    SL_TRY(sl_planners_find(SL_JOB_OR(r->planner, "sluice"), &out->spec.planner));
    if (!automatic)
        SL_TRY(sl_schedules_row_require(r->schedule, &row));
    if (!automatic && sl_search_schedule_shares(r->schedule) && !out->spec.planner->shares_workers)
        return sl_fail(SL_ERR_REFUSED,
                       "planner '%s' puts one stage on a worker, and %s needs several; leave out "
                       "`planner`",
                       out->spec.planner->name, r->schedule);
    out->spec.query = (struct sl_search_query){.problem = p->problem,
                                               .schedule = automatic ? NULL : r->schedule,
                                               .schedules = schedules_to_try(p),
                                               .threads = r->threads,
                                               .width = (int)r->dp,
                                               .workers = (int)r->pp,
                                               .until_ns = deadline(r->time_limit_s)};
    return SL_OK;
}

struct progress {
    const struct sl_job_plan_request *request;
    int64_t until_ns;
};

static void report_progress(void *ctx, const char *phase, const struct sl_search_result *so_far) {
    const struct progress *p = ctx;
    p->request->progress(p->request->progress_ctx, phase, so_far, p->until_ns);
}

static sl_err search(struct sl_arena *arena, const struct sl_job_plan_request *r,
                     struct sl_job_planned *out) {
    struct progress progress = {r, out->spec.query.until_ns};
    if (r->progress) {
        out->spec.query.progress = report_progress;
        out->spec.query.progress_ctx = &progress;
    }
    SL_TRY(sl_search_run(arena, &out->spec, &out->search));
    out->spec.query.progress = NULL; /* the context of the callback ends with this function */
    out->spec.query.progress_ctx = NULL;
    return SL_OK;
}

sl_err sl_job_planning_open(struct sl_arena *arena, const struct sl_job_plan_request *request,
                            struct sl_job_planning *out) {
    *out = (struct sl_job_planning){
        .arena = arena, .request = request, .optim = SL_NEW(arena, struct sl_optim, 1)};
    SL_TRY(check_numbers(request));
    SL_TRY(sl_optim_parse(SL_JOB_OR(request->optimizer, SL_JOB_OPTIMIZER), out->optim));
    SL_TRY(open_machine(out));
    return build_problem(out);
}

sl_err sl_job_plan(struct sl_arena *arena, const struct sl_job_plan_request *request,
                   struct sl_job_planned *out) {
    struct sl_job_planning p;
    *out = (struct sl_job_planned){0};
    sl_err err = sl_job_planning_open(arena, request, &p);
    out->shard = p.shard;
    if (err == SL_OK)
        err = build_spec(&p, out);
    if (err == SL_OK)
        err = search(arena, request, out);
    if (err != SL_OK)
        sl_job_planned_close(out);
    return err;
}

void sl_job_planned_close(struct sl_job_planned *planned) {
    sl_graph_close(planned->shard);
    planned->shard = NULL;
}
