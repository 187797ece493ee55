/* Random plans: chains and DAGs with skip edges, own micro-batch sizes, replicas, ties,
 * recomputation, several stages per worker; sizes are odd primes where it matters. */
#include "support/sched_cases.h"

#include "base/rng.h"

#include <stdlib.h>
#include <string.h>

int64_t dice_below(struct dice *dice, int64_t count) {
    return sl_rng_below(dice->seed, dice->stream, dice->at++, count);
}

int64_t test_count(int64_t full) {
    const char *text = getenv("SL_TEST_FULL");
    return text && strcmp(text, "1") == 0 ? full : (full + 49) / 50;
}

static void must(sl_err err) {
    if (err != SL_OK)
        abort();
}

static bool is_chain_only(const struct sl_schedule *row) {
    return row->layout_chunks || row->layout == SL_LAYOUT_CROSS;
}

static void set_bytes(struct sl_stage *stage) {
    stage->bytes = (struct sl_stage_bytes){
        .params = 101, .grads = 103, .state = 211, .stash = 37, .saved = 7, .kept = 17, .work = 5};
}

static const struct sl_plan *draw_chain(struct sl_arena *arena, struct dice *dice,
                                        const struct sl_schedule *row, int size) {
    const struct sl_plan *plan;
    int p = 1 + (int)dice_below(dice, size), v = 1 + (int)dice_below(dice, 3);
    if (row->layout == SL_LAYOUT_CROSS) {
        p = 2 + 2 * (int)dice_below(dice, size / 2);
        v = 1;
    } else if (row->layout == SL_LAYOUT_V) {
        v = 2;
    }
    must(sl_plan_chain(arena, p * v, p, row->layout, &plan));
    struct sl_stage *stages = SL_NEW(arena, struct sl_stage, plan->stage_count);
    memcpy(stages, plan->stages, sizeof *stages * (size_t)plan->stage_count);
    /* equal pipelines: those of pipeline k on workers k p to k p + p - 1, or in turn */
    int pipelines = dice_below(dice, 2) ? 1 : 1 + (int)dice_below(dice, 3);
    bool in_turn = dice_below(dice, 2);
    for (int i = 0; i < plan->stage_count; i++) {
        int each = stages[i].width, *workers = SL_NEW(arena, int, each *pipelines);
        for (int r = 0; r < each * pipelines; r++) {
            int rank = stages[i].workers[r % each];
            workers[r] = in_turn ? rank * pipelines + r / each : r / each * p + rank;
        }
        stages[i].workers = workers;
        stages[i].width = each * pipelines;
        set_bytes(&stages[i]);
        stages[i].recompute = dice_below(dice, 8) == 0;
    }
    struct sl_plan draft = *plan;
    draft.stages = stages;
    draft.worker_count = p * pipelines;
    draft.memory_bytes = NULL;
    must(sl_plan_build(arena, &draft, &plan));
    return plan;
}

static int draw_edges(struct dice *dice, int stages, struct sl_edge *edges) {
    int count = 0;
    bool chain = dice_below(dice, 4) == 0;
    for (int to = 1; to < stages; to++)
        for (int from = 0; from < to; from++)
            if (chain ? from == to - 1 : dice_below(dice, stages) < 2)
                edges[count++] = (struct sl_edge){.from = from, .to = to, .sample_bytes = 3};
    if (stages > 2 && count && dice_below(dice, 8) == 0) /* two edges between the same stages */
        edges[count++] = edges[0];
    return count;
}

static const struct sl_plan *draw_dag(struct sl_arena *arena, struct dice *dice,
                                      const struct sl_schedule *row, int size) {
    static const int64_t sizes[] = {1, 2, 3, 4, 6};
    int n = 1 + (int)dice_below(dice, size), workers = 0;
    struct sl_stage *stages = SL_NEW(arena, struct sl_stage, n);
    struct sl_edge *edges = SL_NEW(arena, struct sl_edge, n * n + 1);
    bool own_sizes = row->any_micro_size && dice_below(dice, 2), wide = dice_below(dice, 3) == 0;
    bool shared = dice_below(dice, 3) == 0, tied = n > 1 && dice_below(dice, 4) == 0;
    if (row->rule != SL_RULE_SYNC && (wide || tied))
        shared = false;
    for (int i = 0; i < n; i++) {
        stages[i] = (struct sl_stage){.name = sl_arena_printf(arena, "s%d", i),
                                      .width = wide ? 1 + (int)dice_below(dice, 3) : 1,
                                      .micro_size = own_sizes ? sizes[dice_below(dice, 5)] : 2,
                                      .recompute = dice_below(dice, 6) == 0};
        set_bytes(&stages[i]);
        int *at = SL_NEW(arena, int, stages[i].width);
        for (int r = 0; r < stages[i].width; r++)
            at[r] = workers++;
        stages[i].workers = at;
    }
    if (shared && workers > 1) { /* fold the workers; keep replicas of a stage apart */
        int fewer = 3 + (int)dice_below(dice, workers);
        for (int i = 0; i < n; i++)
            for (int r = 0; r < stages[i].width; r++)
                ((int *)(uintptr_t)stages[i].workers)[r] %= fewer;
        workers = fewer < workers ? fewer : workers;
    }
    int ends[] = {0, n - 1};
    struct sl_tie tie = {.name = "tie", .stages = ends, .count = 2, .bytes = 11};
    struct sl_plan draft = {.stages = stages,
                            .stage_count = n,
                            .edges = edges,
                            .edge_count = draw_edges(dice, n, edges),
                            .ties = &tie,
                            .tie_count = tied,
                            .worker_count = workers};
    const struct sl_plan *plan;
    must(sl_plan_build(arena, &draft, &plan));
    return plan;
}

/* One of the policies that serve the row's version rule, or none. */
static void draw_policy(struct sl_arena *arena, struct dice *dice, const struct sl_schedule *row,
                        struct sl_schedule_opts *opts) {
    struct sl_policy_use *use = SL_NEW(arena, struct sl_policy_use, 1);
    must(sl_optim_policy_parse(sl_optim_policies[dice_below(dice, sl_optim_policy_count)]->name,
                               use));
    if (sl_optim_policy_serves(use, sl_sched_rule_name(row->rule), NULL) == SL_OK)
        opts->policy = use;
}

/* A k of its own for some stages. */
static const struct sl_plan *draw_groups(struct sl_arena *arena, struct dice *dice,
                                         const struct sl_plan *plan) {
    struct sl_plan draft = *plan;
    struct sl_stage *stages = SL_NEW(arena, struct sl_stage, plan->stage_count);
    for (int i = 0; i < plan->stage_count; i++) {
        stages[i] = plan->stages[i];
        stages[i].group = (int)dice_below(dice, 4);
    }
    draft.stages = stages;
    SL_ASSERT(sl_plan_build(arena, &draft, &plan) == SL_OK);
    return plan;
}

struct sched_case sched_case_draw(struct sl_arena *arena, struct dice *dice,
                                  const struct sl_schedule *row, int size) {
    struct sched_case out = {.opts = {.schedule = row->name}};
    out.plan =
        is_chain_only(row) ? draw_chain(arena, dice, row, size) : draw_dag(arena, dice, row, size);
    int64_t micros = 1 + dice_below(dice, 2 * size), workers = out.plan->worker_count;
    if (row->micros_divide)
        micros = workers * (1 + dice_below(dice, 3));
    if (row->micros_per_worker)
        micros = row->micros_per_worker * workers + dice_below(dice, size);
    int64_t unit = is_chain_only(row) ? 1 : 2;
    out.opts.batch = micros * unit;
    if (row->any_micro_size && dice_below(dice, 2)) /* a short last micro-batch */
        out.opts.batch += dice_below(dice, 5);
    out.opts.iters = 1 + dice_below(dice, row->rule == SL_RULE_SYNC ? 4 : 12);
    if (row->rule == SL_RULE_FORWARD)
        out.opts.iters = 1;
    if (dice_below(dice, 3) == 0 && (out.opts.iters > 1 || !is_chain_only(row)))
        out.opts.last_batch = 1 + dice_below(dice, out.opts.batch);
    if (row->groups && dice_below(dice, 2))
        out.opts.group = 1 + dice_below(dice, 3);
    else if (row->groups)
        out.plan = draw_groups(arena, dice, out.plan);
    if (row->rule != SL_RULE_SYNC && row->rule != SL_RULE_FORWARD)
        draw_policy(arena, dice, row, &out.opts);
    out.opts.global_step =
        row->rule != SL_RULE_SYNC && row->rule != SL_RULE_FORWARD && dice_below(dice, 2);
    if (dice_below(dice, 3) == 0)
        out.opts.slack = 1 + dice_below(dice, 2);
    return out;
}

struct sl_sched *sched_copy(struct sl_arena *arena, const struct sl_sched *sched) {
    struct sl_sched *copy = SL_NEW(arena, struct sl_sched, 1);
    *copy = *sched;
    for (int s = 0; s < SL_SEGMENT_COUNT; s++) {
        copy->lists[s] = SL_NEW(arena, struct sl_actions, sched->plan->worker_count);
        for (int w = 0; w < sched->plan->worker_count; w++) {
            const struct sl_actions *from = &sched->lists[s][w];
            struct sl_actions *to = &copy->lists[s][w];
            to->count = from->count;
            to->at = SL_NEW(arena, struct sl_action, from->count + 1); /* room for a duplicate */
            if (from->count)
                memcpy(to->at, from->at, sizeof *to->at * (size_t)from->count);
        }
    }
    return copy;
}
