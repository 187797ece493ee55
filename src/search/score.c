/* A layout as a plan, its schedule, and what the simulator says of it. */
#include "search/candidate.h"

#include "base/vec.h"
#include "sim/sim.h"

#include <math.h>
#include <string.h>

/* ---- plan ---- */

static void fill_nodes(struct sl_arena *arena, const struct sl_setup *l, struct sl_stage *stages) {
    const struct sl_problem *p = l->problem;
    int *stage_of = SL_NEW(arena, int, p->graph_nodes + 1);
    for (int u = 0; u < p->unit_count; u++)
        for (int i = 0; i < p->units[u].node_count; i++) {
            stage_of[p->units[u].nodes[i]] = l->c.stage_of[u];
            stages[l->c.stage_of[u]].node_count++;
        }
    for (int s = 0; s < l->c.stage_count; s++) {
        stages[s].nodes = SL_NEW(arena, int, stages[s].node_count);
        stages[s].node_count = 0;
    }
    for (int n = 0; n < p->graph_nodes; n++) {
        struct sl_stage *stage = &stages[stage_of[n]];
        ((int *)(uintptr_t)stage->nodes)[stage->node_count++] = n;
    }
}

/* Ties whose units ended up in different stages. */
static void fill_ties(struct sl_arena *arena, const struct sl_setup *l, struct sl_plan *draft) {
    const struct sl_problem *p = l->problem;
    struct sl_tie *ties = SL_NEW(arena, struct sl_tie, p->tie_count + 1);
    for (int t = 0; t < p->tie_count; t++) {
        bool *in = SL_NEW(arena, bool, l->c.stage_count);
        int *stages = SL_NEW(arena, int, p->ties[t].count);
        struct sl_tie tie = {.name = p->ties[t].name, .bytes = p->ties[t].bytes, .stages = stages};
        for (int i = 0; i < p->ties[t].count; i++)
            in[l->c.stage_of[p->ties[t].units[i]]] = true;
        for (int s = 0; s < l->c.stage_count; s++)
            if (in[s])
                stages[tie.count++] = s;
        if (tie.count > 1)
            ties[draft->tie_count++] = tie;
    }
    draft->ties = ties;
}

/* Where workers hand messages over themselves: into the ring, or out of it. */
static int64_t copy_ns(const struct sl_setup *l, int stage) {
    double bytes = (double)(l->stages[stage].in_bytes + l->stages[stage].out_bytes) *
                   (double)l->problem->sizes[sl_candidate_size(&l->c, stage)];
    return l->problem->copy_bytes_per_s > 0
               ? (int64_t)ceil(1e9 * bytes / l->problem->copy_bytes_per_s)
               : 0;
}

void sl_search_setup_times(const struct sl_setup *l, int64_t (*out)[SL_KIND_COUNT]) {
    for (int s = 0; s < l->c.stage_count; s++) {
        const struct sl_setup_stage *stage = &l->stages[s];
        memset(out[s], 0, sizeof out[s]);
        int64_t extra = l->problem->action_ns, copy = copy_ns(l, s);
        out[s][SL_FORWARD] = stage->f + extra + copy;
        out[s][SL_RECOMPUTE] = sl_recompute_ns(l->problem, stage->f);
        out[s][SL_BACKWARD_INPUT] = stage->i + extra + copy;
        out[s][SL_BACKWARD_WEIGHT] = stage->w + extra;
        out[s][SL_BACKWARD] = stage->i + stage->w + extra + copy;
        out[s][SL_REDUCE] = /* every meeting takes an equal share */
            stage->meetings ? (stage->reduce + stage->meetings - 1) / stage->meetings : 0;
        out[s][SL_STEP] = stage->step;
    }
}

/* What was simulated is what shall run: schedules go by these times, unless a plan cannot say them.
 */
static void fill_times(struct sl_arena *arena, const struct sl_setup *l, struct sl_stage *stages) {
    int64_t(*dur)[SL_KIND_COUNT] = sl_arena_alloc(arena, (int64_t)sizeof *dur * l->c.stage_count);
    sl_search_setup_times(l, dur);
    for (int64_t i = 0; i < (int64_t)l->c.stage_count * SL_KIND_COUNT; i++)
        if (dur[i / SL_KIND_COUNT][i % SL_KIND_COUNT] > SL_STAGE_NS_MAX)
            return;
    for (int s = 0; s < l->c.stage_count; s++)
        stages[s].times = (struct sl_stage_times){.f = dur[s][SL_FORWARD],
                                                  .b = dur[s][SL_BACKWARD],
                                                  .i = dur[s][SL_BACKWARD_INPUT],
                                                  .w = dur[s][SL_BACKWARD_WEIGHT],
                                                  .recompute = dur[s][SL_RECOMPUTE],
                                                  .reduce = dur[s][SL_REDUCE],
                                                  .step = dur[s][SL_STEP]};
}

sl_err sl_search_setup_plan(struct sl_arena *arena, const struct sl_setup *l,
                            const struct sl_stage_bytes *exact, const struct sl_plan **out) {
    const struct sl_problem *p = l->problem;
    struct sl_stage *stages = SL_NEW(arena, struct sl_stage, l->c.stage_count);
    int64_t *memory = SL_NEW(arena, int64_t, l->device_count);
    for (int s = 0; s < l->c.stage_count; s++)
        stages[s] = (struct sl_stage){.name = sl_arena_printf(arena, "s%d", s),
                                      .width = l->c.width[s],
                                      .micro_size = p->sizes[sl_candidate_size(&l->c, s)],
                                      .workers = l->workers[s],
                                      .recompute = l->c.recompute[s],
                                      .has_input = l->stages[s].reads_data,
                                      .bytes = exact ? exact[s] : l->stages[s].bytes};
    fill_times(arena, l, stages);
    if (p->graph_nodes)
        fill_nodes(arena, l, stages);
    for (int w = 0; w < l->device_count; w++)
        memory[w] = p->memory ? p->memory[l->device_of[w]] : 0;
    struct sl_plan draft = {.model = p->model,
                            .node_count = p->graph_nodes,
                            .stages = stages,
                            .stage_count = l->c.stage_count,
                            .edges = l->edges,
                            .edge_count = l->edge_count,
                            .worker_count = l->device_count,
                            .memory_bytes = memory,
                            .schedule = l->c.schedule,
                            .batch = p->batch};
    fill_ties(arena, l, &draft);
    return sl_plan_build(arena, &draft, out);
}

/* ---- playing ---- */

static void judge_memory(const struct sl_sched *sched, const struct sl_plan *plan,
                         struct sl_score *out) {
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

/* As a run does by default: without a flush stages step on one verdict, so that tied weights do not
 * make them wait for each other. Replicas cannot yet. */
static bool steps_global_step(const struct sl_setup *l) {
    for (int s = 0; s < l->c.stage_count; s++)
        if (l->c.width[s] > 1)
            return false;
    return !l->whole;
}

/* A synchronous step judges one norm of all gradients: updates begin when the last worker is there,
 * and the iteration ends with the longest. */
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

/* With the slack that a run takes by itself where it fits (sl_sched_row_slack, without building
 * twice); where not even the schedule as it stands fits, without limits, to see by how much. */
static sl_err build_as_run(struct sl_arena *arena, const struct sl_plan *plan,
                           struct sl_sched_opts *opts, const struct sl_sched **out) {
    const struct sl_schedule *row = sl_sched_row_find(opts->schedule);
    for (opts->slack = row ? row->slack : 0; opts->slack >= 0; opts->slack--)
        if (sl_sched_build(arena, plan, opts, out) == SL_OK &&
            (!opts->slack || !sl_sched_row_is_crowded(*out)))
            return SL_OK;
    struct sl_plan draft = *plan;
    const struct sl_plan *loose;
    draft.memory_bytes = NULL;
    opts->slack = 0;
    SL_TRY(sl_plan_build(arena, &draft, &loose));
    return sl_sched_build(arena, loose, opts, out);
}

/* Ready to be played. */
struct game {
    const struct sl_plan *plan;
    const struct sl_sched *sched;
    int64_t (*dur)[SL_KIND_COUNT];
    struct sl_sim_opts opts;
};

static sl_err open_game(struct sl_arena *arena, const struct sl_setup *l,
                        const struct sl_stage_bytes *exact, struct game *g) {
    const struct sl_schedule *row = sl_sched_row_find(l->c.schedule);
    g->dur = sl_arena_alloc(arena, (int64_t)sizeof *g->dur * l->c.stage_count);
    SL_TRY(sl_search_setup_plan(arena, l, exact, &g->plan));
    sl_search_setup_times(l, g->dur);
    struct sl_sched_opts opts = {.schedule = l->c.schedule,
                                 .batch = l->problem->batch,
                                 .iters = row && row->rule != SL_RULE_SYNC ? SL_ASYNC_ITERS : 1,
                                 .global_step = steps_global_step(l),
                                 .dur_ns = (const int64_t(*)[SL_KIND_COUNT])g->dur};
    g->opts =
        (struct sl_sim_opts){.net = {sl_search_setup_route, l, true}, .cold = l->problem->cold};
    return build_as_run(arena, g->plan, &opts, &g->sched);
}

static sl_err play(struct sl_arena *arena, const struct sl_setup *l,
                   const struct sl_stage_bytes *exact, struct sl_score *out) {
    struct game g;
    const struct sl_sim *sim;
    SL_TRY(open_game(arena, l, exact, &g));
    SL_TRY(sl_sim_run(arena, g.sched, &g.opts, &sim));
    double tokens = sl_search_problem_tokens(l->problem, l->c.schedule);
    int64_t step_ns = sl_search_step_ns(g.sched, sim, (const int64_t(*)[SL_KIND_COUNT])g.dur);
    *out =
        (struct sl_score){.step_ns = (int64_t)llround(tokens * (double)step_ns), .sim_ns = step_ns};
    judge_memory(g.sched, g.plan, out);
    double idle = 0;
    for (int w = 0; w < g.plan->worker_count; w++)
        idle += (double)sl_sim_bubble(sim, w) / (double)(sim->end_ns ? sim->end_ns : 1);
    out->bubble = idle / g.plan->worker_count;
    return SL_OK;
}

/* ---- large regular setups ---- */

int64_t sl_search_setup_all_passes(const struct sl_setup *l) {
    const struct sl_schedule *row = sl_sched_row_find(l->c.schedule);
    int64_t iterations = row && row->rule != SL_RULE_SYNC ? 8 : 1; /* until it repeats itself */
    int64_t passes = 0;
    for (int s = 0; s < l->c.stage_count; s++)
        passes += 2 * sl_search_setup_stage_micros(l, s) * iterations;
    return passes;
}

/* Are all stages equally wide, and is it worth it? */
static bool folds(const struct sl_setup *l) {
    enum { SMALL = 30000 };
    bool equal = l->c.width[0] > 1 && !l->c.size_of && sl_search_setup_all_passes(l) > SMALL;
    for (int s = 0; s < l->c.stage_count; s++)
        equal &= l->c.width[s] == l->c.width[0];
    return equal;
}

int64_t sl_search_setup_passes(const struct sl_setup *l) {
    return folds(l) ? sl_search_setup_all_passes(l) / l->c.width[0] : sl_search_setup_all_passes(l);
}

/* Where all stages are equally wide, pipelines run side by side and meet only to reduce: one of
 * them stands for all, with its share of the batch and the reduction before the step. */
static void fold(struct sl_arena *arena, const struct sl_setup *l, struct sl_setup *out) {
    int width = l->c.width[0], *ones = SL_NEW(arena, int, l->c.stage_count);
    int64_t micros = (sl_search_setup_micros(l) + width - 1) / width;
    struct sl_problem *share = SL_NEW(arena, struct sl_problem, 1);
    *share = *l->problem;
    share->batch = micros * share->sizes[l->c.size];
    *out = *l;
    out->problem = share;
    out->whole = l;
    out->c.width = ones;
    out->device_count = l->c.stage_count;
    out->stages = sl_vec_freeze(arena, l->stages, l->c.stage_count, sizeof *l->stages);
    out->device_of = SL_NEW(arena, int, l->c.stage_count);
    out->workers = SL_NEW(arena, int *, l->c.stage_count);
    for (int s = 0; s < l->c.stage_count; s++) {
        ones[s] = 1;
        out->device_of[s] = l->device_of[l->workers[s][0]];
        out->workers[s] = SL_NEW(arena, int, 1);
        *out->workers[s] = s;
        out->stages[s].step += l->stages[s].reduce;
        out->stages[s].reduce = 0;
    }
}

sl_err sl_search_setup_score_fast(const struct sl_setup *l, struct sl_score *out) {
    struct sl_arena arena = {0};
    struct sl_setup one;
    bool folded = folds(l);
    if (folded)
        fold(&arena, l, &one);
    sl_err err = play(&arena, folded ? &one : l, NULL, out);
    if (folded && err == SL_OK)
        out->over_worker = l->workers[out->over_stage][0];
    sl_arena_free(&arena);
    return err;
}

sl_err sl_search_setup_score(const struct sl_setup *l, const struct sl_stage_bytes *exact,
                             struct sl_score *out) {
    struct sl_arena arena = {0};
    sl_err err = play(&arena, l, exact, out);
    sl_arena_free(&arena);
    return err;
}

sl_err sl_search_setup_forecast(const struct sl_setup *l, const struct sl_stage_bytes *exact,
                                int64_t *out) {
    struct sl_arena arena = {0};
    struct game g;
    sl_err err = open_game(&arena, l, exact, &g);
    if (err == SL_OK)
        err = sl_search_tempo_step(g.sched, &g.opts, &l->problem->tempo,
                                   (const int64_t(*)[SL_KIND_COUNT])g.dur, out);
    sl_arena_free(&arena);
    return err;
}
