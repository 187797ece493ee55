/* Schedules from files as rows. */
#include "schedules/given.h"

#include "lower/lower.h"
#include "sched/order.h"
#include "schedules/gen.h"

#include <string.h>

static bool is_pass(const struct sl_action *a) { return a->kind <= SL_BACKWARD_WEIGHT; }

/* ---- the domain: plans of the same shape as the file's ---- */

static sl_err check_stage(const struct sl_gen *gen, int s) {
    const struct sl_sched *given = gen->row->own;
    const struct sl_stage *was = &given->plan->stages[s], *now = &gen->plan->stages[s];
    if (was->width != now->width)
        return sl_fail(SL_ERR_REFUSED,
                       "schedule '%s' has %d replicas of stage %d (%s), the plan has %d",
                       given->name, was->width, s, was->name, now->width);
    for (int r = 0; r < was->width; r++)
        if (was->workers[r] != now->workers[r])
            return sl_fail(SL_ERR_REFUSED,
                           "schedule '%s' runs stage %d (%s) on worker %d, the plan has it on "
                           "worker %d",
                           given->name, s, was->name, was->workers[r], now->workers[r]);
    if (given->micros[s] != gen->micros[s])
        return sl_fail(SL_ERR_REFUSED,
                       "schedule '%s' has %d micro-batches in stage %d (%s); %lld samples in "
                       "micro-batches of %lld make %d. Set `micro` to %d and `batch` to a multiple "
                       "of it",
                       given->name, given->micros[s], s, was->name, (long long)gen->sched->batch,
                       (long long)now->micro_size, gen->micros[s], given->micros[s]);
    return SL_OK;
}

/* Returns a worker that has both stages, or -1. */
static int common_worker(const struct sl_plan *plan, int a, int b) {
    for (int r = 0; r < plan->stages[a].width; r++)
        if (sl_sched_seat(plan, b, plan->stages[a].workers[r]) >= 0)
            return plan->stages[a].workers[r];
    return -1;
}

/* Holders of a tie exchange one message per worker and step, so a worker holds a tie once. */
static sl_err check_tie(const struct sl_plan *plan, const struct sl_tie *tie) {
    for (int i = 0; i < tie->count; i++)
        for (int k = 0; k < i; k++) {
            int a = tie->stages[k], b = tie->stages[i], worker = common_worker(plan, a, b);
            if (worker >= 0)
                return sl_fail(SL_ERR_REFUSED,
                               "stages %s and %s share parameter %s and worker %d; an asynchronous "
                               "schedule with one step for all stages needs them on two workers. "
                               "`clip_scope` stage steps each stage alone",
                               plan->stages[a].name, plan->stages[b].name, tie->name, worker);
        }
    return SL_OK;
}

static sl_err check(const struct sl_gen *gen) {
    const struct sl_sched *given = gen->row->own;
    const struct sl_plan *was = given->plan, *now = gen->plan;
    if (was->stage_count != now->stage_count || was->worker_count != now->worker_count)
        return sl_fail(
            SL_ERR_REFUSED, "schedule '%s' is for %d stages on %d workers, the plan has %d on %d",
            given->name, was->stage_count, was->worker_count, now->stage_count, now->worker_count);
    for (int s = 0; s < now->stage_count; s++)
        SL_TRY(check_stage(gen, s));
    if (gen->sched->last_batch != gen->sched->batch)
        return sl_fail(SL_ERR_REFUSED,
                       "schedule '%s' has equal iterations; leave out the shorter last one",
                       given->name);
    if (!given->reps && gen->iters > given->iters)
        return sl_fail(SL_ERR_REFUSED,
                       "schedule '%s' has %d iterations and no period, so it cannot run %lld; "
                       "write it with a period, or run fewer steps",
                       given->name, given->iters, (long long)gen->iters);
    for (int t = 0; gen->sched->global_step && t < now->tie_count; t++)
        SL_TRY(check_tie(now, &now->ties[t]));
    return SL_OK;
}

/* ---- segments ---- */

/* Puts the passes of the first `iters` iterations, with their numbers in repetition `rep`. */
static void put_until(struct sl_gen *gen, int worker, int segment, int32_t rep, int64_t iters) {
    const struct sl_sched *given = gen->row->own;
    const struct sl_actions *list = &given->lists[segment][worker];
    for (int64_t i = 0; i < list->count; i++) {
        const struct sl_action *a = &list->at[i];
        int64_t micro = a->micro + (int64_t)rep * given->micros[a->stage];
        if (micro < iters * given->micros[a->stage])
            sl_schedules_gen_put(&gen->workers[worker], a->kind, a->stage, (int32_t)micro);
    }
}

static void take_list(struct sl_gen *gen, int worker) {
    struct sl_actions *list = &gen->sched->lists[SL_PROLOGUE][worker];
    list->count = gen->workers[worker].vec.count;
    list->at = SL_VEC_FREEZE(&gen->workers[worker].vec, gen->arena);
}

/* Puts all passes into the prologue. With as many repetitions as iterations are wanted, the
 * epilogue completes these iterations. */
static void cut_short(struct sl_gen *gen) {
    const struct sl_sched *given = gen->row->own;
    int32_t reps = given->reps ? (int32_t)gen->iters : 0;
    for (int w = 0; w < gen->plan->worker_count; w++) {
        put_until(gen, w, SL_PROLOGUE, 0, gen->iters);
        for (int32_t r = 0; r < reps; r++)
            put_until(gen, w, SL_PERIOD, r, gen->iters);
        put_until(gen, w, SL_EPILOGUE, reps, gen->iters);
        take_list(gen, w);
    }
}

/* The repetitions in which the steps of one decision come later than in the file (as in
 * async.c). */
static int32_t late_steps(const struct sl_sched *given, const struct sl_sched *run) {
    int late = 0;
    int64_t fewest = INT32_MAX;
    for (int s = 0; s < run->plan->stage_count; s++) {
        int delay = sl_sched_step_delay(run, s);
        late = delay > late ? delay : late;
        fewest = given->micros[s] < fewest ? given->micros[s] : fewest;
    }
    return (int32_t)(1 + late / (2 * fewest));
}

/* The first micro-batch of a period among those that are equal modulo the micro-batches of an
 * iteration. */
struct firsts {
    int32_t *of; /* [micro-batch of an iteration]; NULL: not every one has a pass */
};

static void note_firsts(const struct sl_sched *given, struct firsts *firsts, int stage,
                        const struct sl_action *a) {
    int32_t *of = firsts[stage].of;
    if (of && a->micro >= 0 && a->micro < of[a->micro % given->micros[stage]])
        of[a->micro % given->micros[stage]] = a->micro;
}

/* Finds the firsts of each stage; under rule vsync, of all stages together, in place of the
 * entry. */
static struct firsts *find_firsts(struct sl_arena *arena, const struct sl_sched *given,
                                  int vsync_entry) {
    const struct sl_plan *plan = given->plan;
    struct firsts *firsts = SL_NEW(arena, struct firsts, plan->stage_count);
    int64_t *count = SL_NEW(arena, int64_t, plan->stage_count);
    for (int w = 0; w < plan->worker_count; w++)
        for (int64_t i = 0; i < given->lists[SL_PERIOD][w].count; i++)
            count[given->lists[SL_PERIOD][w].at[i].stage]++;
    for (int s = 0; s < plan->stage_count; s++) {
        if (count[s] < given->micros[s]) /* no valid period: lowering says why */
            continue;
        firsts[s].of = SL_NEW(arena, int32_t, given->micros[s]);
        for (int32_t m = 0; m < given->micros[s]; m++)
            firsts[s].of[m] = INT32_MAX;
    }
    for (int w = 0; w < plan->worker_count; w++)
        for (int64_t i = 0; i < given->lists[SL_PERIOD][w].count; i++) {
            const struct sl_action *a = &given->lists[SL_PERIOD][w].at[i];
            note_firsts(given, firsts, vsync_entry < 0 ? a->stage : vsync_entry, a);
        }
    return firsts;
}

/* The repetitions whose passes read the version of a forward in the prologue, which is not
 * periodic. */
static int32_t in_flight(const struct sl_sched *given) {
    const struct sl_plan *plan = given->plan;
    int entry = given->rule == SL_RULE_VSYNC ? sl_sched_entry(plan) : -1;
    struct sl_arena scratch = {0};
    const struct firsts *firsts = find_firsts(&scratch, given, entry);
    int32_t lead = 0;
    for (int w = 0; w < plan->worker_count; w++)
        for (int64_t i = 0; i < given->lists[SL_PROLOGUE][w].count; i++) {
            const struct sl_action *a = &given->lists[SL_PROLOGUE][w].at[i];
            const int32_t *of = firsts[a->stage].of;
            int32_t m = given->micros[a->stage];
            if (a->kind != SL_FORWARD || !of || a->micro < of[a->micro % m] ||
                (entry >= 0 && a->stage != entry))
                continue;
            int32_t until = (a->micro - of[a->micro % m]) / m + 1;
            if (until > given->lists[SL_PROLOGUE][w].count)
                continue; /* forwards are missing: lowering says which */
            lead = until > lead ? until : lead;
        }
    sl_arena_free(&scratch);
    return lead;
}

/* Does the period begin with passes of the first iteration? Under rule twobw the second iteration
 * reads the same version. */
static bool begins_first(const struct sl_sched *given) {
    for (int w = 0; w < given->plan->worker_count; w++)
        for (int64_t i = 0; i < given->lists[SL_PERIOD][w].count; i++) {
            const struct sl_action *a = &given->lists[SL_PERIOD][w].at[i];
            if (a->micro < given->micros[a->stage])
                return true;
        }
    return false;
}

/* Number of repetitions that move into the prologue. A period reads versions that grow by one with
 * each repetition; the first repetitions of an asynchronous file may not. */
static int32_t lead_of(const struct sl_sched *given, const struct sl_sched *run) {
    int32_t lead = 0;
    if (!given->reps || given->rule == SL_RULE_SYNC || given->rule == SL_RULE_FORWARD)
        return 0;
    if (run->global_step)
        lead += late_steps(given, run);
    if (given->rule == SL_RULE_2BW)
        lead += begins_first(given);
    else if (given->rule != SL_RULE_NEWEST || run->policy.row)
        lead += in_flight(given) + (run->policy.row != NULL);
    return lead;
}

/* Returns the list as it is `rep` repetitions later. */
static struct sl_actions later(struct sl_arena *arena, const struct sl_sched *given, int segment,
                               int worker, int32_t rep) {
    const struct sl_actions *list = &given->lists[segment][worker];
    struct sl_actions out = {SL_NEW(arena, struct sl_action, list->count), list->count};
    for (int64_t i = 0; i < list->count; i++) {
        out.at[i] = list->at[i];
        out.at[i].micro += rep * given->micros[out.at[i].stage];
    }
    return out;
}

static sl_err segments(struct sl_gen *gen) {
    const struct sl_sched *given = gen->row->own;
    int32_t lead = lead_of(given, gen->sched);
    int64_t outside = given->iters - given->reps + (int64_t)lead;
    gen->sched->reps = 0;
    if (!given->reps || gen->iters <= outside) {
        cut_short(gen);
        return SL_OK;
    }
    gen->sched->reps = (int32_t)(gen->iters - outside);
    for (int w = 0; w < gen->plan->worker_count; w++) {
        put_until(gen, w, SL_PROLOGUE, 0, gen->iters);
        for (int32_t r = 0; r < lead; r++)
            put_until(gen, w, SL_PERIOD, r, gen->iters);
        take_list(gen, w);
        gen->sched->lists[SL_PERIOD][w] = later(gen->arena, given, SL_PERIOD, w, lead);
        gen->sched->lists[SL_EPILOGUE][w] = later(gen->arena, given, SL_EPILOGUE, w, lead);
    }
    return SL_OK;
}

/* ---- lowering ---- */

static void append(struct sl_actions *to, struct sl_actions from) {
    for (int64_t i = 0; i < from.count; i++)
        to->at[to->count++] = from.at[i];
}

/* Moves the first `lead` repetitions into the prologue. */
static struct sl_sched *move_lead(struct sl_arena *arena, const struct sl_sched *given,
                                  int32_t lead) {
    struct sl_sched *out = SL_NEW(arena, struct sl_sched, 1);
    int workers = given->plan->worker_count;
    *out = *given;
    out->reps -= lead;
    for (int g = 0; g < SL_SEGMENT_COUNT; g++)
        out->lists[g] = SL_NEW(arena, struct sl_actions, workers);
    for (int w = 0; w < workers; w++) {
        const struct sl_actions *first = &given->lists[SL_PROLOGUE][w];
        int64_t count = first->count + lead * given->lists[SL_PERIOD][w].count;
        struct sl_actions *all = &out->lists[SL_PROLOGUE][w];
        *all = (struct sl_actions){.at = SL_NEW(arena, struct sl_action, count)};
        append(all, *first);
        for (int32_t r = 0; r < lead; r++)
            append(all, later(arena, given, SL_PERIOD, w, r));
        if (out->reps)
            out->lists[SL_PERIOD][w] = later(arena, given, SL_PERIOD, w, lead);
        out->lists[SL_EPILOGUE][w] = later(arena, given, SL_EPILOGUE, w, lead);
    }
    return out;
}

sl_err sl_schedules_given_lower(struct sl_arena *arena, const struct sl_sched *passes,
                                struct sl_sched **out) {
    int32_t lead = lead_of(passes, passes);
    lead = lead < passes->reps ? lead : passes->reps;
    return sl_lower_passes(arena, lead ? move_lead(arena, passes, lead) : passes, out);
}

/* ---- the row ---- */

static struct sl_actions keep_passes(struct sl_arena *arena, const struct sl_actions *list) {
    struct sl_actions out = {.at = SL_NEW(arena, struct sl_action, list->count)};
    for (int64_t i = 0; i < list->count; i++)
        if (is_pass(&list->at[i]))
            out.at[out.count++] = (struct sl_action){
                .kind = list->at[i].kind, .stage = list->at[i].stage, .micro = list->at[i].micro};
    return out;
}

/* Turns a schedule of one iteration without a period into one whose period is this iteration. */
static void make_period(struct sl_arena *arena, struct sl_sched *s) {
    if (s->reps || s->iters != 1)
        return;
    for (int w = 0; w < s->plan->worker_count; w++) {
        struct sl_actions *first = &s->lists[SL_PROLOGUE][w], *last = &s->lists[SL_EPILOGUE][w];
        struct sl_actions all = {SL_NEW(arena, struct sl_action, first->count + last->count), 0};
        for (int64_t i = 0; i < first->count; i++)
            all.at[all.count++] = first->at[i];
        for (int64_t i = 0; i < last->count; i++)
            all.at[all.count++] = last->at[i];
        s->lists[SL_PERIOD][w] = all;
        first->count = last->count = 0;
    }
    s->reps = 1;
}

/* Removes workers without a stage, because a run has none. */
static sl_err drop_idle_workers(struct sl_arena *arena, struct sl_sched *s) {
    const struct sl_plan *plan = s->plan;
    struct sl_plan busy = *plan;
    int *number = SL_NEW(arena, int, plan->worker_count);
    int64_t *memory = SL_NEW(arena, int64_t, plan->worker_count);
    struct sl_stage *stages = SL_NEW(arena, struct sl_stage, plan->stage_count);
    busy.worker_count = 0;
    for (int w = 0; w < plan->worker_count; w++) {
        if (!plan->worker_seat_count[w])
            continue;
        for (int g = 0; g < SL_SEGMENT_COUNT; g++)
            s->lists[g][busy.worker_count] = s->lists[g][w];
        memory[busy.worker_count] = plan->memory_bytes ? plan->memory_bytes[w] : 0;
        number[w] = busy.worker_count++;
    }
    if (busy.worker_count == plan->worker_count)
        return SL_OK;
    for (int i = 0; i < plan->stage_count; i++) {
        int *workers = SL_NEW(arena, int, plan->stages[i].width);
        for (int r = 0; r < plan->stages[i].width; r++)
            workers[r] = number[plan->stages[i].workers[r]];
        stages[i] = plan->stages[i];
        stages[i].workers = workers;
    }
    busy.stages = stages;
    busy.memory_bytes = plan->memory_bytes ? memory : NULL;
    return sl_plan_build(arena, &busy, &s->plan);
}

static bool has_split(const struct sl_sched *s) {
    for (int g = 0; g < SL_SEGMENT_COUNT; g++)
        for (int w = 0; w < s->plan->worker_count; w++)
            for (int64_t i = 0; i < s->lists[g][w].count; i++)
                if (s->lists[g][w].at[i].kind == SL_BACKWARD_WEIGHT)
                    return true;
    return false;
}

sl_err sl_schedules_given_row(struct sl_arena *arena, const struct sl_sched *file,
                              const struct sl_schedule **out) {
    if (file->last_batch != file->batch)
        return sl_fail(SL_ERR_REFUSED,
                       "schedule '%s' has a last iteration of %lld samples instead of %lld; a run "
                       "has equal iterations",
                       file->name, (long long)file->last_batch, (long long)file->batch);
    struct sl_sched *passes = SL_NEW(arena, struct sl_sched, 1);
    struct sl_schedule *row = SL_NEW(arena, struct sl_schedule, 1);
    int workers = file->plan->worker_count;
    *passes = *file;
    passes->lowered = false;
    passes->pools = NULL;
    for (int g = 0; g < SL_SEGMENT_COUNT; g++) {
        passes->lists[g] = SL_NEW(arena, struct sl_actions, workers);
        for (int w = 0; w < workers; w++)
            passes->lists[g][w] = keep_passes(arena, &file->lists[g][w]);
    }
    SL_TRY(drop_idle_workers(arena, passes));
    make_period(arena, passes);
    const struct sl_sched_order order = sl_sched_order_of(passes);
    *row = (struct sl_schedule){.name = file->name,
                                .brief = "a schedule from a file",
                                .domain = "the stages and micro-batches of the file",
                                .rule = file->rule,
                                .splits_backward =
                                    has_split(passes) || !order.gradients || !order.iterations,
                                .memory = SL_MEMORY_ALL,
                                .check = check,
                                .segments = segments,
                                .own = passes};
    *out = row;
    return SL_OK;
}

const struct sl_sched *sl_schedules_given_passes(const struct sl_schedule *row) {
    return row && row->segments == segments ? row->own : NULL;
}

bool sl_schedules_given_has_sizes(const struct sl_sched *given) {
    for (int s = 1; s < given->plan->stage_count; s++)
        if (given->plan->stages[s].micro_size != given->plan->stages[0].micro_size)
            return true;
    return false;
}

/* Stages that share a parameter wait for each other at every step. */
static sl_err explain_tie(const struct sl_sched *given, const struct sl_plan *plan, sl_err err) {
    bool waits = strstr(sl_err_message(), "deadlock") || strstr(sl_err_message(), "REDUCE");
    if (!waits || given->rule == SL_RULE_SYNC || !plan->tie_count || given->plan->tie_count)
        return err;
    const struct sl_tie *tie = &plan->ties[0];
    return sl_err_context(err,
                          "stages %s and %s share parameter %s and so wait for each other at every "
                          "step, which schedule '%s' was not made for",
                          plan->stages[tie->stages[0]].name, plan->stages[tie->stages[1]].name,
                          tie->name, given->name);
}

static bool has_edge(const struct sl_plan *plan, const struct sl_edge *edge) {
    for (int e = 0; e < plan->edge_count; e++)
        if (plan->edges[e].from == edge->from && plan->edges[e].to == edge->to)
            return true;
    return false;
}

sl_err sl_schedules_given_explain(const struct sl_schedule *row, const struct sl_plan *plan,
                                  sl_err err) {
    const struct sl_sched *given = sl_schedules_given_passes(row);
    for (int e = 0; given && err == SL_ERR_REFUSED && e < plan->edge_count; e++)
        if (!has_edge(given->plan, &plan->edges[e]))
            return sl_err_context(
                err, "the model sends from stage %s to %s, schedule '%s' has no such edge",
                plan->stages[plan->edges[e].from].name, plan->stages[plan->edges[e].to].name,
                given->name);
    return given && err == SL_ERR_REFUSED ? explain_tie(given, plan, err) : err;
}

/* Returns the samples of an iteration. If the micro-batch sizes of all stages grow by the same
 * factor, so do the samples of the file; with one size, as many samples as give whole
 * micro-batches. */
static int64_t samples_on(const struct sl_sched *given, const struct sl_plan *plan) {
    int64_t times = plan->stages[0].micro_size / given->plan->stages[0].micro_size;
    bool alike = true;
    for (int s = 0; s < plan->stage_count; s++)
        alike &= plan->stages[s].micro_size == times * given->plan->stages[s].micro_size;
    return alike ? times * given->batch : plan->stages[0].micro_size * given->micros[0];
}

struct sl_sched sl_schedules_given_on(const struct sl_schedule *row, const struct sl_plan *plan) {
    const struct sl_sched *given = row->own;
    struct sl_sched on = *given;
    on.plan = plan;
    on.batch = samples_on(given, plan);
    on.last_batch = on.batch;
    return on;
}
