/* sluice: everything the others offer, plans along the graph with replicas and recomputation for
 * every schedule and micro-batch size, then branch and bound on simulated time. */
#include "search/planner.h"

#include "base/par.h"

/* ---- our own cuts, one search per schedule, size and rule, side by side ---- */

struct job {
    const char *schedule;
    int size;
    enum sl_recompute recompute;
    struct sl_arena arena;
    struct sl_cut_found found;
};

struct jobs {
    const struct sl_query *query;
    int64_t limit; /* the best step so far */
    const struct sl_family *family;
    struct job *at;
};

static void search_one(void *ctx, int64_t i) {
    const struct jobs *jobs = ctx;
    struct job *job = &jobs->at[i];
    const struct sl_problem *p = jobs->query->problem;
    struct sl_cut_rules rules = {.recompute = job->recompute,
                                 .schedule = job->schedule,
                                 .size = job->size,
                                 .devices = p->machine->device_count,
                                 .labels = 32,
                                 .limit = jobs->limit,
                                 .memory_scale = sl_search_query_memory(jobs->query),
                                 .tolerance = jobs->family->ideals.count > 256 ? 2e-3 : 0};
    sl_search_cuts_search(&job->arena, p, jobs->family, &rules, jobs->query->until_ns, &job->found);
}

/* Replicas of a stage side by side, and pipelines side by side. */
static void offer_both(struct sl_contest *contest, const struct sl_candidate *found) {
    struct sl_candidate c = *found;
    bool equal = c.stage_count > 1 && c.width[0] > 1;
    for (int s = 1; s < c.stage_count; s++)
        equal &= c.width[s] == c.width[0];
    sl_search_contest_offer(contest, &c, "sluice");
    if (!equal || contest->query->problem->machine->kind_count > 1)
        return;
    c.across = true;
    c.order = NULL;
    sl_search_contest_offer(contest, &c, "sluice");
}

static void offer_own(struct sl_contest *contest, const struct sl_family *family) {
    const struct sl_problem *p = contest->query->problem;
    struct sl_arena arena = {0};
    const char *one[SL_QUERY_SCHEDULES];
    const char *const *schedules = sl_search_query_schedules(contest->query, one);
    int schedule_count = 0, count = 0;
    while (schedules[schedule_count])
        schedule_count++;
    struct jobs jobs = {contest->query, contest->out->found ? contest->out->best.score.step_ns : 0,
                        family, SL_NEW(&arena, struct job, 2 * schedule_count * p->size_count)};
    for (int s = 0; s < schedule_count; s++)
        for (int size = 0; size < p->size_count; size++)
            for (int again = 0;
                 again < 2 && !sl_search_contest_hopeless(contest, schedules[s], size); again++)
                jobs.at[count++] =
                    (struct job){.schedule = schedules[s],
                                 .size = size,
                                 .recompute = again ? SL_RECOMPUTE_ALWAYS : SL_RECOMPUTE_MAY};
    contest->out->tight_bytes = INT64_MAX;
    sl_search_contest_tell(contest, "cuts");
    sl_par_for(count, contest->query->threads, search_one, &jobs);
    for (int i = 0; i < count; i++) {
        struct sl_cut_found *found = &jobs.at[i].found;
        contest->out->pairs += found->pairs;
        if (!found->at.count && found->tight_bytes < contest->out->tight_bytes) {
            contest->out->tight_unit = found->tight_unit;
            contest->out->tight_bytes = found->tight_bytes;
        }
        for (int64_t k = 0; k < found->at.count; k++)
            offer_both(contest, &found->at.at[k]);
        SL_VEC_FREE(&found->at);
        sl_arena_free(&jobs.at[i].arena);
    }
    sl_arena_free(&arena);
}

/* The graph with its true edges cannot be slower than the same stages in a row. */
static void offer_free(struct sl_contest *contest) {
    for (int64_t i = 0, count = contest->at.count; i < count; i++) {
        struct sl_candidate c = contest->at.at[i].c;
        if (!c.sequential)
            continue;
        c.sequential = false;
        sl_search_contest_offer(contest, &c, contest->at.at[i].planner);
    }
}

/* What the other rows would play, each with a budget of its own. The graph with its true edges is
 * tried beside the same stages in a row. */
static void play_others(struct sl_contest *contest) {
    static const char *const cuts[] = {"graphpipe", "pipedream", "piper"};
    sl_search_offer_even(contest);
    sl_search_contest_play(contest);
    sl_search_offer_2bw(contest);
    sl_search_contest_play(contest);
    sl_search_offer_hetpipe(contest);
    sl_search_contest_play(contest);
    bool large = contest->query->problem->unit_count > 256; /* piper takes long to say no */
    for (int i = 0; i < SL_COUNT(cuts) - large && !sl_search_query_over(contest->query); i++) {
        sl_search_contest_tell(contest, cuts[i]);
        sl_search_offer_cuts(contest, cuts[i]);
        offer_free(contest);
        sl_search_contest_play(contest);
    }
}

static sl_err run(struct sl_arena *arena, const struct sl_query *query, struct sl_result *out) {
    const struct sl_problem *p = query->problem;
    struct sl_contest contest = {.arena = arena, .query = query, .out = out};
    struct sl_arena scratch = {0};
    struct sl_family family;
    int max = p->unit_count <= 64 ? 2048 : p->unit_count <= 256 ? 1024 : 0;
    sl_search_family_build(&scratch, p, max, &family);
    play_others(&contest);
    sl_search_contest_tell(&contest, "shapes");
    sl_search_offer_shapes(&contest);
    sl_search_offer_eased(&contest);
    sl_search_contest_play(&contest);
    offer_own(&contest, &family);
    sl_search_contest_play(&contest);
    sl_search_refine(&contest, &family, "sluice");
    out->timed_out |= sl_search_query_over(query);
    out->proven &= out->found && !out->timed_out;
    const char *one[SL_QUERY_SCHEDULES];
    sl_search_contest_tell(&contest, "bound");
    out->lower_bound = sl_search_space_bound(p, sl_search_query_schedules(query, one),
                                             sl_search_query_mixes(query));
    out->proven |= out->found && out->best.score.step_ns <= out->lower_bound;
    if (out->proven)
        out->lower_bound = out->best.score.step_ns;
    sl_search_contest_close(&contest);
    sl_arena_free(&scratch);
    return SL_OK;
}

const struct sl_planner sl_search_planner_sluice = {
    .name = "sluice",
    .brief = "the default: graphs of stages, replicas, recomputation, simulated time",
    .replays = 1 << 21,
    .run = run,
};
