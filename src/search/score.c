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

/* Several versions of the weights: a step begins with a copy of them. */
static int64_t version_ns(const struct sl_setup *l, int stage) {
    const struct sl_schedule *row = sl_schedule_find(l->c.schedule);
    bool copies = row && (row->rule == SL_RULE_2BW || row->rule == SL_RULE_STASH ||
                          row->rule == SL_RULE_VSYNC);
    double rate = l->problem->version_bytes_per_s;
    return copies && rate > 0 ? (int64_t)ceil(1e9 * (double)l->stages[stage].bytes.params / rate)
                              : 0;
}

void sl_setup_times(const struct sl_setup *l, int64_t (*out)[SL_KIND_COUNT]) {
    for (int s = 0; s < l->c.stage_count; s++) {
        const struct sl_setup_stage *stage = &l->stages[s];
        memset(out[s], 0, sizeof out[s]);
        int64_t extra = l->problem->action_ns, copy = copy_ns(l, s);
        out[s][SL_F] = stage->f + extra + copy;
        out[s][SL_RECOMPUTE] = stage->f;
        out[s][SL_I] = stage->i + extra + copy;
        out[s][SL_W] = stage->w + extra;
        out[s][SL_B] = stage->i + stage->w + extra + copy;
        out[s][SL_REDUCE] = /* every meeting takes an equal share */
            stage->meetings ? (stage->reduce + stage->meetings - 1) / stage->meetings : 0;
        out[s][SL_STEP] = stage->step + version_ns(l, s);
    }
}

/* What was simulated is what shall run: schedules go by these times, unless a plan cannot say them.
 */
static void fill_times(struct sl_arena *arena, const struct sl_setup *l, struct sl_stage *stages) {
    int64_t(*dur)[SL_KIND_COUNT] = sl_arena_alloc(arena, (int64_t)sizeof *dur * l->c.stage_count);
    sl_setup_times(l, dur);
    for (int64_t i = 0; i < (int64_t)l->c.stage_count * SL_KIND_COUNT; i++)
        if (dur[i / SL_KIND_COUNT][i % SL_KIND_COUNT] > SL_STAGE_NS_MOST)
            return;
    for (int s = 0; s < l->c.stage_count; s++)
        stages[s].times = (struct sl_stage_times){.f = dur[s][SL_F],
                                                  .b = dur[s][SL_B],
                                                  .i = dur[s][SL_I],
                                                  .w = dur[s][SL_W],
                                                  .recompute = dur[s][SL_RECOMPUTE],
                                                  .reduce = dur[s][SL_REDUCE],
                                                  .step = dur[s][SL_STEP]};
}

sl_err sl_setup_plan(struct sl_arena *arena, const struct sl_setup *l,
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

/* ---- the network ---- */

/* Names of wires: what it is, of whom, in which direction. */
static uint64_t wire(uint64_t what, uint64_t a, uint64_t b) { return what << 56 | a << 28 | b; }

/* Both ends of a message, and how to see who else is on its way at a level of the network. */
struct ends {
    const struct sl_setup *l;
    int from, to;     /* workers */
    int level, below; /* hosts of one group */
};

enum { SAME_FROM = 1, SAME_TO = 2 };

/* Of several pipelines only one is played: how many of them use this link, where it is that of a
 * group of hosts at one end, or at both. */
static int beside(const struct ends *e, int same) {
    const struct sl_setup *whole = e->l->whole;
    const int *host_of = e->l->problem->machine->host_of, *device_of = e->l->device_of;
    int a = host_of[device_of[e->from]] / e->below, b = host_of[device_of[e->to]] / e->below;
    int count = 0;
    for (int r = 0; whole && r < whole->c.width[0]; r++) {
        int x = host_of[whole->device_of[whole->workers[e->from][r]]];
        int y = host_of[whole->device_of[whole->workers[e->to][r]]];
        int level = sl_machine_level(whole->problem->machine, x, y);
        bool here =
            (!(same & SAME_FROM) || x / e->below == a) && (!(same & SAME_TO) || y / e->below == b);
        count += here && (e->level ? level == e->level : level >= 0);
    }
    return count ? count : 1;
}

static void add_wire(struct sl_sim_route *out, uint64_t name, const struct sl_link *link,
                     int pipelines) {
    double speed = link->bandwidth / pipelines;
    speed = speed < 9e18 ? speed : 9e18;
    out->wires[out->wire_count++] = (struct sl_sim_wire){name, speed > 1 ? (int64_t)speed : 1};
}

/* Between devices of a host; pipelines have devices of their own. */
static void add_inside(struct sl_sim_route *out, const struct sl_link *link, int host, uint64_t a,
                       uint64_t b) {
    switch (link->sharing) {
    case SL_LINK_PAIR: add_wire(out, wire(1, a + 1, b + 1), link, 1); return;
    case SL_LINK_BUS: add_wire(out, wire(1 + (uint64_t)host, 0, 0), link, 1); return;
    default: add_wire(out, wire(1, a + 1, 0), link, 1); add_wire(out, wire(1, 0, b + 1), link, 1);
    }
}

static void add_between(struct sl_sim_route *out, const struct sl_link *link, const struct ends *e,
                        int host_a, int host_b) {
    uint64_t what = 128 + (uint64_t)e->level, a = 1 + (uint64_t)(host_a / e->below),
             b = 1 + (uint64_t)(host_b / e->below);
    switch (link->sharing) {
    case SL_LINK_PAIR:
        add_wire(out, wire(what, a, b), link, beside(e, SAME_FROM | SAME_TO));
        return;
    case SL_LINK_BUS: add_wire(out, wire(what, 0, 0), link, beside(e, 0)); return;
    default:
        add_wire(out, wire(what, a, 0), link, beside(e, SAME_FROM));
        add_wire(out, wire(what, 0, b), link, beside(e, SAME_TO));
    }
}

static void route(const void *ctx, int from, int to, struct sl_sim_route *out) {
    const struct sl_setup *l = ctx;
    const struct sl_machine *m = l->problem->machine;
    int a = l->device_of[from], b = l->device_of[to];
    const struct sl_link *link = sl_machine_between(m, a, b);
    if (!link) /* two stages of one device */
        return;
    int host_a = m->host_of[a], host_b = m->host_of[b];
    int level = sl_machine_level(m, host_a, host_b);
    out->latency_ns = link->latency_ns;
    if (level < 0 && l->problem->copy_bytes_per_s > 0) /* the passes have paid for it */
        return;
    if (level < 0) {
        add_inside(out, link, host_a, (uint64_t)a, (uint64_t)b);
        return;
    }
    struct ends e = {l, from, to, 0, 1};
    if (level) /* the ports of the hosts at the bottom, too */
        add_between(out, &m->links[m->levels[0].link], &e, host_a, host_b);
    e.level = level;
    e.below = level ? m->levels[level - 1].hosts : 1;
    add_between(out, link, &e, host_a, host_b);
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
static bool steps_together(const struct sl_setup *l) {
    for (int s = 0; s < l->c.stage_count; s++)
        if (l->c.width[s] > 1)
            return false;
    return !l->whole;
}

/* A synchronous step judges one norm of all gradients: updates begin when the last worker is there,
 * and the iteration ends with the longest. */
int64_t sl_step_ns(const struct sl_sched *sched, const struct sl_sim *sim,
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

/* With the slack that a run takes by itself where it fits (sl_schedule_slack, without building
 * twice); where not even the schedule as it stands fits, without limits, to see by how much. */
static sl_err build_as_run(struct sl_arena *arena, const struct sl_plan *plan,
                           struct sl_sched_opts *opts, const struct sl_sched **out) {
    const struct sl_schedule *row = sl_schedule_find(opts->schedule);
    for (opts->slack = row ? row->slack : 0; opts->slack >= 0; opts->slack--)
        if (sl_sched_build(arena, plan, opts, out) == SL_OK &&
            (!opts->slack || !sl_schedule_is_crowded(*out)))
            return SL_OK;
    struct sl_plan draft = *plan;
    const struct sl_plan *loose;
    draft.memory_bytes = NULL;
    opts->slack = 0;
    SL_TRY(sl_plan_build(arena, &draft, &loose));
    return sl_sched_build(arena, loose, opts, out);
}

static sl_err play(struct sl_arena *arena, const struct sl_setup *l,
                   const struct sl_stage_bytes *exact, struct sl_score *out) {
    const struct sl_plan *plan;
    const struct sl_sched *sched;
    const struct sl_sim *sim;
    const struct sl_schedule *row = sl_schedule_find(l->c.schedule);
    int64_t(*dur)[SL_KIND_COUNT] = sl_arena_alloc(arena, (int64_t)sizeof *dur * l->c.stage_count);
    SL_TRY(sl_setup_plan(arena, l, exact, &plan));
    sl_setup_times(l, dur);
    struct sl_sched_opts opts = {.schedule = l->c.schedule,
                                 .batch = l->problem->batch,
                                 .iters = row && row->rule != SL_RULE_SYNC ? SL_ASYNC_ITERS : 1,
                                 .together = steps_together(l),
                                 .dur_ns = (const int64_t(*)[SL_KIND_COUNT])dur};
    SL_TRY(build_as_run(arena, plan, &opts, &sched));
    struct sl_sim_opts play = {.net = {route, l, true}, .cold = l->problem->cold};
    SL_TRY(sl_sim_run(arena, sched, &play, &sim));
    double tokens = sl_problem_tokens(l->problem, l->c.schedule);
    int64_t step_ns = sl_step_ns(sched, sim, (const int64_t(*)[SL_KIND_COUNT])dur);
    *out =
        (struct sl_score){.step_ns = (int64_t)llround(tokens * (double)step_ns), .sim_ns = step_ns};
    judge_memory(sched, plan, out);
    double idle = 0;
    for (int w = 0; w < plan->worker_count; w++)
        idle += (double)sl_sim_bubble(sim, w) / (double)(sim->end_ns ? sim->end_ns : 1);
    out->bubble = idle / plan->worker_count;
    return SL_OK;
}

/* ---- large regular setups ---- */

int64_t sl_setup_all_passes(const struct sl_setup *l) {
    const struct sl_schedule *row = sl_schedule_find(l->c.schedule);
    int64_t iterations = row && row->rule != SL_RULE_SYNC ? 8 : 1; /* until it repeats itself */
    int64_t passes = 0;
    for (int s = 0; s < l->c.stage_count; s++)
        passes += 2 * sl_setup_stage_micros(l, s) * iterations;
    return passes;
}

/* Are all stages equally wide, and is it worth it? */
static bool folds(const struct sl_setup *l) {
    enum { SMALL = 30000 };
    bool equal = l->c.width[0] > 1 && !l->c.size_of && sl_setup_all_passes(l) > SMALL;
    for (int s = 0; s < l->c.stage_count; s++)
        equal &= l->c.width[s] == l->c.width[0];
    return equal;
}

int64_t sl_setup_passes(const struct sl_setup *l) {
    return folds(l) ? sl_setup_all_passes(l) / l->c.width[0] : sl_setup_all_passes(l);
}

/* Where all stages are equally wide, pipelines run side by side and meet only to reduce: one of
 * them stands for all, with its share of the batch and the reduction before the step. */
static void fold(struct sl_arena *arena, const struct sl_setup *l, struct sl_setup *out) {
    int width = l->c.width[0], *ones = SL_NEW(arena, int, l->c.stage_count);
    int64_t micros = (sl_setup_micros(l) + width - 1) / width;
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

sl_err sl_setup_score_fast(const struct sl_setup *l, struct sl_score *out) {
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

sl_err sl_setup_score(const struct sl_setup *l, const struct sl_stage_bytes *exact,
                      struct sl_score *out) {
    struct sl_arena arena = {0};
    sl_err err = play(&arena, l, exact, out);
    sl_arena_free(&arena);
    return err;
}
