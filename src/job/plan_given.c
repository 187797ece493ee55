/* Searches a cut for a given schedule: balances by time, then climbs by simulation. */
#include "job/plan_given.h"

#include "base/clock.h"
#include "base/vec.h"
#include "job/defaults.h"
#include "job/planning.h"
#include "job/schedule.h"
#include "lower/lower.h"
#include "plan/model.h"
#include "search/candidate.h"
#include "search/forecast.h"

#include <stdlib.h>
#include <string.h>

enum { TRIES_MAX = 400 };

struct cut {
    const int *ends;    /* [stage] position after its last unit */
    int64_t step_ns;    /* simulated step */
    int64_t over_bytes; /* bytes that the fullest worker lacks; <= 0: it fits */
    int over_worker;
};

struct search {
    struct sl_arena *arena; /* arena of the results */
    const struct sl_job_plan_request *request;
    struct sl_job_planning planning;
    const struct sl_schedule *row;
    const struct sl_sched *given;
    const struct sl_problem *problem;
    struct sl_candidate_detail route; /* has the device of each worker, for the links */
    int *order;                       /* [units] topological order */
    const int *size_of;               /* [stage] index into the sizes of the problem */
    int64_t until_ns;
    int tried;
};

static int stages_of(const struct search *s) { return s->given->plan->stage_count; }

/* ---- one cut: plan, schedule, simulation ---- */

static int kind_of(const struct search *s, int stage) {
    return s->problem->machine->kind_of[s->given->plan->stages[stage].workers[0]];
}

static const struct sl_unit_time *time_of(const struct search *s, int stage, int unit) {
    return &sl_search_problem_times(s->problem, s->size_of[stage], kind_of(s, stage))[unit];
}

static void assign(const struct search *s, const int *ends, int *stage_of) {
    for (int stage = 0, i = 0; stage < stages_of(s); stage++)
        for (; i < ends[stage]; i++) {
            const struct sl_unit *unit = &s->problem->units[s->order[i]];
            for (int n = 0; n < unit->node_count; n++)
                stage_of[unit->nodes[n]] = stage;
        }
}

static sl_err build_plan(struct search *s, struct sl_arena *arena, const int *ends,
                         const struct sl_plan **out) {
    const struct sl_plan *given = s->given->plan;
    const struct sl_problem *p = s->problem;
    int *stage_of = SL_NEW(arena, int, s->request->graph->forward_count + 1);
    int *widths = SL_NEW(arena, int, given->stage_count);
    const int **workers = SL_NEW(arena, const int *, given->stage_count);
    int64_t *sizes = SL_NEW(arena, int64_t, given->stage_count);
    int64_t *memory = SL_NEW(arena, int64_t, given->worker_count);
    const char *recompute = s->request->recompute;
    for (int i = 0; i < given->stage_count; i++) {
        widths[i] = given->stages[i].width;
        workers[i] = given->stages[i].workers;
        sizes[i] = p->sizes[s->size_of[i]];
    }
    assign(s, ends, stage_of);
    struct sl_model_plan_spec spec = {
        .graph = s->request->graph,
        .stage_of = stage_of,
        .stage_count = given->stage_count,
        .micro_of = sizes,
        .split = s->row->splits_backward,
        .recompute = recompute && strcmp(recompute, "all") == 0,
        .optim = s->planning.optim,
        .worker_count = given->worker_count,
        .width_of = widths,
        .workers_of = workers,
        .has_kernel = s->planning.device->has_kernel,
        .extra_bytes = s->planning.device->extra_bytes,
        .threads = s->planning.cost ? s->planning.cost->threads : 1,
        .dtype = s->planning.dtype,
    };
    SL_TRY(sl_plan_from_model(arena, &spec, out));
    struct sl_plan draft = **out;
    struct sl_stage *stages = sl_vec_freeze(arena, draft.stages, draft.stage_count, sizeof *stages);
    for (int stage = 0, i = 0; stage < draft.stage_count; stage++) {
        int64_t f = 0, in = 0, w = 0, step = 0;
        for (; i < ends[stage]; i++) {
            const struct sl_unit_time *t = time_of(s, stage, s->order[i]);
            f += t->f;
            in += t->i;
            w += t->w;
            step += t->step;
        }
        stages[stage].times = (struct sl_stage_times){.f = f + p->action_ns,
                                                      .b = in + w + p->action_ns,
                                                      .i = in + p->action_ns,
                                                      .w = w + p->action_ns,
                                                      .recompute = sl_search_recompute_ns(p, f),
                                                      .step = step};
    }
    for (int w = 0; w < draft.worker_count; w++)
        memory[w] = p->memory ? p->memory[w] : 0;
    draft.stages = stages;
    draft.memory_bytes = memory;
    draft.schedule = s->request->schedule;
    draft.batch = p->batch;
    return sl_plan_build(arena, &draft, out);
}

static sl_err build_sched(const struct search *s, struct sl_arena *arena,
                          const struct sl_plan *plan, const struct sl_sched **out) {
    struct sl_schedule_opts opts = {.row = s->row,
                                    .batch = s->problem->batch,
                                    .slack = s->given->slack,
                                    .policy = s->given->policy.row ? &s->given->policy : NULL,
                                    .global_step = s->given->global_step,
                                    .iters = s->row->rule == SL_RULE_SYNC ? 1 : s->given->iters};
    struct sl_sched *passes, *lowered;
    SL_TRY(sl_schedules_generate(arena, plan, &opts, &passes));
    SL_TRY(sl_schedules_given_explain(s->row, plan, sl_lower_passes(arena, passes, &lowered)));
    *out = lowered; /* not verified yet, because it may need more memory than there is */
    return SL_OK;
}

static void judge_memory(const struct sl_sched *sched, struct cut *cut) {
    cut->over_bytes = INT64_MIN;
    for (int w = 0; w < sched->plan->worker_count; w++) {
        int64_t limit = sched->plan->memory_bytes[w], bytes = sl_sched_worker_bytes(sched, w);
        int64_t over = limit ? bytes - limit : -1;
        if (over > cut->over_bytes) {
            cut->over_bytes = over;
            cut->over_worker = w;
        }
    }
}

static sl_err play(struct search *s, struct sl_arena *arena, struct cut *cut,
                   const struct sl_sched **sched, const struct sl_sim **sim) {
    const struct sl_plan *plan;
    struct sl_sim_opts opts = {.net = {sl_search_candidate_route, &s->route, true},
                               .cold = s->problem->cold};
    s->tried++;
    SL_TRY(build_plan(s, arena, cut->ends, &plan));
    SL_TRY(build_sched(s, arena, plan, sched));
    judge_memory(*sched, cut);
    if (cut->over_bytes <= 0)
        SL_TRY(sl_sched_verify(*sched));
    SL_TRY(sl_sim_run(arena, *sched, &opts, sim));
    cut->step_ns = sl_search_step_ns(*sched, *sim, (*sched)->dur_ns);
    return SL_OK;
}

/* ---- the search ---- */

static bool is_better(const struct cut *a, const struct cut *b) {
    bool fits = a->over_bytes <= 0, other = b->over_bytes <= 0;
    if (fits != other)
        return fits;
    return fits ? a->step_ns < b->step_ns : a->over_bytes < b->over_bytes;
}

/* Makes stages of nearly equal time; each has at least one unit. */
static void balance(const struct search *s, int *ends) {
    int units = s->problem->unit_count, stages = stages_of(s), at = 0;
    int64_t left = 0, sum = 0;
    for (int i = 0; i < units; i++) {
        const struct sl_unit_time *t = time_of(s, 0, i);
        left += t->f + t->i + t->w;
    }
    for (int stage = 0; stage < stages; stage++) {
        int last = units - (stages - 1 - stage);
        for (sum = 0; at < last; at++) {
            const struct sl_unit_time *t = time_of(s, 0, s->order[at]);
            int64_t own = t->f + t->i + t->w, share = left / (stages - stage);
            if (sum && stage + 1 < stages && sum + own / 2 > share)
                break;
            sum += own;
        }
        left -= sum;
        ends[stage] = at;
    }
    ends[stages - 1] = units;
}

static bool is_over(const struct search *s) {
    return s->tried >= TRIES_MAX || sl_clock_past(s->until_ns);
}

/* Moves one border; *best becomes the result if that is better. */
static sl_err try_move(struct search *s, int border, int by, struct cut *best, bool *moved) {
    int *ends = sl_vec_freeze(s->arena, best->ends, stages_of(s), sizeof *ends);
    struct sl_arena scratch = {0};
    struct cut cut = {.ends = ends};
    const struct sl_sched *sched;
    const struct sl_sim *sim;
    ends[border] += by;
    if (ends[border] <= (border ? ends[border - 1] : 0) || ends[border] >= ends[border + 1])
        return SL_OK;
    sl_err err = play(s, &scratch, &cut, &sched, &sim);
    sl_arena_free(&scratch);
    if (err == SL_OK && is_better(&cut, best)) {
        *best = cut;
        *moved = true;
    }
    return err == SL_ERR_REFUSED ? SL_OK : err;
}

static sl_err climb(struct search *s, struct cut *best) {
    for (int by = 4; by >= 1 && !is_over(s);) {
        bool moved = false;
        for (int border = 0; border + 1 < stages_of(s) && !is_over(s); border++) {
            SL_TRY(try_move(s, border, by, best, &moved));
            if (!is_over(s))
                SL_TRY(try_move(s, border, -by, best, &moved));
        }
        if (!moved)
            by /= 2;
    }
    return SL_OK;
}

/* ---- the request ---- */

static sl_err check_shape(const struct search *s) {
    const struct sl_plan *given = s->given->plan;
    if (given->worker_count > s->problem->machine->device_count)
        return sl_fail(SL_ERR_REFUSED, "schedule '%s' has %d workers, the machine %d devices",
                       s->given->name, given->worker_count, s->problem->machine->device_count);
    if (given->stage_count > s->problem->unit_count)
        return sl_fail(SL_ERR_REFUSED,
                       "schedule '%s' has %d stages, the model %d parts that can be cut",
                       s->given->name, given->stage_count, s->problem->unit_count);
    return SL_OK;
}

/* Adapts the batch of the request. With several micro-batch sizes it becomes a multiple of the
 * file's batch, and the sizes grow with it; else a multiple of the micro-batches. */
static sl_err fit_request(const struct sl_sched *given, struct sl_job_plan_request *r) {
    bool sizes = sl_schedules_given_has_sizes(given);
    int64_t micros = 1, unit;
    for (int i = 0; i < given->plan->stage_count; i++)
        micros = given->micros[i] > micros ? given->micros[i] : micros;
    unit = sizes ? given->batch : micros;
    SL_ASSERT(unit > 0);
    if (r->micros && r->micros != micros)
        return sl_fail(SL_ERR_USAGE, "`micro`: schedule '%s' has %s%lld micro-batches, found %lld",
                       given->name, sizes ? "up to " : "", (long long)micros, (long long)r->micros);
    if (r->batch && r->batch % unit)
        return sl_fail(SL_ERR_USAGE,
                       "`batch`: schedule '%s' has %s%lld %s, and %lld is no multiple of it",
                       given->name, sizes ? "several micro-batch sizes for " : "", (long long)unit,
                       sizes ? "samples" : "micro-batches", (long long)r->batch);
    if (!r->batch)
        r->batch = unit * ((SL_JOB_BATCH + unit - 1) / unit);
    r->micros = micros;
    return SL_OK;
}

/* Lists the micro-batch sizes of the stages, each once. */
static void fit_sizes(struct search *s, struct sl_job_plan_request *r) {
    const struct sl_plan *given = s->given->plan;
    int64_t *sizes = SL_NEW(s->arena, int64_t, given->stage_count);
    int *size_of = SL_NEW(s->arena, int, given->stage_count), count = 0;
    bool several = sl_schedules_given_has_sizes(s->given);
    for (int i = 0; i < given->stage_count; i++) {
        int64_t size = several ? given->stages[i].micro_size * (r->batch / s->given->batch)
                               : r->batch / r->micros;
        for (size_of[i] = 0; size_of[i] < count && sizes[size_of[i]] != size;)
            size_of[i]++;
        if (size_of[i] == count)
            sizes[count++] = size;
    }
    s->size_of = size_of;
    r->sizes = sizes;
    r->size_count = count;
}

static sl_err open_search(struct search *s, struct sl_job_plan_request *request) {
    SL_TRY(sl_job_schedule_open(s->arena, request->schedule, NULL, &s->row));
    s->given = sl_schedules_given_passes(s->row);
    SL_ASSERT(s->given);
    SL_TRY(fit_request(s->given, request));
    fit_sizes(s, request);
    if (request->tp > 1 || request->zero1)
        return sl_fail(SL_ERR_REFUSED, "`tp`, `zero1`: plan for a schedule from 'sluice list "
                                       "schedules', not from a file");
    SL_TRY(sl_job_planning_open(s->arena, request, &s->planning));
    s->problem = s->planning.problem;
    SL_TRY(check_shape(s));
    s->order = SL_NEW(s->arena, int, s->problem->unit_count + 1);
    SL_ASSERT(sl_graph_dag_order(s->arena, &s->problem->dag, s->order));
    int *device_of = SL_NEW(s->arena, int, s->given->plan->worker_count);
    for (int w = 0; w < s->given->plan->worker_count; w++)
        device_of[w] = w;
    s->route = (struct sl_candidate_detail){.problem = s->problem, .device_of = device_of};
    s->until_ns =
        request->time_limit_s > 0 ? sl_clock_ns() + (int64_t)(request->time_limit_s * 1e9) : 0;
    return SL_OK;
}

sl_err sl_job_plan_given(struct sl_arena *arena, const struct sl_job_plan_request *request,
                         struct sl_job_planned_given *out) {
    struct sl_job_plan_request own = *request;
    struct search s = {.arena = arena, .request = &own};
    const struct sl_sched *sched;
    const struct sl_sim *sim;
    SL_TRY(open_search(&s, &own));
    int *ends = SL_NEW(arena, int, stages_of(&s));
    balance(&s, ends);
    struct cut best = {.ends = ends};
    SL_TRY(play(&s, arena, &best, &sched, &sim));
    SL_TRY(climb(&s, &best));
    if (best.over_bytes > 0)
        return sl_fail(SL_ERR_REFUSED,
                       "no cut for schedule '%s' fits: worker %d lacks %lld bytes in the best of "
                       "%d; try `recompute` all or a smaller `batch`",
                       s.given->name, best.over_worker, (long long)best.over_bytes, s.tried);
    SL_TRY(play(&s, arena, &best, &sched, &sim));
    *out = (struct sl_job_planned_given){
        .plan = sched->plan, .sim = {.sched = sched, .sim = sim}, .tried = s.tried - 1};
    return SL_OK;
}
