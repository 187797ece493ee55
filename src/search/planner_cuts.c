/* graphpipe, pipedream, piper: the bottleneck search under the rules that each of them has.
 *
 *               stages      where they cut            widths     recomputation
 *     graphpipe a graph     branch after branch       doubling   no
 *     pipedream in a row    one topological order     any        no
 *     piper     in a row    every downset             any        per stage
 *
 * Each chooses by its own objective, the bottleneck, for every micro-batch size; the best size is
 * the one that simulates best, as GraphPipe's authors did for all three. piper gives up on graphs
 * with too many downsets, as the original does.
 */
#include "search/planner.h"

#include <string.h>

struct rules {
    const char *name;
    bool sequential, doubling;
    enum sl_recompute recompute;
    int downsets; /* for sl_search_family_build */
    bool whole;   /* give up when there are more downsets */
};

static const struct rules table[] = {
    {"graphpipe", false, true, SL_RECOMPUTE_NEVER, 512, false},
    {"pipedream", true, false, SL_RECOMPUTE_NEVER, 0, false},
    {"piper", true, false, SL_RECOMPUTE_MAY, 20000, true},
};

static void offer_size(struct sl_contest *contest, const struct sl_family *family,
                       const struct rules *r, const char *schedule, int size) {
    const struct sl_problem *p = contest->query->problem;
    struct sl_arena arena = {0};
    struct sl_cut_found found;
    struct sl_cut_rules rules = {.sequential = r->sequential,
                                 .doubling = r->doubling,
                                 .recompute = r->recompute,
                                 .schedule = schedule,
                                 .size = size,
                                 .devices = p->machine->device_count,
                                 .labels = 64,
                                 .best_only = true,
                                 .limit =
                                     contest->out->found ? contest->out->best.score.step_ns : 0,
                                 .memory_scale = sl_search_query_memory(contest->query),
                                 .tolerance = family->ideals.count > 256 ? 1e-3 : 0};
    sl_search_cuts_search(&arena, p, family, &rules, contest->query->until_ns, &found);
    contest->out->pairs += found.pairs;
    if (found.at.count) /* its own choice: the smallest bottleneck */
        sl_search_contest_offer(contest, &found.at.at[0], r->name);
    SL_VEC_FREE(&found.at);
    sl_arena_free(&arena);
}

static sl_err offer(struct sl_contest *contest, const struct rules *r) {
    const struct sl_problem *p = contest->query->problem;
    struct sl_arena arena = {0};
    struct sl_family family;
    const char *one[SL_QUERY_SCHEDULES];
    sl_search_family_build(&arena, p, r->downsets, &family);
    if (r->whole && !family.complete) {
        sl_arena_free(&arena);
        return sl_fail(SL_ERR_REFUSED, "%s: the graph has more than %d downsets", r->name,
                       r->downsets);
    }
    contest->out->complete = family.complete;
    for (const char *const *schedule = sl_search_query_schedules(contest->query, one); *schedule;
         schedule++)
        for (int size = 0; size < p->size_count && !sl_search_query_over(contest->query); size++)
            if (!sl_search_contest_hopeless(contest, *schedule, size))
                offer_size(contest, &family, r, *schedule, size);
    sl_arena_free(&arena);
    return SL_OK;
}

void sl_search_offer_cuts(struct sl_contest *contest, const char *planner) {
    for (int i = 0; i < SL_COUNT(table); i++)
        if (strcmp(table[i].name, planner) == 0 && offer(contest, &table[i]) != SL_OK)
            continue; /* too many downsets: nothing to offer */
}

static sl_err run(struct sl_arena *arena, const struct sl_query *query, struct sl_result *out,
                  const struct rules *rules) {
    struct sl_contest contest = {.arena = arena, .query = query, .out = out};
    sl_err err = offer(&contest, rules);
    if (err == SL_OK)
        sl_search_contest_play(&contest);
    sl_search_contest_close(&contest);
    return err;
}

#define ROW(c_name, index, text)                                                                   \
    static sl_err run_##c_name(struct sl_arena *arena, const struct sl_query *query,               \
                               struct sl_result *out) {                                            \
        return run(arena, query, out, &table[index]);                                              \
    }                                                                                              \
    const struct sl_planner sl_search_planner_##c_name = {                                         \
        .name = #c_name, .brief = (text), .run = run_##c_name}

ROW(graphpipe, 0, "stages along the branches of the graph (GraphPipe)");
ROW(pipedream, 1, "runs of one topological order with replicas (PipeDream)");
ROW(piper, 2, "downsets in a row with replicas and recomputation (Piper)");
