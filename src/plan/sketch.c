/* Plans without a model: chains and small graphs, for `sluice sched --chain` and for tests. */
#include "plan/plan.h"

#include "base/lex.h"
#include "base/vec.h"

typedef SL_VEC(struct sl_stage) stage_vec;
typedef SL_VEC(struct sl_edge) edge_vec;

/* Every stage of a sketch has one sample per micro-batch and one unit of each kind of bytes. */
static struct sl_stage sketch_stage(const char *name) {
    return (struct sl_stage){
        .name = name,
        .width = 1,
        .micro_size = 1,
        .bytes = {.params = 1, .grads = 1, .stash = 1, .saved = 1, .kept = 1},
    };
}

bool sl_plan_is_sketch(const struct sl_plan *plan) {
    const struct sl_stage_bytes want = sketch_stage("").bytes;
    bool same = !plan->node_count;
    for (int s = 0; s < plan->stage_count && same; s++) {
        const struct sl_stage_bytes *is = &plan->stages[s].bytes;
        same = is->params == want.params && is->grads == want.grads && is->state == want.state &&
               is->stash == want.stash && is->saved == want.saved && is->kept == want.kept &&
               is->work == want.work;
    }
    return same;
}

static int place(enum sl_layout layout, int stage, int stages, int workers) {
    if (layout == SL_LAYOUT_V)
        return stage < workers ? stage : stages - 1 - stage;
    return stage % workers;
}

sl_err sl_plan_chain(struct sl_arena *arena, int stages, int workers, enum sl_layout layout,
                     const struct sl_plan **out) {
    if (stages < 1 || stages > SL_STAGE_MAX)
        return sl_fail(SL_ERR_USAGE, "a chain has 1 to %d stages", SL_STAGE_MAX);
    if (workers < 1 || workers > stages)
        return sl_fail(SL_ERR_USAGE, "%d stages need 1 to %d workers, not %d", stages, stages,
                       workers);
    if (layout == SL_LAYOUT_V && stages != 2 * workers)
        return sl_fail(SL_ERR_REFUSED, "a V needs two stages per worker: %d workers, %d stages",
                       workers, stages);
    if (layout == SL_LAYOUT_CROSS && (stages != workers || stages % 2))
        return sl_fail(SL_ERR_REFUSED,
                       "two crossing pipelines need an even number of stages and as many workers: "
                       "%d stages, %d workers",
                       stages, workers);
    struct sl_stage *list = SL_NEW(arena, struct sl_stage, stages);
    struct sl_edge *edges = SL_NEW(arena, struct sl_edge, stages);
    for (int i = 0; i < stages; i++) {
        int *at = SL_NEW(arena, int, 2);
        at[0] = place(layout, i, stages, workers);
        at[1] = stages - 1 - i;
        list[i] = sketch_stage(sl_arena_printf(arena, "s%d", i));
        list[i].width = layout == SL_LAYOUT_CROSS ? 2 : 1;
        list[i].workers = at;
        edges[i] = (struct sl_edge){.from = i, .to = i + 1, .sample_bytes = 1};
    }
    struct sl_plan draft = {.stages = list,
                            .stage_count = stages,
                            .edges = edges,
                            .edge_count = stages - 1,
                            .worker_count = workers};
    return sl_plan_build(arena, &draft, out);
}

static int add_stage(struct sl_arena *arena, stage_vec *stages, struct sl_str name) {
    for (int i = 0; i < (int)stages->count; i++)
        if (sl_str_is(name, stages->at[i].name))
            return i;
    SL_PUSH(stages, sketch_stage(sl_arena_dup(arena, name.at, name.length)));
    return (int)stages->count - 1;
}

/* Parses "name (> name)*", separated by commas. */
static sl_err parse_dag(struct sl_arena *arena, struct sl_lex *lex, stage_vec *stages,
                        edge_vec *edges) {
    while (lex->tok.kind != SL_TOK_END) {
        struct sl_str name;
        SL_TRY(sl_lex_take_name(lex, "a stage", &name));
        int from = add_stage(arena, stages, name);
        while (sl_lex_is(lex, ">")) {
            SL_TRY(sl_lex_next(lex));
            SL_TRY(sl_lex_take_name(lex, "a stage", &name));
            int to = add_stage(arena, stages, name);
            SL_PUSH(edges, ((struct sl_edge){.from = from, .to = to, .sample_bytes = 1}));
            from = to;
        }
        if (lex->tok.kind != SL_TOK_END)
            SL_TRY(sl_lex_expect(lex, ","));
    }
    return SL_OK;
}

sl_err sl_plan_dag(struct sl_arena *arena, const char *text, int workers,
                   const struct sl_plan **out) {
    stage_vec stages = {0};
    edge_vec edges = {0};
    struct sl_lex lex;
    sl_err err;
    SL_TRY_OUT(sl_lex_open(&lex, "--dag", text, sl_str(text).length, false));
    SL_TRY_OUT(parse_dag(arena, &lex, &stages, &edges));
    struct sl_plan draft = {.stages = stages.at,
                            .stage_count = (int)stages.count,
                            .edges = edges.at,
                            .edge_count = (int)edges.count,
                            .worker_count = workers ? workers : (int)stages.count};
    int *at = SL_NEW(arena, int, stages.count);
    for (int i = 0; i < (int)stages.count && draft.worker_count > 0; i++) {
        at[i] = i % draft.worker_count;
        stages.at[i].workers = &at[i];
    }
    SL_TRY_OUT(sl_plan_build(arena, &draft, out));
out:
    SL_VEC_FREE(&stages);
    SL_VEC_FREE(&edges);
    return err;
}
