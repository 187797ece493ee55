/* Turns a planner's result into a plan with exact bytes (search.h). */
#include "search/search.h"

#include "base/clock.h"
#include "plan/bytes.h"

#include <stdio.h>
#include <string.h>

/* Largest number of passes that are simulated without folding. More would take too long. */
enum { PASSES_MAX = 1 << 18 };

static sl_err stage_bytes(const struct sl_candidate_detail *detail,
                          const struct sl_search_spec *spec, const int *stage_of, int stage,
                          struct sl_stage_bytes *out) {
    struct sl_program *p;
    struct sl_program_spec program = {
        .graph = spec->graph,
        .stage_of = stage_of,
        .stage = stage,
        .samples = detail->problem->sizes[sl_search_candidate_size(&detail->c, stage)],
        .has_kernel = spec->has_kernel,
        .split = sl_search_schedule_splits(detail->c.schedule),
        .recompute = sl_search_candidate_recomputes(detail, stage),
    };
    SL_TRY(sl_pass_program_build(&program, &p));
    sl_plan_bytes(
        &(struct sl_bytes_spec){.full = p,
                                .optim = spec->optim,
                                .divided = detail->problem->zero1 ? detail->c.width[stage] : 1,
                                .threads = spec->threads > 0 ? spec->threads : 1,
                                .extra_bytes = spec->extra_bytes},
        out);
    sl_pass_program_close(p);
    return SL_OK;
}

sl_err sl_search_candidate_exact_bytes(struct sl_arena *arena,
                                       const struct sl_candidate_detail *detail,
                                       const struct sl_search_spec *spec,
                                       const struct sl_stage_bytes **out) {
    const struct sl_problem *p = detail->problem;
    struct sl_stage_bytes *bytes = SL_NEW(arena, struct sl_stage_bytes, detail->c.stage_count);
    int *stage_of = SL_NEW(arena, int, p->graph_nodes + 1);
    for (int u = 0; u < p->unit_count; u++)
        for (int i = 0; i < p->units[u].node_count; i++)
            stage_of[p->units[u].nodes[i]] = detail->c.stage_of[u];
    if (p->whole_of) {
        const int *whole = stage_of;
        stage_of = SL_NEW(arena, int, spec->graph->forward_count + 1);
        for (int n = 0; n < spec->graph->forward_count; n++)
            stage_of[n] = whole[p->whole_of[n]];
    }
    for (int s = 0; s < detail->c.stage_count; s++)
        SL_TRY(stage_bytes(detail, spec, stage_of, s, &bytes[s]));
    *out = bytes;
    return SL_OK;
}

/* Computes exact bytes and the score of one candidate (estimated bytes if the dtype is not
 * fp32). */
static sl_err rescore(struct sl_arena *arena, const struct sl_search_spec *spec,
                      struct sl_candidate_entry *found, struct sl_search *out, bool *fits) {
    const struct sl_problem *p = spec->query.problem;
    out->bytes = NULL;
    sl_search_candidate_expand(arena, p, &found->c, &out->detail);
    if (spec->graph && p->exact_bytes)
        SL_TRY(sl_search_candidate_exact_bytes(arena, &out->detail, spec, &out->bytes));
    SL_TRY(sl_search_candidate_simulate(&out->detail, out->bytes, &found->score));
    *fits = found->score.over_bytes <= 0;
    return SL_OK;
}

/* Rescores the best plan, then its runners-up, until one fits with its exact bytes. */
static sl_err rescore_any(struct sl_arena *arena, const struct sl_search_spec *spec,
                          struct sl_search *out, bool *fits) {
    struct sl_search_result *r = &out->result;
    SL_TRY(rescore(arena, spec, &r->best, out, fits));
    out->retried |= !*fits;
    for (int i = 0; i < r->runner_count && !*fits; i++) {
        struct sl_candidate_entry swap = r->best;
        SL_TRY(rescore(arena, spec, &r->runner[i], out, fits));
        if (!*fits)
            continue;
        r->best = r->runner[i];
        r->runner[i] = swap;
        r->proven = false;
    }
    return SL_OK;
}

static bool is_before(const struct sl_candidate_entry *a, const struct sl_candidate_entry *b) {
    return a->score.step_ns < b->score.step_ns;
}

/* Ranks the runners-up. Planners simulate large candidates folded, and the best one was then
 * simulated as a whole; this does the same with runners-up, so that they compare. A runner-up that
 * is better and fits becomes the best. After a limit of passes, their times are scaled by the same
 * factor as that of the best (best_ns is its folded time). */
static sl_err rank_runners(struct sl_arena *arena, const struct sl_search_spec *spec,
                           int64_t best_ns, struct sl_search *out) {
    int64_t max = spec->planner->replays ? spec->planner->replays : PASSES_MAX;
    struct sl_search_result *r = &out->result;
    struct sl_search other;
    int64_t passes = 0;
    double scale = (double)r->best.score.step_ns / (double)(best_ns > 0 ? best_ns : 1);
    for (int i = 0; i < r->runner_count; i++) {
        struct sl_candidate_entry *runner = &r->runner[i];
        struct sl_candidate_score score;
        bool fits;
        sl_search_candidate_expand(arena, spec->query.problem, &runner->c, &other.detail);
        int64_t whole = sl_search_candidate_passes(&other.detail);
        passes += whole;
        r->out_of_budget |=
            passes > max && whole != sl_search_candidate_folded_passes(&other.detail);
        if (passes > max || sl_search_candidate_simulate(&other.detail, NULL, &score) != SL_OK) {
            runner->score.step_ns = (int64_t)((double)runner->score.step_ns * scale);
            runner->score.sim_ns = (int64_t)((double)runner->score.sim_ns * scale);
            continue;
        }
        runner->score = score;
        if (!is_before(runner, &r->best))
            continue;
        SL_TRY(rescore(arena, spec, runner, &other, &fits));
        if (!fits)
            continue;
        struct sl_candidate_entry swap = r->best;
        r->best = *runner;
        *runner = swap;
        out->detail = other.detail;
        out->bytes = other.bytes;
    }
    for (int i = 1; i < r->runner_count; i++)
        for (int k = i; k > 0 && is_before(&r->runner[k], &r->runner[k - 1]); k--) {
            struct sl_candidate_entry swap = r->runner[k];
            r->runner[k] = r->runner[k - 1];
            r->runner[k - 1] = swap;
        }
    return SL_OK;
}

/* Reduces the memory for the next search by the factor by which this candidate exceeded it. */
static void shrink(double *scale, const struct sl_candidate_score *score) {
    double limit = (double)(score->peak_bytes - score->over_bytes);
    *scale *= 0.99 * limit / (double)score->peak_bytes;
}

/* Searches until a plan fits with its exact bytes (*fits). If none does, out->result.nearest is the
 * candidate that lacks the fewest bytes. */
static sl_err search_rounds(struct sl_arena *arena, const struct sl_search_spec *spec,
                            struct sl_search *out, bool *fits) {
    enum { ROUNDS = 6 };
    struct sl_search_query query = spec->query;
    *out = (struct sl_search){0};
    *fits = false;
    query.memory_scale = query.cut_scale = 1;
    for (int round = 0; round < ROUNDS && !*fits; round++) {
        struct sl_search_result result = {.tight_unit = 0};
        SL_TRY(spec->planner->run(arena, &query, &result));
        result.timed_out |= sl_search_query_timed_out(&query);
        const struct sl_candidate_score *nearest = &result.nearest.score;
        if (!result.found && result.nearest_found && !out->result.found &&
            nearest->over_bytes < nearest->peak_bytes / 8) {
            shrink(&query.cut_scale, &result.nearest.score); /* the estimate was a little too low */
            out->result = result;
            out->result.found = false;
            continue;
        }
        if (!result.found) {
            if (result.nearest_found || !out->result.nearest_found)
                out->result = result;
            return SL_OK;
        }
        result.proven &= round == 0; /* later rounds had less memory, so they prove nothing */
        out->result = result;
        out->rounds = round + 1;
        int64_t best_ns = result.best.score.step_ns;
        SL_TRY(rescore_any(arena, spec, out, fits));
        if (!*fits)
            shrink(&query.memory_scale, &out->result.best.score);
        else
            SL_TRY(rank_runners(arena, spec, best_ns, out));
    }
    out->retried |= out->rounds > 1;
    if (!*fits && out->result.found) {
        out->result.nearest = out->result.best;
        out->result.nearest_found = true;
    }
    return SL_OK;
}

/* Did this planner have no candidate that fits? It then gets a round with less memory. In large
 * problems such rounds take long, so a planner without any candidate does not count. */
static bool has_missed(const struct sl_problem *p, const struct sl_search_result *result,
                       const struct sl_planner *planner) {
    enum { LARGE = 256 }; /* number of units */
    for (int i = 0; i < result->tried_count; i++)
        if (strcmp(result->tried[i].planner, planner->name) == 0)
            return result->tried[i].may_fit <= 0;
    return p->unit_count <= LARGE;
}

/* Searches with the planners that this one covers, each with its own rounds; the best plan counts.
 * If this one's plan fitted at once, only those planners are run whose candidates did not fit. */
static sl_err search_covered(struct sl_arena *arena, const struct sl_search_spec *spec,
                             struct sl_search *out, bool *fits) {
    const struct sl_planner *const *row = spec->planner->covers;
    const struct sl_search_result first = out->result;
    bool all = !*fits || out->retried;
    for (; row && *row && !sl_search_query_timed_out(&spec->query); row++) {
        struct sl_search_spec other = *spec;
        struct sl_search found;
        bool found_fits;
        other.planner = *row;
        other.query.quiet = true;
        if (*row == spec->planner || (*row)->oracle ||
            (!all && !has_missed(spec->query.problem, &first, *row)) ||
            search_rounds(arena, &other, &found, &found_fits) != SL_OK)
            continue;
        out->result.timed_out |= found.result.timed_out;
        out->result.out_of_budget |= found.result.out_of_budget && !out->result.proven;
        if (!found_fits || (*fits && !is_before(&found.result.best, &out->result.best)))
            continue;
        found.result.lower_bound = out->result.lower_bound;
        found.result.proven = false;
        found.result.out_of_budget = out->result.out_of_budget;
        found.result.timed_out = out->result.timed_out;
        found.result.offered += out->result.offered;
        found.result.simulated += out->result.simulated;
        *out = found;
        *fits = true;
    }
    return SL_OK;
}

/* Does a plan fit if every device has `times` as much memory? */
static bool fits_with(const struct sl_search_spec *spec, double times) {
    struct sl_arena arena = {0};
    struct sl_search_spec more = *spec;
    struct sl_problem p = *spec->query.problem;
    struct sl_search found;
    bool fits = false;
    int64_t *bytes = SL_NEW(&arena, int64_t, p.machine->device_count);
    for (int d = 0; d < p.machine->device_count; d++)
        bytes[d] = (int64_t)((double)p.memory[d] * times);
    p.memory = bytes;
    more.query.problem = &p;
    more.query.quiet = true;
    sl_err err = search_rounds(&arena, &more, &found, &fits);
    sl_arena_free(&arena);
    return err == SL_OK && fits;
}

/* Returns by which factor the memory must grow for a plan to fit, to a few percent; 0: not found,
 * or the problem is too large to repeat the search. */
static double find_memory(const struct sl_search_spec *spec) {
    enum { DOUBLINGS = 8, HALVINGS = 5, LARGE = 1 << 14 };
    const struct sl_problem *p = spec->query.problem;
    double low = 1, high = 1;
    if ((int64_t)p->unit_count * p->machine->device_count > LARGE ||
        sl_search_query_timed_out(&spec->query))
        return 0;
    for (int i = 0; i < DOUBLINGS && high == low; i++) {
        if (fits_with(spec, 2 * high))
            high *= 2;
        else
            low = high = 2 * high;
    }
    for (int i = 0; i < HALVINGS && high > low; i++) {
        double middle = (low + high) / 2;
        *(fits_with(spec, middle) ? &high : &low) = middle;
    }
    return high > low ? high : 0;
}

static sl_err nothing_fits(struct sl_arena *arena, const struct sl_search_spec *spec,
                           struct sl_search_result *r) {
    const struct sl_problem *p = spec->query.problem;
    struct sl_search exact;
    bool fits;
    if (r->nearest_found) /* computes its exact excess */
        SL_TRY(rescore(arena, spec, &r->nearest, &exact, &fits));
    const char *found = r->timed_out       ? " was found within the time limit"
                        : r->out_of_budget ? " was found within the budget of the search"
                                           : " fits";
    char a[SL_HUMAN_BYTES], b[SL_HUMAN_BYTES], advice[128] = "more memory";
    double times = find_memory(spec);
    if (r->nearest_found)
        snprintf(advice, sizeof advice, "about %s a device",
                 sl_human_bytes(r->nearest.score.peak_bytes, a));
    if (times > 0)
        snprintf(advice, sizeof advice, "%s a device (--memory %lld)",
                 sl_human_bytes((int64_t)((double)p->memory[0] * times), a),
                 (long long)((double)p->memory[0] * times));
    if (!r->nearest_found && r->tight_bytes == INT64_MAX)
        return sl_fail(
            SL_ERR_REFUSED,
            "no plan of %s for %s: this planner makes no stages for `schedule` %s; plan for "
            "another one, e.g. 1f1b",
            p->model, p->machine->name, spec->query.schedule ? spec->query.schedule : "auto");
    if (!r->nearest_found && r->tight_bytes <= 0)
        return sl_fail(SL_ERR_REFUSED,
                       "no plan of %s for %s%s: planner %s finds no stages for %d devices of %s; "
                       "it fits with %s; or try more devices",
                       p->model, p->machine->name, found, spec->planner->name,
                       p->machine->device_count, sl_human_bytes(p->memory[0], b), advice);
    if (!r->nearest_found)
        return sl_fail(SL_ERR_REFUSED,
                       "no plan of %s for %s%s: unit %s alone lacks %s on a device of its own; it "
                       "fits with %s; or try a smaller micro-batch",
                       p->model, p->machine->name, found, p->units[r->tight_unit].name,
                       sl_human_bytes(r->tight_bytes, a), advice);
    const struct sl_candidate_score *s = &r->nearest.score;
    int64_t over = s->over_bytes > 0 ? s->over_bytes : 0;
    return sl_fail(
        SL_ERR_REFUSED,
        "no plan of %s for %s%s: the nearest has %d stages (%s, micro-batch %lld), and "
        "stage s%d on worker %d needs %s more than the %s there are. It fits with %s; or "
        "try more devices, a smaller batch, an optimizer with less state",
        p->model, p->machine->name, found, r->nearest.c.stage_count, r->nearest.c.schedule,
        (long long)p->sizes[r->nearest.c.size], s->over_stage, s->over_worker,
        sl_human_bytes(over, a), sl_human_bytes(p->memory[0], b), advice);
}

/* ---- what if ---- */

/* Returns the best step with `memory` times the memory and `bandwidth` times the bandwidth of all
 * links; 0: no plan was found. */
static int64_t step_with(const struct sl_search_spec *spec, double memory, double bandwidth) {
    struct sl_arena arena = {0};
    struct sl_problem p = *spec->query.problem;
    struct sl_machine m = *p.machine;
    struct sl_search_query query = spec->query;
    struct sl_search_result result = {0};
    struct sl_link *links = sl_vec_freeze(&arena, m.links, m.link_count, sizeof *links);
    int64_t *bytes = SL_NEW(&arena, int64_t, m.device_count);
    for (int i = 0; i < m.link_count; i++)
        links[i].bandwidth *= bandwidth;
    for (int d = 0; d < m.device_count; d++)
        bytes[d] = (int64_t)((double)p.memory[d] * memory);
    m.links = links;
    p.machine = &m;
    p.memory = bytes;
    query.problem = &p;
    query.quiet = true;
    sl_err err = spec->planner->run(&arena, &query, &result);
    int64_t step = err == SL_OK && result.found ? result.best.score.step_ns : 0;
    sl_arena_free(&arena);
    return step;
}

/* Searches again with twice the memory, or twice the bandwidth. */
static void fill_what_ifs(const struct sl_search_spec *spec, struct sl_search *out) {
    enum { QUICK_NS = 2000000000 };
    static const struct sl_search_what_if rows[SL_SEARCH_WHAT_IFS] = {
        {.memory = 2, .bandwidth = 1}, {.memory = 1, .bandwidth = 2}};
    if (!spec->what_if || out->search_ns > QUICK_NS)
        return;
    for (int i = 0; i < SL_SEARCH_WHAT_IFS; i++) {
        out->what_if[i] = rows[i];
        out->what_if[i].step_ns = step_with(spec, rows[i].memory, rows[i].bandwidth);
    }
    out->what_if_count = SL_SEARCH_WHAT_IFS;
}

sl_err sl_search_run(struct sl_arena *arena, const struct sl_search_spec *spec,
                     struct sl_search *out) {
    int64_t start_ns = sl_clock_ns();
    bool fits;
    SL_TRY(search_rounds(arena, spec, out, &fits));
    if (!fits || out->retried || !out->result.proven)
        SL_TRY(search_covered(arena, spec, out, &fits));
    if (!fits)
        return nothing_fits(arena, spec, &out->result);
    sl_search_candidate_bottleneck(&out->detail, &out->bottleneck_stage);
    if (spec->query.problem->tempo.passes && sl_search_candidate_passes(&out->detail) <= PASSES_MAX)
        SL_TRY(sl_search_candidate_forecast(&out->detail, out->bytes, &out->forecast_ns));
    SL_TRY(sl_search_candidate_plan(arena, &out->detail, out->bytes, &out->plan));
    out->search_ns = sl_clock_ns() - start_ns;
    out->all_reduce_count =
        sl_search_all_reduces(&out->detail, out->result.best.score.sim_ns, out->all_reduce);
    fill_what_ifs(spec, out);
    return SL_OK;
}
