/* Computes forecasts (forecast.h): a plan becomes a candidate for each of its micro-batch sizes. */
#include "search/forecast.h"

#include "base/sort.h"
#include "search/candidate.h"

#include <math.h>
#include <string.h>

/* Makes a machine with one device per seat of the plan, all equal, and the measured link between
 * any two. */
static sl_err open_machine(struct sl_arena *arena, const struct sl_forecast_spec *spec,
                           const struct sl_machine **out) {
    const struct sl_cost *cost = spec->cost;
    const struct sl_cost_device_kind kind = {.name = "worker",
                                             .memory_bytes = INT64_C(1) << 50,
                                             .stream = 1e10,
                                             .flops = {1e10},
                                             .efficiency = 1};
    const struct sl_link link = {.name = "between",
                                 .bandwidth =
                                     cost->link_bytes_per_s > 0 ? cost->link_bytes_per_s : 1e12,
                                 .latency_ns = cost->link_latency_ns,
                                 .sharing = SL_LINK_PAIR};
    const struct sl_host_part part = {.kind = 0, .count = spec->plan->seat_count};
    const struct sl_host host = {
        .name = "host", .count = 1, .link = 0, .parts = &part, .part_count = 1};
    const struct sl_machine draft = {.name = "measured",
                                     .brief = "",
                                     .kinds = &kind,
                                     .kind_count = 1,
                                     .links = &link,
                                     .link_count = 1,
                                     .hosts = &host,
                                     .host_count = 1};
    return sl_cost_machine_build(arena, &draft, out);
}

/* Fills the stage of each unit. */
static sl_err place_units(const struct sl_forecast_spec *spec, const struct sl_problem *problem,
                          int *stage_of) {
    for (int u = 0; u < problem->unit_count; u++) {
        const struct sl_unit *unit = &problem->units[u];
        stage_of[u] = spec->stage_of[unit->nodes[0]];
        for (int i = 1; i < unit->node_count; i++)
            if (spec->stage_of[unit->nodes[i]] != stage_of[u])
                return sl_fail(SL_ERR_REFUSED,
                               "no forecast: unit %s was measured as a whole, and the plan cuts it "
                               "between %s and %s",
                               unit->name, spec->plan->stages[stage_of[u]].name,
                               spec->plan->stages[spec->stage_of[unit->nodes[i]]].name);
    }
    return SL_OK;
}

/* Computes the durations of all stages for one micro-batch size. */
static sl_err times_at(struct sl_arena *arena, const struct sl_forecast_spec *spec,
                       const struct sl_machine *machine, int64_t size,
                       int64_t (*out)[SL_KIND_COUNT]) {
    const struct sl_problem_spec ask = {.graph = spec->graph,
                                        .has_kernel = spec->has_kernel,
                                        .machine = machine,
                                        .cost = spec->cost,
                                        .optim = spec->optim,
                                        .precision = spec->precision,
                                        .batch = spec->batch,
                                        .micro_size = size};
    const struct sl_plan *plan = spec->plan;
    const struct sl_problem *problem;
    struct sl_candidate_detail detail = {0};
    SL_TRY(sl_search_problem_build(arena, &ask, &problem));
    int *stage_of = SL_NEW(arena, int, problem->unit_count), *width;
    bool *recompute = SL_NEW(arena, bool, plan->stage_count);
    SL_TRY(place_units(spec, problem, stage_of));
    width = SL_NEW(arena, int, plan->stage_count);
    for (int s = 0; s < plan->stage_count; s++) {
        width[s] = plan->stages[s].width;
        recompute[s] = plan->stages[s].recompute;
    }
    const struct sl_candidate candidate = {.stage_count = plan->stage_count,
                                           .stage_of = stage_of,
                                           .width = width,
                                           .recompute = recompute,
                                           .schedule = spec->schedule};
    sl_search_candidate_expand(arena, problem, &candidate, &detail);
    sl_search_candidate_times(&detail, out);
    return SL_OK;
}

sl_err sl_search_forecast_times(struct sl_arena *arena, const struct sl_forecast_spec *spec,
                                int64_t (*out)[SL_KIND_COUNT]) {
    const struct sl_plan *plan = spec->plan;
    const struct sl_machine *machine;
    bool *done = SL_NEW(arena, bool, plan->stage_count);
    int64_t(*at)[SL_KIND_COUNT] = sl_arena_alloc(arena, (int64_t)sizeof *at * plan->stage_count);
    SL_TRY(open_machine(arena, spec, &machine));
    for (int s = 0; s < plan->stage_count; s++) {
        if (done[s])
            continue;
        SL_TRY(times_at(arena, spec, machine, plan->stages[s].micro_size, at));
        for (int t = s; t < plan->stage_count; t++)
            if (plan->stages[t].micro_size == plan->stages[s].micro_size) {
                memcpy(out[t], at[t], sizeof out[t]);
                done[t] = true;
            }
    }
    return SL_OK;
}

/* ---- a step ---- */

/* Largest number of simulations of one plan, and of actions in all of them. */
enum { SIMS_MAX = 33, ACTIONS_MAX = 1 << 20 };

static int64_t median(int64_t *at, int count) {
    sl_sort_ints(at, count);
    return at[count / 2];
}

/* Used for asynchronous schedules: a short step often follows a long one, so their median is not
 * stable. */
static int64_t mean(const int64_t *at, int count) {
    int64_t sum = 0;
    for (int i = 0; i < count; i++)
        sum += at[i];
    return sum / count;
}

sl_err sl_search_forecast_step(const struct sl_sched *sched, const struct sl_sim_opts *opts,
                               const struct sl_tempo *tempo, const int64_t (*dur)[SL_KIND_COUNT],
                               int64_t *out) {
    int64_t steps[SIMS_MAX];
    int64_t room = 1 + ACTIONS_MAX / (sl_sched_action_count(sched) + 1);
    int max = room < SIMS_MAX ? (int)room : SIMS_MAX;
    int sims = tempo->passes < max ? tempo->passes : max;
    struct sl_sim_opts from = *opts;
    from.tempo = *tempo;
    for (int i = 0; i < sims; i++) {
        struct sl_arena arena = {0};
        const struct sl_sim *sim;
        from.first_pass = (int64_t)i * tempo->passes / sims;
        sl_err err = sl_sim_run(&arena, sched, &from, &sim);
        if (err == SL_OK)
            steps[i] = sl_search_step_ns(sched, sim, dur);
        sl_arena_free(&arena);
        SL_TRY(err);
    }
    *out = sched->rule == SL_RULE_SYNC ? median(steps, sims) : mean(steps, sims);
    return SL_OK;
}

/* ---- interval ---- */

/* With one profile for each, 90 % of single runs are this close to their forecast. */
static const double model_error = 0.15;
static const double from_spread =
    0.64; /* p90 - p10 times this is half of p95 - p5, if the distribution is normal */

/* Returns the mean of (p90 - p10) / median of the table's rows, weighted by their time. */
static double spread_of(const struct sl_cost *cost) {
    double sum = 0, all = 0;
    for (int i = 0; i < cost->row_count; i++) {
        const struct sl_cost_row *row = &cost->rows[i];
        double ns = (double)row->f + (double)row->i + (double)row->w;
        sum += ns * row->spread;
        all += ns;
    }
    return all > 0 ? sum / all : 0;
}

struct sl_forecast_interval sl_search_forecast_interval(const struct sl_cost *cost, int64_t step_ns,
                                                        int64_t shared_ns) {
    double spread = from_spread * spread_of(cost);
    double model = log(1 + model_error), width = exp(sqrt(model * model + spread * spread));
    double top = (double)(shared_ns > step_ns ? shared_ns : step_ns) * width;
    return (struct sl_forecast_interval){.low_ns = (int64_t)llround((double)step_ns / width),
                                         .high_ns = top < 9e18 ? (int64_t)llround(top) : INT64_MAX};
}
