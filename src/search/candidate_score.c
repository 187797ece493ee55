/* Turns a candidate into a plan, and scores it by its schedule and simulation. */
#include "search/candidate.h"

#include "base/vec.h"
#include "search/forecast.h"
#include "sim/sim.h"

#include <math.h>
#include <string.h>

/* ---- plan ---- */

static void fill_nodes(struct sl_arena *arena, const struct sl_candidate_detail *detail,
                       struct sl_stage *stages) {
    const struct sl_problem *p = detail->problem;
    int *stage_of = SL_NEW(arena, int, p->graph_nodes + 1);
    for (int u = 0; u < p->unit_count; u++)
        for (int i = 0; i < p->units[u].node_count; i++) {
            stage_of[p->units[u].nodes[i]] = detail->c.stage_of[u];
            stages[detail->c.stage_of[u]].node_count++;
        }
    for (int s = 0; s < detail->c.stage_count; s++) {
        stages[s].nodes = SL_NEW(arena, int, stages[s].node_count);
        stages[s].node_count = 0;
    }
    for (int n = 0; n < p->graph_nodes; n++) {
        struct sl_stage *stage = &stages[stage_of[n]];
        ((int *)(uintptr_t)stage->nodes)[stage->node_count++] = n;
    }
}

static void add_run(struct sl_stage *stage, struct sl_collective *at,
                    const struct sl_collective *c) {
    struct sl_collective *last = stage->collective_count ? &at[stage->collective_count - 1] : NULL;
    if (last && last->pass == c->pass && last->kind == c->kind &&
        last->sample_bytes == c->sample_bytes)
        last->count += c->count;
    else
        at[stage->collective_count++] = *c;
}

/* Lists the collectives of each stage: forward passes run those of its units in order, backward
 * passes in reverse order. */
static void fill_collectives(struct sl_arena *arena, const struct sl_candidate_detail *detail,
                             struct sl_stage *stages) {
    const struct sl_problem *p = detail->problem;
    int *room = SL_NEW(arena, int, detail->c.stage_count);
    for (int u = 0; u < p->unit_count; u++)
        room[detail->c.stage_of[u]] += p->units[u].collective_count;
    for (int s = 0; s < detail->c.stage_count; s++) {
        stages[s].shards = p->shards;
        stages[s].collectives = SL_NEW(arena, struct sl_collective, room[s]);
    }
    for (int pass = 0; pass < SL_COLLECTIVE_PASSES; pass++)
        for (int i = 0; i < p->unit_count; i++) {
            int u = pass == SL_COLLECTIVE_F ? i : p->unit_count - 1 - i;
            struct sl_stage *stage = &stages[detail->c.stage_of[u]];
            struct sl_collective *at = (struct sl_collective *)(uintptr_t)stage->collectives;
            for (int k = 0; k < p->units[u].collective_count; k++)
                if (p->units[u].collectives[k].pass == (enum sl_collective_pass)pass)
                    add_run(stage, at, &p->units[u].collectives[k]);
        }
}

/* Lists the ties whose units are in different stages. */
static void fill_ties(struct sl_arena *arena, const struct sl_candidate_detail *detail,
                      struct sl_plan *draft) {
    const struct sl_problem *p = detail->problem;
    struct sl_tie *ties = SL_NEW(arena, struct sl_tie, p->tie_count + 1);
    for (int t = 0; t < p->tie_count; t++) {
        bool *in = SL_NEW(arena, bool, detail->c.stage_count);
        int *stages = SL_NEW(arena, int, p->ties[t].count);
        struct sl_tie tie = {.name = p->ties[t].name, .bytes = p->ties[t].bytes, .stages = stages};
        for (int i = 0; i < p->ties[t].count; i++)
            in[detail->c.stage_of[p->ties[t].units[i]]] = true;
        for (int s = 0; s < detail->c.stage_count; s++)
            if (in[s])
                stages[tie.count++] = s;
        if (tie.count > 1)
            ties[draft->tie_count++] = tie;
    }
    draft->ties = ties;
}

/* Time that a worker needs to copy messages into or out of the transport's ring. */
static int64_t copy_ns(const struct sl_candidate_detail *detail, int stage) {
    double bytes = (double)(detail->stages[stage].in_bytes + detail->stages[stage].out_bytes) *
                   (double)detail->problem->sizes[sl_search_candidate_size(&detail->c, stage)];
    return detail->problem->copy_bytes_per_s > 0
               ? (int64_t)ceil(1e9 * bytes / detail->problem->copy_bytes_per_s)
               : 0;
}

/* Host time for the messages of a pass. */
static int64_t message_ns(const struct sl_candidate_detail *detail, int stage) {
    const struct sl_machine *m = detail->problem->machine;
    const struct sl_candidate_stage *s = &detail->stages[stage];
    int device = detail->device_of[detail->workers[stage][0]];
    bool talks = s->in_bytes > 0 || s->out_bytes > 0;
    return talks && detail->problem->estimated ? m->kinds[m->kind_of[device]].message_ns : 0;
}

void sl_search_candidate_times(const struct sl_candidate_detail *detail,
                               int64_t (*out)[SL_KIND_COUNT]) {
    for (int s = 0; s < detail->c.stage_count; s++) {
        const struct sl_candidate_stage *stage = &detail->stages[s];
        memset(out[s], 0, sizeof out[s]);
        int64_t extra = detail->problem->action_ns;
        int64_t copy = copy_ns(detail, s) + message_ns(detail, s);
        out[s][SL_FORWARD] = stage->f + extra + copy;
        out[s][SL_RECOMPUTE] = sl_search_recompute_ns(detail->problem, stage->f);
        out[s][SL_BACKWARD_INPUT] = stage->i + extra + copy;
        out[s][SL_BACKWARD_WEIGHT] = stage->w + extra;
        out[s][SL_BACKWARD] = stage->i + stage->w + extra + copy;
        out[s][SL_REDUCE] = /* every reduction counts an equal share */
            stage->meetings ? (stage->reduce + stage->meetings - 1) / stage->meetings : 0;
        out[s][SL_STEP] = stage->step;
    }
}

/* Writes the simulated durations into the plan, so that a run builds the same schedule. Writes none
 * if one of them is too large for a plan. */
static void fill_times(struct sl_arena *arena, const struct sl_candidate_detail *detail,
                       struct sl_stage *stages) {
    int64_t(*dur)[SL_KIND_COUNT] =
        sl_arena_alloc(arena, (int64_t)sizeof *dur * detail->c.stage_count);
    sl_search_candidate_times(detail, dur);
    for (int64_t i = 0; i < (int64_t)detail->c.stage_count * SL_KIND_COUNT; i++)
        if (dur[i / SL_KIND_COUNT][i % SL_KIND_COUNT] > SL_STAGE_NS_MAX)
            return;
    for (int s = 0; s < detail->c.stage_count; s++)
        stages[s].times = (struct sl_stage_times){.f = dur[s][SL_FORWARD],
                                                  .b = dur[s][SL_BACKWARD],
                                                  .i = dur[s][SL_BACKWARD_INPUT],
                                                  .w = dur[s][SL_BACKWARD_WEIGHT],
                                                  .recompute = dur[s][SL_RECOMPUTE],
                                                  .reduce = dur[s][SL_REDUCE],
                                                  .step = dur[s][SL_STEP]};
}

sl_err sl_search_candidate_plan(struct sl_arena *arena, const struct sl_candidate_detail *detail,
                                const struct sl_stage_bytes *exact, const struct sl_plan **out) {
    const struct sl_problem *p = detail->problem;
    struct sl_stage *stages = SL_NEW(arena, struct sl_stage, detail->c.stage_count);
    int64_t *memory = SL_NEW(arena, int64_t, detail->device_count);
    for (int s = 0; s < detail->c.stage_count; s++)
        stages[s] =
            (struct sl_stage){.name = sl_arena_printf(arena, "s%d", s),
                              .width = detail->c.width[s],
                              .micro_size = p->sizes[sl_search_candidate_size(&detail->c, s)],
                              .group = detail->c.group_of ? detail->c.group_of[s] : 0,
                              .workers = detail->workers[s],
                              .passes = detail->stages[s].passes,
                              .recompute = sl_search_candidate_recomputes(detail, s),
                              .has_input = detail->stages[s].reads_data,
                              .zero1 = p->zero1 && detail->c.width[s] > 1,
                              .bytes = exact ? exact[s] : detail->stages[s].bytes};
    fill_times(arena, detail, stages);
    if (p->shards > 1)
        fill_collectives(arena, detail, stages);
    if (p->graph_nodes)
        fill_nodes(arena, detail, stages);
    for (int w = 0; w < detail->device_count; w++)
        memory[w] = p->memory ? p->memory[detail->device_of[w]] : 0;
    struct sl_plan draft = {.model = p->model,
                            .node_count = p->graph_nodes,
                            .graph = p->graph_hash,
                            .sizes = p->sizes_text,
                            .stages = stages,
                            .stage_count = detail->c.stage_count,
                            .edges = detail->edges,
                            .edge_count = detail->edge_count,
                            .worker_count = detail->device_count,
                            .memory_bytes = memory,
                            .schedule = detail->c.schedule,
                            .batch = p->batch};
    fill_ties(arena, detail, &draft);
    return sl_plan_build(arena, &draft, out);
}

/* ---- simulation ---- */

static void judge_memory(const struct sl_sched *sched, const struct sl_plan *plan,
                         struct sl_candidate_score *out) {
    out->over_bytes = INT64_MIN;
    for (int w = 0; w < plan->worker_count; w++) {
        int64_t bytes = sl_sched_worker_bytes(sched, w), limit = plan->memory_bytes[w];
        int64_t over = limit ? bytes - limit : -1;
        out->peak_bytes = bytes > out->peak_bytes ? bytes : out->peak_bytes;
        out->all_bytes += bytes;
        if (over > out->over_bytes) {
            out->over_bytes = over;
            out->over_worker = w;
            out->over_stage =
                plan->worker_seat_count[w] ? plan->seats[plan->worker_seats[w][0]].stage : 0;
        }
    }
}

/* Time of a step. A synchronous step waits for the global gradient norm: updates begin when the
 * last worker has its gradients, and the iteration ends with the longest update. */
int64_t sl_search_step_ns(const struct sl_sched *sched, const struct sl_sim *sim,
                          const int64_t (*dur)[SL_KIND_COUNT]) {
    const struct sl_plan *plan = sched->plan;
    int64_t meet = 0, longest = 0;
    if (sched->rule != SL_RULE_SYNC)
        return sim->step_ns;
    for (int w = 0; w < plan->worker_count; w++) {
        int64_t own = 0;
        for (int i = 0; i < plan->worker_seat_count[w]; i++)
            own += dur[plan->seats[plan->worker_seats[w][i]].stage][SL_STEP];
        meet = sim->workers[w].last_ns - own > meet ? sim->workers[w].last_ns - own : meet;
        longest = own > longest ? own : longest;
    }
    return meet + longest > sim->step_ns ? meet + longest : sim->step_ns;
}

/* Builds the schedule with the default slack of a run where that fits (like sl_schedules_row_slack,
 * but built only once). If the schedule does not fit at all, builds it without memory limits, to
 * measure the excess. */
static sl_err build_as_run(struct sl_arena *arena, const struct sl_plan *plan,
                           struct sl_schedule_opts *opts, const struct sl_sched **out) {
    const struct sl_schedule *row = sl_schedules_row_find(opts->schedule);
    for (opts->slack = row ? row->slack : 0; opts->slack >= 0; opts->slack--)
        if (sl_schedules_build(arena, plan, opts, out) == SL_OK &&
            (!opts->slack || !sl_schedules_row_is_crowded(*out)))
            return SL_OK;
    struct sl_plan draft = *plan;
    const struct sl_plan *loose;
    draft.memory_bytes = NULL;
    opts->slack = 0;
    SL_TRY(sl_plan_build(arena, &draft, &loose));
    return sl_schedules_build(arena, loose, opts, out);
}

/* Everything that a simulation needs. */
struct sim_input {
    const struct sl_plan *plan;
    const struct sl_sched *sched;
    int64_t (*dur)[SL_KIND_COUNT];
    struct sl_sim_opts opts;
};

static sl_err prepare(struct sl_arena *arena, const struct sl_candidate_detail *detail,
                      const struct sl_stage_bytes *exact, struct sim_input *in) {
    const struct sl_schedule *row = sl_schedules_row_find(detail->c.schedule);
    in->dur = sl_arena_alloc(arena, (int64_t)sizeof *in->dur * detail->c.stage_count);
    SL_TRY(sl_search_candidate_plan(arena, detail, exact, &in->plan));
    sl_search_candidate_times(detail, in->dur);
    struct sl_schedule_opts opts = {.schedule = detail->c.schedule,
                                    .batch = detail->problem->batch,
                                    .iters = row && row->rule != SL_RULE_SYNC ? SL_ASYNC_ITERS : 1,
                                    .global_step = row && sl_schedules_row_is_global(row),
                                    .dur_ns = (const int64_t(*)[SL_KIND_COUNT])in->dur};
    in->opts = (struct sl_sim_opts){.net = {sl_search_candidate_route, detail, true},
                                    .cold = detail->problem->cold};
    return build_as_run(arena, in->plan, &opts, &in->sched);
}

static void judge(const struct sl_candidate_detail *detail, const struct sim_input *input,
                  const struct sl_sim *sim, struct sl_candidate_score *out) {
    const struct sim_input in = *input;
    double tokens = sl_search_problem_tokens(detail->problem, detail->c.schedule);
    int64_t step_ns = sl_search_step_ns(in.sched, sim, (const int64_t(*)[SL_KIND_COUNT])in.dur);
    *out = (struct sl_candidate_score){.step_ns = (int64_t)llround(tokens * (double)step_ns),
                                       .sim_ns = step_ns};
    judge_memory(in.sched, in.plan, out);
    double idle = 0;
    for (int w = 0; w < in.plan->worker_count; w++)
        idle += (double)sl_sim_bubble(sim, w) / (double)(sim->end_ns ? sim->end_ns : 1);
    out->bubble = idle / in.plan->worker_count;
}

static sl_err simulate(struct sl_arena *arena, const struct sl_candidate_detail *detail,
                       const struct sl_stage_bytes *exact, struct sl_candidate_score *out) {
    struct sim_input in;
    const struct sl_sim *sim;
    SL_TRY(prepare(arena, detail, exact, &in));
    SL_TRY(sl_sim_run(arena, in.sched, &in.opts, &sim));
    judge(detail, &in, sim, out);
    return SL_OK;
}

/* ---- folding ---- */

enum { FOLD_ABOVE = 30000 };

int64_t sl_search_candidate_passes(const struct sl_candidate_detail *detail) {
    const struct sl_schedule *row = sl_schedules_row_find(detail->c.schedule);
    /* asynchronous: enough to reach the steady state */
    int64_t iterations = row && row->rule != SL_RULE_SYNC ? 8 : 1;
    int64_t passes = 0;
    for (int s = 0; s < detail->c.stage_count; s++)
        passes += 2 * sl_search_candidate_stage_micros(detail, s) * iterations;
    return passes;
}

/* Can the candidate be folded: are all stages equally wide, and has it more than `small` passes? */
static bool folds(const struct sl_candidate_detail *detail, int64_t small) {
    const struct sl_schedule *row = sl_schedules_row_find(detail->c.schedule);
    if (row && row->layout == SL_LAYOUT_CROSS) /* its pipelines come in crossing pairs */
        return false;
    bool equal =
        detail->c.width[0] > 1 && !detail->c.size_of && sl_search_candidate_passes(detail) > small;
    for (int s = 0; s < detail->c.stage_count; s++)
        equal &= detail->c.width[s] == detail->c.width[0];
    return equal;
}

int64_t sl_search_candidate_folded_passes(const struct sl_candidate_detail *detail) {
    return folds(detail, FOLD_ABOVE) ? sl_search_candidate_passes(detail) / detail->c.width[0]
                                     : sl_search_candidate_passes(detail);
}

/* Makes one pipeline that represents all. If all stages are equally wide, pipelines interact only
 * in reductions. It gets its share of the batch; its reductions become a part of the step. */
static void fold(struct sl_arena *arena, const struct sl_candidate_detail *detail,
                 struct sl_candidate_detail *out) {
    int width = detail->c.width[0], *ones = SL_NEW(arena, int, detail->c.stage_count);
    int64_t micros = (sl_search_candidate_micros(detail) + width - 1) / width;
    struct sl_problem *share = SL_NEW(arena, struct sl_problem, 1);
    *share = *detail->problem;
    share->batch = micros * share->sizes[detail->c.size];
    *out = *detail;
    out->problem = share;
    out->folded_from = detail;
    out->c.width = ones;
    out->device_count = detail->c.ranks ? detail->c.ranks : detail->c.stage_count;
    out->stages =
        sl_vec_freeze(arena, detail->stages, detail->c.stage_count, sizeof *detail->stages);
    out->device_of = SL_NEW(arena, int, detail->c.stage_count);
    out->workers = SL_NEW(arena, int *, detail->c.stage_count);
    for (int s = 0; s < detail->c.stage_count; s++) {
        ones[s] = 1;
        out->workers[s] = SL_NEW(arena, int, 1);
        *out->workers[s] = detail->c.ranks ? sl_search_candidate_rank(&detail->c, s, 0) : s;
        out->device_of[*out->workers[s]] = detail->device_of[detail->workers[s][0]];
        out->stages[s].step += detail->stages[s].reduce;
        out->stages[s].reduce = 0;
    }
}

sl_err sl_search_candidate_simulate_folded(const struct sl_candidate_detail *detail,
                                           struct sl_candidate_score *out) {
    struct sl_arena arena = {0};
    struct sl_candidate_detail one;
    bool folded = folds(detail, FOLD_ABOVE);
    if (folded)
        fold(&arena, detail, &one);
    sl_err err = simulate(&arena, folded ? &one : detail, NULL, out);
    if (folded && err == SL_OK)
        out->over_worker = detail->workers[out->over_stage][0];
    sl_arena_free(&arena);
    return err;
}

sl_err sl_search_candidate_play(struct sl_arena *arena, const struct sl_candidate_detail *detail,
                                bool timeline, struct sl_candidate_play *out) {
    struct sl_candidate_detail *one = SL_NEW(arena, struct sl_candidate_detail, 1);
    struct sim_input in;
    *one = *detail;
    if (folds(detail, 0))
        fold(arena, detail, one);
    SL_TRY(prepare(arena, one, NULL, &in));
    in.opts.timeline = timeline;
    SL_TRY(sl_sim_run(arena, in.sched, &in.opts, &out->sim));
    out->sched = in.sched;
    judge(one, &in, out->sim, &out->score);
    return SL_OK;
}

sl_err sl_search_candidate_simulate(const struct sl_candidate_detail *detail,
                                    const struct sl_stage_bytes *exact,
                                    struct sl_candidate_score *out) {
    struct sl_arena arena = {0};
    sl_err err = simulate(&arena, detail, exact, out);
    sl_arena_free(&arena);
    return err;
}

sl_err sl_search_candidate_forecast(const struct sl_candidate_detail *detail,
                                    const struct sl_stage_bytes *exact, int64_t *out) {
    struct sl_arena arena = {0};
    struct sim_input in;
    sl_err err = prepare(&arena, detail, exact, &in);
    if (err == SL_OK)
        err = sl_search_forecast_step(in.sched, &in.opts, &detail->problem->tempo,
                                      (const int64_t(*)[SL_KIND_COUNT])in.dur, out);
    sl_arena_free(&arena);
    return err;
}
