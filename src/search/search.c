/* The road from a planner's result to a plan whose bytes are those of its programs. */
#include "search/search.h"

#include "plan/bytes.h"

#include <stdio.h>
#include <string.h>

enum { PASSES_MAX = 1 << 18 }; /* that are played as a whole: more would take long */

static sl_err stage_bytes(const struct sl_setup *setup, const struct sl_search_spec *spec,
                          const int *stage_of, int stage, struct sl_stage_bytes *out) {
    struct sl_program *p;
    struct sl_program_spec program = {
        .graph = spec->graph,
        .stage_of = stage_of,
        .stage = stage,
        .samples = setup->problem->sizes[sl_candidate_size(&setup->c, stage)],
        .has_kernel = spec->has_kernel,
        .split = sl_search_schedule_splits(setup->c.schedule),
        .recompute = setup->c.recompute[stage],
    };
    SL_TRY(sl_pass_program_build(&program, &p));
    sl_plan_bytes(&(struct sl_bytes_spec){.full = p,
                                          .optim = spec->optim,
                                          .threads = spec->threads > 0 ? spec->threads : 1,
                                          .extra_bytes = spec->extra_bytes},
                  out);
    sl_pass_program_close(p);
    return SL_OK;
}

sl_err sl_search_setup_exact(struct sl_arena *arena, const struct sl_setup *setup,
                             const struct sl_search_spec *spec, const struct sl_stage_bytes **out) {
    const struct sl_problem *p = setup->problem;
    struct sl_stage_bytes *bytes = SL_NEW(arena, struct sl_stage_bytes, setup->c.stage_count);
    int *stage_of = SL_NEW(arena, int, p->graph_nodes + 1);
    for (int u = 0; u < p->unit_count; u++)
        for (int i = 0; i < p->units[u].node_count; i++)
            stage_of[p->units[u].nodes[i]] = setup->c.stage_of[u];
    for (int s = 0; s < setup->c.stage_count; s++)
        SL_TRY(stage_bytes(setup, spec, stage_of, s, &bytes[s]));
    *out = bytes;
    return SL_OK;
}

/* Exact bytes of one found plan; true: it fits (or nothing exact is known). */
static sl_err settle(struct sl_arena *arena, const struct sl_search_spec *spec,
                     struct sl_found *found, struct sl_search *out, bool *fits) {
    const struct sl_problem *p = spec->query.problem;
    out->bytes = NULL;
    sl_search_setup_build(arena, p, &found->c, &out->setup);
    if (spec->graph && strcmp(p->precision, "fp32") == 0)
        SL_TRY(sl_search_setup_exact(arena, &out->setup, spec, &out->bytes));
    SL_TRY(sl_search_setup_score(&out->setup, out->bytes, &found->score));
    *fits = found->score.over_bytes <= 0;
    return SL_OK;
}

/* The best, then its runners-up, until one fits with its true bytes. */
static sl_err settle_any(struct sl_arena *arena, const struct sl_search_spec *spec,
                         struct sl_search *out, bool *fits) {
    struct sl_result *r = &out->result;
    SL_TRY(settle(arena, spec, &r->best, out, fits));
    for (int i = 0; i < r->runner_count && !*fits; i++) {
        struct sl_found swap = r->best;
        SL_TRY(settle(arena, spec, &r->runner[i], out, fits));
        if (!*fits)
            continue;
        r->best = r->runner[i];
        r->runner[i] = swap;
        r->proven = false;
    }
    return SL_OK;
}

static bool is_before(const struct sl_found *a, const struct sl_found *b) {
    return a->score.step_ns < b->score.step_ns;
}

/* Searches play large setups as one of their pipelines, and the best one was then played as a
 * whole. Runners-up are, too, so that they compare; one that turns out better, and fits, takes its
 * place. Where that would take long they stay as far behind as the search saw them (best_ns: the
 * best). */
static sl_err rank_runners(struct sl_arena *arena, const struct sl_search_spec *spec,
                           int64_t best_ns, struct sl_search *out) {
    int64_t max = spec->planner->replays ? spec->planner->replays : PASSES_MAX;
    struct sl_result *r = &out->result;
    struct sl_search other;
    int64_t passes = 0;
    double scale = (double)r->best.score.step_ns / (double)(best_ns > 0 ? best_ns : 1);
    for (int i = 0; i < r->runner_count; i++) {
        struct sl_found *runner = &r->runner[i];
        struct sl_score score;
        bool fits;
        sl_search_setup_build(arena, spec->query.problem, &runner->c, &other.setup);
        passes += sl_search_setup_all_passes(&other.setup);
        if (passes > max || sl_search_setup_score(&other.setup, NULL, &score) != SL_OK) {
            runner->score.step_ns = (int64_t)((double)runner->score.step_ns * scale);
            runner->score.sim_ns = (int64_t)((double)runner->score.sim_ns * scale);
            continue;
        }
        runner->score = score;
        if (!is_before(runner, &r->best))
            continue;
        SL_TRY(settle(arena, spec, runner, &other, &fits));
        if (!fits)
            continue;
        struct sl_found swap = r->best;
        r->best = *runner;
        *runner = swap;
        out->setup = other.setup;
        out->bytes = other.bytes;
    }
    for (int i = 1; i < r->runner_count; i++)
        for (int k = i; k > 0 && is_before(&r->runner[k], &r->runner[k - 1]); k--) {
            struct sl_found swap = r->runner[k];
            r->runner[k] = r->runner[k - 1];
            r->runner[k - 1] = swap;
        }
    return SL_OK;
}

/* The next search may use so much of the memory that what it takes for fitting does fit. */
static void shrink(double *scale, const struct sl_score *score) {
    double limit = (double)(score->peak_bytes - score->over_bytes);
    *scale *= 0.99 * limit / (double)score->peak_bytes;
}

/* Searches until the plan fits with its true bytes; *fits: one was found. Otherwise out->result
 * knows what came near. */
static sl_err look(struct sl_arena *arena, const struct sl_search_spec *spec, struct sl_search *out,
                   bool *fits) {
    enum { ROUNDS = 6 };
    struct sl_query query = spec->query;
    *out = (struct sl_search){0};
    *fits = false;
    query.memory_scale = query.cut_scale = 1;
    for (int round = 0; round < ROUNDS && !*fits; round++) {
        struct sl_result result = {.tight_unit = 0};
        SL_TRY(spec->planner->run(arena, &query, &result));
        const struct sl_score *near = &result.near.score;
        if (!result.found && result.near_found && !out->result.found &&
            near->over_bytes < near->peak_bytes / 8) {
            shrink(&query.cut_scale,
                   &result.near.score); /* estimates were a little low: again with less */
            out->result = result;
            out->result.found = false;
            continue;
        }
        if (!result.found) {
            if (result.near_found || !out->result.near_found)
                out->result = result;
            return SL_OK;
        }
        result.proven &= round == 0; /* under the memory that the first search had */
        out->result = result;
        out->rounds = round + 1;
        int64_t best_ns = result.best.score.step_ns;
        SL_TRY(settle_any(arena, spec, out, fits));
        if (!*fits)
            shrink(&query.memory_scale, &out->result.best.score);
        else
            SL_TRY(rank_runners(arena, spec, best_ns, out));
    }
    if (!*fits && out->result.found) {
        out->result.near = out->result.best;
        out->result.near_found = true;
    }
    return SL_OK;
}

/* Does something fit when every device has `times` its memory? */
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
    sl_err err = look(&arena, &more, &found, &fits);
    sl_arena_free(&arena);
    return err == SL_OK && fits;
}

/* How many times the memory is enough, to a few percent; 0: not found. Large problems are not
 * searched again and again. */
static double find_memory(const struct sl_search_spec *spec) {
    enum { DOUBLINGS = 8, HALVINGS = 5, LARGE = 1 << 14 };
    const struct sl_problem *p = spec->query.problem;
    double low = 1, high = 1;
    if ((int64_t)p->unit_count * p->machine->device_count > LARGE ||
        sl_search_query_over(&spec->query))
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
                           struct sl_result *r) {
    const struct sl_problem *p = spec->query.problem;
    struct sl_search exact;
    bool fits;
    if (r->near_found) /* by how much does it miss in true bytes? */
        SL_TRY(settle(arena, spec, &r->near, &exact, &fits));
    char a[SL_HUMAN_BYTES], b[SL_HUMAN_BYTES], advice[128] = "more memory";
    double times = find_memory(spec);
    if (r->near_found)
        snprintf(advice, sizeof advice, "about %s a device",
                 sl_human_bytes(r->near.score.peak_bytes, a));
    if (times > 0)
        snprintf(advice, sizeof advice, "%s a device (--memory %lld)",
                 sl_human_bytes((int64_t)((double)p->memory[0] * times), a),
                 (long long)((double)p->memory[0] * times));
    if (!r->near_found)
        return sl_fail(SL_ERR_REFUSED,
                       "no plan of %s for %s: unit %s alone lacks %s on a device of its own; it "
                       "fits with %s; or try a smaller micro-batch",
                       p->model, p->machine->name, p->units[r->tight_unit].name,
                       sl_human_bytes(r->tight_bytes > 0 ? r->tight_bytes : 0, a), advice);
    const struct sl_score *s = &r->near.score;
    int64_t over = s->over_bytes > 0 ? s->over_bytes : 0;
    return sl_fail(
        SL_ERR_REFUSED,
        "no plan of %s fits %s: the nearest has %d stages (%s, micro-batch %lld), and "
        "stage s%d on worker %d needs %s more than the %s there are. It fits with %s; or "
        "try more devices, a smaller batch, an optimizer with less state",
        p->model, p->machine->name, r->near.c.stage_count, r->near.c.schedule,
        (long long)p->sizes[r->near.c.size], s->over_stage, s->over_worker, sl_human_bytes(over, a),
        sl_human_bytes(p->memory[0], b), advice);
}

sl_err sl_search_run(struct sl_arena *arena, const struct sl_search_spec *spec,
                     struct sl_search *out) {
    bool fits;
    SL_TRY(look(arena, spec, out, &fits));
    if (!fits)
        return nothing_fits(arena, spec, &out->result);
    sl_search_setup_bottleneck(&out->setup, &out->bottleneck_stage);
    if (spec->query.problem->tempo.passes && sl_search_setup_all_passes(&out->setup) <= PASSES_MAX)
        SL_TRY(sl_search_setup_forecast(&out->setup, out->bytes, &out->forecast_ns));
    return sl_search_setup_plan(arena, &out->setup, out->bytes, &out->plan);
}

int64_t sl_search_what_if(const struct sl_search_spec *spec, double memory, double bandwidth) {
    struct sl_arena arena = {0};
    struct sl_problem p = *spec->query.problem;
    struct sl_machine m = *p.machine;
    struct sl_query query = spec->query;
    struct sl_result result = {0};
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
    sl_err err = spec->planner->run(&arena, &query, &result);
    int64_t step = err == SL_OK && result.found ? result.best.score.step_ns : 0;
    sl_arena_free(&arena);
    return step;
}
