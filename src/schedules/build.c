/* From a row to a program: sets the numbers, generates passes, lowers and verifies. */
#include "sched/shards.h"
#include "schedules/gen.h"

#include "lower/lower.h"
#include "schedules/given.h"

#include <string.h>

/* --- numbers --- */

static sl_err set_batch(struct sl_gen *gen) {
    const struct sl_schedule_opts *opts = gen->opts;
    const struct sl_plan *plan = gen->plan;
    struct sl_sched *sched = gen->sched;
    int64_t smallest = INT64_MAX, batch = opts->batch;
    for (int i = 0; i < plan->stage_count; i++)
        smallest = plan->stages[i].micro_size < smallest ? plan->stages[i].micro_size : smallest;
    if (!batch && opts->micros > 0 && opts->micros <= INT32_MAX)
        batch = opts->micros * smallest;
    gen->iters = opts->iters ? opts->iters : 1;
    if (batch < 1 || opts->last_batch < 0 || opts->last_batch > batch || gen->iters < 1 ||
        gen->iters > INT32_MAX / 4 || opts->group < 0 || opts->group > INT32_MAX ||
        opts->slack < 0 || opts->slack > INT32_MAX)
        return sl_fail(SL_ERR_REFUSED,
                       "a schedule needs at least one micro-batch and one iteration, and "
                       "a last batch not larger than the others");
    if (batch / smallest > INT32_MAX / 4)
        return sl_fail(SL_ERR_REFUSED,
                       "too many micro-batches in an iteration: %lld samples, %lld each",
                       (long long)batch, (long long)smallest);
    if (gen->iters == 1 && opts->last_batch)
        batch = opts->last_batch;
    sched->batch = batch;
    sched->last_batch = opts->last_batch ? opts->last_batch : batch;
    sched->iters = (int32_t)gen->iters;
    int32_t *micros = SL_NEW(gen->arena, int32_t, plan->stage_count);
    for (int i = 0; i < plan->stage_count; i++) {
        int64_t size = plan->stages[i].micro_size;
        micros[i] = (int32_t)((batch + size - 1) / size);
        if (micros[i] > INT32_MAX / 4 / gen->iters)
            return sl_fail(SL_ERR_REFUSED, "too many micro-batches: %d in each of %lld iterations",
                           micros[i], (long long)gen->iters);
    }
    sched->micros = gen->micros = micros;
    return SL_OK;
}

/* Does the plan state the durations of passes? */
static bool has_times(const struct sl_plan *plan) {
    for (int i = 0; i < plan->stage_count; i++)
        if (!plan->stages[i].times.f)
            return false;
    return true;
}

/* Sets the durations of passes that the stage does not have to 0. B of a frozen stage takes the
 * time of I. */
static void drop_durations(const struct sl_stage *stage, int64_t dur[SL_KIND_COUNT]) {
    if (stage->passes == SL_STAGE_TRAINS)
        return;
    dur[SL_BACKWARD] = dur[SL_BACKWARD_INPUT];
    dur[SL_BACKWARD_WEIGHT] = 0;
    for (int k = 0; k <= SL_RECOMPUTE && stage->passes == SL_STAGE_FORWARD; k++)
        dur[k] = k == SL_FORWARD ? dur[k] : 0;
}

static void set_durations(struct sl_gen *gen) {
    bool known = has_times(gen->plan);
    int64_t(*dur)[SL_KIND_COUNT] =
        sl_arena_alloc(gen->arena, (int64_t)sizeof *dur * gen->plan->stage_count);
    for (int i = 0; i < gen->plan->stage_count; i++) {
        static const int64_t units[SL_KIND_COUNT] = {[SL_FORWARD] = 1,
                                                     [SL_BACKWARD] = 2,
                                                     [SL_BACKWARD_INPUT] = 1,
                                                     [SL_BACKWARD_WEIGHT] = 1,
                                                     [SL_RECOMPUTE] = 1};
        const struct sl_stage_times *t = &gen->plan->stages[i].times;
        const int64_t planned[SL_KIND_COUNT] = {
            [SL_FORWARD] = t->f,         [SL_BACKWARD] = t->b,          [SL_BACKWARD_INPUT] = t->i,
            [SL_BACKWARD_WEIGHT] = t->w, [SL_RECOMPUTE] = t->recompute, [SL_REDUCE] = t->reduce,
            [SL_STEP] = t->step};
        const int64_t *of = gen->opts->dur_ns ? gen->opts->dur_ns[i] : known ? planned : units;
        memcpy(dur[i], of, sizeof dur[i]);
        drop_durations(&gen->plan->stages[i], dur[i]);
    }
    gen->sched->dur_ns = (const int64_t(*)[SL_KIND_COUNT])dur;
    gen->dur_ns = gen->sched->dur_ns;
}

static sl_err open_gen(struct sl_gen *gen) {
    gen->row = gen->opts->row;
    if (!gen->row)
        SL_TRY(sl_schedules_row_require(gen->opts->schedule, &gen->row));
    gen->sched = SL_NEW(gen->arena, struct sl_sched, 1);
    gen->sched->plan = gen->plan;
    gen->sched->name = gen->row->name;
    gen->sched->rule = gen->row->rule;
    if (gen->opts->policy)
        gen->sched->policy = *gen->opts->policy;
    gen->sched->slack = (int32_t)gen->opts->slack;
    gen->sched->global_step = gen->opts->global_step && gen->row->rule != SL_RULE_SYNC &&
                              gen->row->rule != SL_RULE_FORWARD;
    SL_TRY(sl_optim_policy_serves(&gen->sched->policy, sl_sched_rule_name(gen->row->rule), NULL));
    SL_TRY(set_batch(gen));
    set_durations(gen);
    for (int s = 0; s < SL_SEGMENT_COUNT; s++)
        gen->sched->lists[s] = SL_NEW(gen->arena, struct sl_actions, gen->plan->worker_count);
    int64_t *samples = SL_NEW(gen->arena, int64_t, gen->plan->stage_count);
    sl_schedules_gen_inflight(gen, samples);
    gen->samples = samples;
    return gen->row->check(gen);
}

/* --- synchronous rows: the period is an iteration; a short last one is the epilogue --- */

static void collect(struct sl_gen *gen, int segment) {
    for (int w = 0; w < gen->plan->worker_count; w++) {
        struct sl_actions *list = &gen->sched->lists[segment][w];
        list->count = gen->workers[w].vec.count;
        list->at = SL_VEC_FREEZE(&gen->workers[w].vec, gen->arena);
        SL_VEC_FREE(&gen->workers[w].vec);
    }
}

static sl_err generate_last(struct sl_gen *gen) {
    int32_t *micros = SL_NEW(gen->arena, int32_t, gen->plan->stage_count);
    for (int i = 0; i < gen->plan->stage_count; i++)
        micros[i] = sl_sched_micros(gen->sched, i, gen->sched->iters - 1);
    struct sl_gen last = *gen;
    struct sl_sched view = *gen->sched; /* checks whether the row can make the short iteration */
    const struct sl_schedule fallback = {.name = gen->row->name,
                                         .window = sl_schedules_row_graph.window,
                                         .iteration = sl_schedules_row_graph.iteration};
    view.micros = micros;
    last.sched = &view;
    if (last.row->check(&last) != SL_OK) /* if it cannot, plain 1F1B on the same placement */
        last.row = &fallback;
    last.sched = gen->sched;
    last.micros = micros;
    SL_TRY(last.row->iteration(&last));
    collect(gen, SL_EPILOGUE);
    return SL_OK;
}

static sl_err generate_sync(struct sl_gen *gen) {
    bool uneven = gen->sched->last_batch != gen->sched->batch;
    SL_TRY(gen->row->iteration(gen));
    collect(gen, SL_PERIOD);
    gen->sched->reps = (int32_t)gen->iters - uneven;
    if (!uneven)
        return SL_OK;
    return generate_last(gen);
}

sl_err sl_schedules_generate(struct sl_arena *arena, const struct sl_plan *plan,
                             const struct sl_schedule_opts *opts, struct sl_sched **out) {
    struct sl_gen gen = {.arena = arena, .plan = plan, .opts = opts};
    SL_TRY(open_gen(&gen));
    gen.workers = SL_NEW(arena, struct sl_passes, plan->worker_count);
    gen.seats = SL_NEW(arena, struct sl_passes, plan->seat_count);
    sl_err err = gen.row->segments    ? gen.row->segments(&gen)
                 : gen.row->iteration ? generate_sync(&gen)
                                      : sl_schedules_gen_stream(&gen);
    for (int i = 0; i < plan->worker_count; i++)
        SL_VEC_FREE(&gen.workers[i].vec);
    for (int i = 0; i < plan->seat_count; i++)
        SL_VEC_FREE(&gen.seats[i].vec);
    if (err == SL_OK)
        *out = gen.sched;
    return err;
}

sl_err sl_schedules_row_claim(struct sl_arena *arena, const struct sl_plan *plan,
                              const struct sl_schedule_opts *opts, int seat, struct sl_claim *out) {
    struct sl_gen gen = {.arena = arena, .plan = plan, .opts = opts};
    SL_TRY(open_gen(&gen));
    gen.row->claim(&gen, seat, out);
    if (!gen.row->iteration || gen.sched->last_batch == gen.sched->batch)
        return SL_OK;
    /* a short last iteration may run as plain 1F1B */
    int stage = plan->seats[seat].stage;
    int64_t live = gen.samples[stage] / plan->stages[stage].micro_size;
    int64_t last = sl_sched_micros(gen.sched, stage, gen.sched->iters - 1);
    live = sl_schedules_gen_ceil(live < last ? live : last, plan->stages[stage].width);
    out->live = live > out->live ? live : out->live;
    return SL_OK;
}

/* Builds the schedule of an expanded plan: all shards of a worker run the actions of one worker of
 * the folded plan. */
static sl_err build_expanded(struct sl_arena *arena, const struct sl_plan *plan,
                             const struct sl_schedule_opts *opts, const struct sl_sched **out) {
    struct sl_arena scratch = {0};
    const struct sl_plan *folded;
    const struct sl_sched *sched;
    sl_err err;
    SL_TRY_OUT(sl_plan_fold(&scratch, plan, &folded));
    SL_TRY_OUT(sl_schedules_build(&scratch, folded, opts, &sched));
    SL_TRY_OUT(sl_sched_expand(arena, sched, plan, out));
    SL_TRY_OUT(sl_sched_verify(*out));
out:
    sl_arena_free(&scratch);
    return err;
}

sl_err sl_schedules_build(struct sl_arena *arena, const struct sl_plan *plan,
                          const struct sl_schedule_opts *opts, const struct sl_sched **out) {
    struct sl_arena scratch = {0};
    struct sl_sched *passes, *lowered = NULL;
    sl_err err;
    if (plan->stages[0].parts > 1)
        return build_expanded(arena, plan, opts, out);
    SL_TRY_OUT(sl_schedules_generate(&scratch, plan, opts, &passes));
    SL_TRY_OUT(
        sl_schedules_given_explain(opts->row, plan, sl_lower_passes(arena, passes, &lowered)));
    /* copies what the result still points to in the scratch arena */
    lowered->micros =
        sl_vec_freeze(arena, passes->micros, plan->stage_count, sizeof *passes->micros);
    lowered->dur_ns =
        sl_vec_freeze(arena, passes->dur_ns, plan->stage_count, sizeof *passes->dur_ns);
    SL_TRY_OUT(sl_schedules_given_explain(opts->row, plan, sl_sched_verify(lowered)));
    *out = lowered;
out:
    sl_arena_free(&scratch);
    return err;
}
