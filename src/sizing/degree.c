/* Finds the degree of tensor parallelism of a planning request. Plans equal pipelines for every
 * degree within a host, with and without divided optimizer state; the best degree gets the whole
 * search.
 *
 * A model that fits on one device with its optimizer state keeps one shard: replicas then need
 * no collectives inside passes. */
#include "sizing/degree.h"

#include "job/defaults.h"
#include "job/planning.h"
#include "planners/registry.h"
#include "search/pool.h"

#include <string.h>

struct result {
    int64_t tp;
    bool zero1, large;
    int64_t step_ns, over_bytes; /* INT64_MAX: no plan fits */
    int stages;
};

struct scan {
    const struct sl_job_plan_request *request;
    const struct sl_planner *row;
    struct result best;
    bool any;
};

/* Returns the bytes of all weights, gradients and optimizer state. */
static int64_t model_bytes(const struct sl_problem *p) {
    int64_t sum = 0;
    for (int u = 0; u < p->unit_count; u++)
        sum += p->units[u].params + p->units[u].grads + p->units[u].state;
    return sum;
}

static bool fits_alone(const struct sl_problem *p) {
    for (int d = 0; d < p->machine->device_count; d++)
        if (!p->memory[d] || model_bytes(p) < p->memory[d])
            return true;
    return false;
}

/* Returns the number of devices of one kind in the smallest host: a team must fit in every host. */
static int host_devices(const struct sl_machine *m) {
    int least = INT32_MAX;
    for (int h = 0; h < m->host_count; h++) {
        int most = 0;
        for (int i = 0; i < m->hosts[h].part_count; i++)
            most = m->hosts[h].parts[i].count > most ? m->hosts[h].parts[i].count : most;
        least = most < least ? most : least;
    }
    return least;
}

/* Would the whole search take minutes? Then equal pipelines are the result. */
static bool is_large(const struct sl_problem *p) {
    enum { LARGE = 1 << 15 };
    return (int64_t)p->unit_count * p->machine->device_count > LARGE;
}

/* Finds the best plan of one planner for one degree; SL_ERR_REFUSED: there is none. */
static sl_err search(const struct scan *s, const struct sl_planner *row, struct sl_arena *arena,
                     const struct sl_job_planning *p, bool zero1, struct result *out) {
    struct sl_problem *problem = SL_NEW(arena, struct sl_problem, 1);
    struct sl_search_query query = {.problem = problem,
                                    .threads = s->request->threads,
                                    .width = (int)s->request->dp,
                                    .workers = (int)s->request->pp};
    struct sl_search_result found = {0};
    *problem = *p->problem;
    problem->zero1 = zero1;
    if (s->request->schedule && strcmp(s->request->schedule, "auto") != 0)
        query.schedule = s->request->schedule;
    SL_TRY(row->run(arena, &query, &found));
    const struct sl_candidate_score *score = found.found ? &found.best.score : &found.nearest.score;
    bool any = found.found || found.nearest_found;
    *out = (struct result){.zero1 = zero1,
                           .step_ns = found.found ? score->step_ns : INT64_MAX,
                           .over_bytes = any ? score->over_bytes : INT64_MAX,
                           .stages = found.found ? found.best.c.stage_count : 0};
    return SL_OK;
}

/* Is plan a much simpler and hardly slower? On large machines only a few plans are simulated, and
 * estimates are not exact; so half as many stages are worth a tenth of the step. */
static bool is_simpler(const struct result *a, const struct result *b) {
    return a->large && 2 * a->stages <= b->stages && a->step_ns < INT64_MAX &&
           (double)a->step_ns < 1.1 * (double)b->step_ns;
}

static bool is_better(const struct result *a, const struct result *b) {
    if (is_simpler(a, b) || is_simpler(b, a))
        return is_simpler(a, b);
    return a->step_ns != b->step_ns ? a->step_ns < b->step_ns : a->over_bytes < b->over_bytes;
}

/* Equal pipelines with and without divided optimizer state; the better of them with the row's own search.
 * Where that would take minutes: equal pipelines of whole layers, with divided state. */
static sl_err try_open(struct scan *s, struct sl_arena *arena, const struct sl_job_planning *p,
                       int64_t t, bool whole_layers) {
    struct result best, other;
    const struct sl_planner *equal = s->row->large ? s->row->large : s->row;
    bool large = is_large(p->problem) || whole_layers > s->request->whole_layers;
    bool whole = s->request->no_zero1;
    SL_TRY(search(s, equal, arena, p, s->request->zero1 || (large && !whole), &best));
    if (!s->request->zero1 && !large && !whole) {
        SL_TRY(search(s, equal, arena, p, true, &other));
        best = is_better(&other, &best) ? other : best;
    }
    if (!large && s->row != equal) {
        SL_TRY(search(s, s->row, arena, p, best.zero1, &other));
        best = is_better(&other, &best) ? other : best;
    }
    best.tp = t;
    best.large = large;
    if (!s->any || is_better(&best, &s->best))
        s->best = best;
    s->any = true;
    return SL_OK;
}

/* Tries a degree. SL_ERR_REFUSED: the model or the machine cannot be divided by it. */
static sl_err try_degree(struct scan *s, int64_t t) {
    struct sl_arena arena = {0};
    struct sl_job_planning p = {0};
    struct sl_job_plan_request request = *s->request;
    request.tp = t;
    sl_err err = sl_job_planning_open(&arena, &request, &p);
    if (err == SL_OK && is_large(p.problem) && s->row->large && !request.whole_layers) {
        request.whole_layers = true;
        sl_graph_close(p.shard);
        err = sl_job_planning_open(&arena, &request, &p);
    }
    if (err == SL_OK)
        err = try_open(s, &arena, &p, t, request.whole_layers);
    sl_graph_close(p.shard);
    sl_arena_free(&arena);
    return err;
}

/* Finds the number of devices in a host, and whether the model fits on one device. */
static sl_err look(const struct sl_job_plan_request *request, int *devices, bool *alone) {
    struct sl_arena arena = {0};
    struct sl_job_planning p = {0};
    struct sl_job_plan_request whole = *request;
    whole.tp = 1;
    sl_err err = sl_job_planning_open(&arena, &whole, &p);
    if (err == SL_OK) {
        *devices = host_devices(p.machine);
        *alone = fits_alone(p.problem);
    }
    sl_graph_close(p.shard);
    sl_arena_free(&arena);
    return err;
}

/* Chooses the largest degree that divides the hosts and the model. */
static sl_err fill_host(struct sl_job_plan_request *request, int devices) {
    for (int t = devices; t > 1; t--) {
        struct sl_arena arena = {0};
        struct sl_job_planning p = {0};
        request->tp = t;
        sl_err err = devices % t ? SL_ERR_REFUSED : sl_job_planning_open(&arena, request, &p);
        sl_graph_close(p.shard);
        sl_arena_free(&arena);
        if (err != SL_ERR_REFUSED)
            return err;
    }
    request->tp = 1;
    return SL_OK;
}

static sl_err scan(const struct sl_planner *row, int devices, struct sl_job_plan_request *request) {
    const struct sl_job_plan_request given = *request;
    struct scan s = {.request = &given, .row = row};
    for (int t = 1; t <= devices; t++) {
        sl_err err = devices % t ? SL_OK : try_degree(&s, t);
        if (err != SL_OK && err != SL_ERR_REFUSED)
            return err;
    }
    /* takes one shard: its message says what is missing */
    if (!s.any || s.best.step_ns == INT64_MAX)
        return SL_OK;
    request->tp = s.best.tp;
    request->zero1 = s.best.zero1;
    if (s.best.large && row->large) {
        request->planner = row->large->name;
        request->whole_layers = true;
    }
    return SL_OK;
}

static sl_err choose(struct sl_job_plan_request *request) {
    const struct sl_planner *row;
    int devices = 1;
    bool alone = true;
    SL_TRY(sl_planners_find(SL_JOB_OR(request->planner, "sluice"), &row));
    if (request->tp > 0 || row->teams == SL_TEAMS_NONE || request->cost_file)
        return SL_OK;
    SL_TRY(look(request, &devices, &alone));
    if (row->teams == SL_TEAMS_HOST)
        return fill_host(request, devices);
    if (alone && request->tp != SL_JOB_TP_SEARCH)
        return SL_OK;
    return scan(row, devices, request);
}

/* Plans with the best degree, which is chosen by estimated bytes. If its plan does not fit with
 * exact bytes, tries one shard. */
sl_err sl_sizing_plan(struct sl_arena *arena, const struct sl_job_plan_request *request,
                      struct sl_job_planned *out) {
    struct sl_job_plan_request own = *request;
    SL_TRY(choose(&own));
    sl_err err = sl_job_plan(arena, &own, out);
    if (err != SL_ERR_REFUSED || request->tp > 0 || own.tp <= 1)
        return err;
    own = *request;
    own.tp = 1;
    return sl_job_plan(arena, &own, out);
}
