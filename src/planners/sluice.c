/* sluice: adds the candidates of all other planners, and plans along the graph with replicas and
 * recomputation for every schedule and micro-batch size. Then it runs branch and bound on
 * simulated time. */
#include "planners/parts.h"
#include "planners/registry.h"
#include "search/bound.h"
#include "search/cuts.h"

#include "base/par.h"

/* ---- cuts of the graph: one search per schedule, size and recompute rule, in parallel ---- */

struct cut_job {
    const char *schedule;
    int size;
    enum sl_recompute recompute;
    struct sl_arena arena;
    struct sl_cut_found found;
};

struct cut_jobs {
    const struct sl_search_query *query;
    int64_t limit; /* the best step so far, in ns */
    const struct sl_search_downsets *downsets;
    struct cut_job *at;
};

static void search_one(void *ctx, int64_t i) {
    const struct cut_jobs *jobs = ctx;
    struct cut_job *job = &jobs->at[i];
    const struct sl_problem *p = jobs->query->problem;
    struct sl_cut_rules rules = {.recompute = job->recompute,
                                 .schedule = job->schedule,
                                 .size = job->size,
                                 .devices = p->machine->device_count,
                                 .labels = 32,
                                 .limit = jobs->limit,
                                 .memory_scale = sl_search_query_memory(jobs->query),
                                 .tolerance = jobs->downsets->ideals.count > 256 ? 2e-3 : 0};
    sl_search_cuts_search(&job->arena, p, jobs->downsets, &rules, jobs->query->until_ns,
                          &job->found);
}

/* Adds the candidate with both orders of workers (sl_candidate.across). */
static void add_both(struct sl_search_pool *pool, const struct sl_candidate *found) {
    struct sl_candidate c = *found;
    bool equal = c.stage_count > 1 && c.width[0] > 1;
    for (int s = 1; s < c.stage_count; s++)
        equal &= c.width[s] == c.width[0];
    sl_search_pool_add(pool, &c, "sluice");
    if (!equal || pool->query->problem->machine->kind_count > 1)
        return;
    c.across = true;
    c.order = NULL;
    sl_search_pool_add(pool, &c, "sluice");
}

static void add_own(struct sl_search_pool *pool, const struct sl_search_downsets *downsets) {
    const struct sl_problem *p = pool->query->problem;
    struct sl_arena arena = {0};
    const char *one[SL_QUERY_SCHEDULES];
    const char *const *schedules = sl_search_query_schedules(pool->query, one);
    int schedule_count = 0, count = 0;
    while (schedules[schedule_count])
        schedule_count++;
    struct cut_jobs jobs = {pool->query, pool->out->found ? pool->out->best.score.step_ns : 0,
                            downsets,
                            SL_NEW(&arena, struct cut_job, 2 * schedule_count * p->size_count)};
    for (int s = 0; s < schedule_count; s++)
        for (int size = 0; size < p->size_count; size++)
            for (int recompute = 0;
                 recompute < 2 && !sl_search_pool_cannot_win(pool, schedules[s], size); recompute++)
                jobs.at[count++] = (struct cut_job){.schedule = schedules[s],
                                                    .size = size,
                                                    .recompute = recompute ? SL_RECOMPUTE_ALWAYS
                                                                           : SL_RECOMPUTE_MAY};
    pool->out->tight_bytes = INT64_MAX;
    sl_search_pool_progress(pool, "cuts");
    sl_par_for(count, pool->query->threads, search_one, &jobs);
    for (int i = 0; i < count; i++) {
        struct sl_cut_found *found = &jobs.at[i].found;
        pool->out->pairs += found->pairs;
        pool->out->out_of_budget |= found->dropped;
        if (!found->at.count && found->tight_bytes < pool->out->tight_bytes) {
            pool->out->tight_unit = found->tight_unit;
            pool->out->tight_bytes = found->tight_bytes;
        }
        for (int64_t k = 0; k < found->at.count; k++)
            add_both(pool, &found->at.at[k]);
        SL_VEC_FREE(&found->at);
        sl_arena_free(&jobs.at[i].arena);
    }
    sl_arena_free(&arena);
}

/* Adds chains also with the true edges of the graph, which are never slower. */
static void add_true_edges(struct sl_search_pool *pool) {
    for (int64_t i = 0, count = pool->at.count; i < count; i++) {
        struct sl_candidate c = pool->at.at[i].c;
        if (!c.sequential)
            continue;
        c.sequential = false;
        sl_search_pool_add(pool, &c, pool->at.at[i].planner);
    }
}

static void simulate_cuts(struct sl_search_pool *pool) {
    add_true_edges(pool);
    sl_search_pool_simulate(pool);
}

/* Adds the candidates of the other planners, each with its own budget. */
static void simulate_others(struct sl_search_pool *pool) {
    sl_planners_add_even(pool);
    sl_search_pool_simulate(pool);
    sl_planners_add_2bw(pool);
    sl_search_pool_simulate(pool);
    sl_planners_add_hetpipe(pool);
    sl_search_pool_simulate(pool);
    sl_planners_add_cuts(pool, simulate_cuts);
}

/* Called if nothing was simulated: returns the reason why the schedule refuses the first
 * candidate. */
static sl_err why_refused(const struct sl_search_pool *pool) {
    struct sl_arena scratch = {0};
    struct sl_candidate_detail detail;
    struct sl_candidate_score score;
    if (pool->out->found || pool->out->nearest_found)
        return SL_OK;
    if (!pool->at.count)
        return sl_fail(SL_ERR_REFUSED,
                       "%s finds no layout: the model has %d units to cut, the machine %d devices, "
                       "and the batch of %lld fits no number of its micro-batches; try another "
                       "batch, or fewer devices",
                       pool->query->schedule, pool->query->problem->unit_count,
                       pool->query->problem->machine->device_count,
                       (long long)pool->query->problem->batch);
    sl_search_candidate_expand(&scratch, pool->query->problem, &pool->at.at[0].c, &detail);
    sl_err err = sl_search_candidate_simulate(&detail, NULL, &score);
    sl_arena_free(&scratch);
    return err;
}

/* Plans several stages per worker, which the cuts of the other planners do not have. */
static sl_err run_shared(struct sl_search_pool *pool) {
    struct sl_search_result *out = pool->out;
    sl_search_pool_progress(pool, "virtual stages");
    sl_planners_add_virtual(pool, sl_search_pool_simulate);
    sl_search_hill_climb(pool, "sluice");
    out->timed_out |= sl_search_query_timed_out(pool->query);
    const char *one[SL_QUERY_SCHEDULES];
    out->lower_bound = sl_search_space_bound(pool->query->problem,
                                             sl_search_query_schedules(pool->query, one), false);
    sl_err err = why_refused(pool);
    sl_search_pool_close(pool);
    return err;
}

/* Runs last, so that it can only add a second start for hill climbing. */
static void climb_from_graphpipe(struct sl_search_pool *pool) {
    int64_t before = pool->out->found ? pool->out->best.score.step_ns : INT64_MAX;
    sl_planners_add_dp(pool);
    sl_search_pool_simulate(pool);
    if (!pool->query->schedule) {
        sl_planners_add_model_parallel(pool);
        sl_search_pool_simulate(pool);
    }
    sl_search_pool_progress(pool, "graphpipe");
    sl_planners_add_graphpipe(pool);
    sl_search_pool_simulate(pool);
    if (pool->out->found && pool->out->best.score.step_ns < before)
        sl_search_hill_climb(pool, "sluice");
}

static sl_err run(struct sl_arena *arena, const struct sl_search_query *query,
                  struct sl_search_result *out) {
    const struct sl_problem *p = query->problem;
    struct sl_search_pool pool = {.arena = arena, .query = query, .out = out};
    struct sl_arena scratch = {0};
    struct sl_search_downsets downsets;
    if (query->schedule && sl_search_schedule_shares(query->schedule))
        return run_shared(&pool);
    int max = p->unit_count <= 64 ? 2048 : p->unit_count <= 256 ? 1024 : 0;
    sl_search_downsets_build(&scratch, p, max, &downsets);
    simulate_others(&pool);
    sl_search_pool_progress(&pool, "uniform pipelines");
    sl_planners_add_balanced(&pool);
    sl_planners_add_less_recompute(&pool);
    sl_search_pool_simulate(&pool);
    add_own(&pool, &downsets);
    sl_search_pool_simulate(&pool);
    sl_search_branch_and_bound(&pool, &downsets, "sluice");
    climb_from_graphpipe(&pool);
    out->timed_out |= sl_search_query_timed_out(query);
    out->proven &= out->found && !out->timed_out;
    const char *one[SL_QUERY_SCHEDULES];
    sl_search_pool_progress(&pool, "bound");
    out->lower_bound =
        sl_search_space_bound(p, sl_search_query_schedules(query, one),
                              sl_search_query_mixes_sizes(query) || sl_search_query_groups(query));
    out->proven &= !out->best.c.group_of;
    out->proven |= out->found && out->best.score.step_ns <= out->lower_bound;
    if (out->proven) {
        if (!sl_search_query_groups(query))
            out->lower_bound = out->best.score.step_ns;
        out->out_of_budget = false; /* the search is complete, so no better plan is missed */
    }
    sl_search_pool_close(&pool);
    sl_arena_free(&scratch);
    return SL_OK;
}

const struct sl_planner sl_planners_sluice = {
    .name = "sluice",
    .brief = "the default: graphs of stages, replicas, recomputation, simulated time",
    .plans_imported = true,
    .shares_workers = true,
    .covers = sl_planners_rows,
    .teams = SL_TEAMS_SEARCHED,
    .large = &sl_planners_balanced,
    .replays = 1 << 21,
    .run = run,
};
