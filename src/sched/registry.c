/* The table of schedules, and the generation of passes from a row. */
#include "sched/gen.h"

#include <stdlib.h>
#include <string.h>

/* One line per schedule, in alphabetical order. */
/* clang-format off */
#define ROWS(ROW) \
    ROW(sl_sched_row_1f1b) \
    ROW(sl_sched_row_2bw) \
    ROW(sl_sched_row_async) \
    ROW(sl_sched_row_chimera) \
    ROW(sl_sched_row_dualpipe_v) \
    ROW(sl_sched_row_forward) \
    ROW(sl_sched_row_gpipe) \
    ROW(sl_sched_row_graph) \
    ROW(sl_sched_row_interleaved) \
    ROW(sl_sched_row_kfkb) \
    ROW(sl_sched_row_paci) \
    ROW(sl_sched_row_serial) \
    ROW(sl_sched_row_stash) \
    ROW(sl_sched_row_vsync) \
    ROW(sl_sched_row_zb_graph) \
    ROW(sl_sched_row_zb_h1) \
    ROW(sl_sched_row_zb_h2) \
    ROW(sl_sched_row_zb_v)
/* clang-format on */

#define DECLARE(row) extern const struct sl_schedule row;
ROWS(DECLARE)
#define POINT(row) &(row),
static const struct sl_schedule *const rows[] = {ROWS(POINT)};

const struct sl_schedule *const *sl_sched_row_registry(int *count) {
    *count = SL_COUNT(rows);
    return rows;
}

const struct sl_schedule *sl_sched_row_find(const char *name) {
    for (int i = 0; i < SL_COUNT(rows); i++)
        if (strcmp(rows[i]->name, name) == 0)
            return rows[i];
    return NULL;
}

static const char *row_name(const void *ctx, int i) {
    (void)ctx;
    return rows[i]->name;
}

sl_err sl_sched_row_require(const char *name, const struct sl_schedule **out) {
    *out = sl_sched_row_find(name ? name : "");
    if (*out)
        return SL_OK;
    const char *near = name ? sl_nearest(name, SL_COUNT(rows), row_name, NULL) : NULL;
    return sl_fail(SL_ERR_USAGE, "unknown schedule '%s'%s%s%s", name ? name : "",
                   near ? "; did you mean '" : "; see 'sluice list schedules'", near ? near : "",
                   near ? "'?" : "");
}

/* With two versions a stage cannot begin iteration t before step t-1. If more micro-batches are in
 * flight than an iteration has, it stalls until the pipeline has drained. */
bool sl_sched_row_is_crowded(const struct sl_sched *sched) {
    const struct sl_plan *plan = sched->plan;
    for (int i = 0; i < plan->seat_count && sched->rule == SL_RULE_2BW; i++) {
        const struct sl_seat *seat = &plan->seats[i];
        if (sched->pools[i][SL_POOL_STASH].count >
            sl_sched_deps_share(sched->micros[seat->stage], plan->stages[seat->stage].width,
                                seat->replica))
            return true;
    }
    return false;
}

int64_t sl_sched_row_slack(const struct sl_plan *plan, const struct sl_sched_opts *opts) {
    const struct sl_schedule *row = opts->row ? opts->row : sl_sched_row_find(opts->schedule);
    struct sl_arena scratch = {0};
    struct sl_sched_opts more = *opts;
    const struct sl_sched *sched;
    if (!row || !row->slack)
        return 0;
    more.slack = row->slack;
    bool takes = sl_sched_build(&scratch, plan, &more, &sched) == SL_OK;
    takes = takes && !sl_sched_row_is_crowded(sched);
    sl_arena_free(&scratch);
    return takes ? row->slack : 0;
}

/* --- numbers --- */

static sl_err set_batch(struct sl_gen *gen) {
    const struct sl_sched_opts *opts = gen->opts;
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
    }
    gen->sched->dur_ns = (const int64_t(*)[SL_KIND_COUNT])dur;
    gen->dur_ns = gen->sched->dur_ns;
}

static sl_err open_gen(struct sl_gen *gen) {
    gen->row = gen->opts->row;
    if (!gen->row)
        SL_TRY(sl_sched_row_require(gen->opts->schedule, &gen->row));
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
    sl_sched_gen_inflight(gen, samples);
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
    struct sl_sched view = *gen->sched; /* is the short iteration in the row's domain? */
    const struct sl_schedule fallback = {.name = gen->row->name,
                                         .window = sl_sched_row_graph.window,
                                         .iteration = sl_sched_row_graph.iteration};
    view.micros = micros;
    last.sched = &view;
    if (last.row->check(&last) != SL_OK) /* else plain 1F1B on the same placement */
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

/* 2bw reads the version of a step one iteration later: a step that waits for all adds no delay. */
bool sl_sched_row_is_global(const struct sl_schedule *row) {
    return row->rule == SL_RULE_SYNC || row->rule == SL_RULE_FORWARD || row->rule == SL_RULE_2BW;
}

sl_err sl_sched_generate(struct sl_arena *arena, const struct sl_plan *plan,
                         const struct sl_sched_opts *opts, struct sl_sched **out) {
    struct sl_gen gen = {.arena = arena, .plan = plan, .opts = opts};
    SL_TRY(open_gen(&gen));
    gen.workers = SL_NEW(arena, struct sl_passes, plan->worker_count);
    gen.seats = SL_NEW(arena, struct sl_passes, plan->seat_count);
    sl_err err = gen.row->segments    ? gen.row->segments(&gen)
                 : gen.row->iteration ? generate_sync(&gen)
                                      : sl_sched_gen_stream(&gen);
    for (int i = 0; i < plan->worker_count; i++)
        SL_VEC_FREE(&gen.workers[i].vec);
    for (int i = 0; i < plan->seat_count; i++)
        SL_VEC_FREE(&gen.seats[i].vec);
    if (err == SL_OK)
        *out = gen.sched;
    return err;
}

sl_err sl_sched_row_claim(struct sl_arena *arena, const struct sl_plan *plan,
                          const struct sl_sched_opts *opts, int seat, struct sl_claim *out) {
    struct sl_gen gen = {.arena = arena, .plan = plan, .opts = opts};
    SL_TRY(open_gen(&gen));
    gen.row->claim(&gen, seat, out);
    if (!gen.row->iteration || gen.sched->last_batch == gen.sched->batch)
        return SL_OK;
    /* a short last iteration may run as plain 1F1B */
    int stage = plan->seats[seat].stage;
    int64_t live = gen.samples[stage] / plan->stages[stage].micro_size;
    int64_t last = sl_sched_micros(gen.sched, stage, gen.sched->iters - 1);
    live = sl_sched_gen_ceil(live < last ? live : last, plan->stages[stage].width);
    out->live = live > out->live ? live : out->live;
    return SL_OK;
}
