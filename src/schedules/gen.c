/* Shared parts of the generators: windows, seat sequences, domain tests. */
#include "schedules/gen.h"

void sl_schedules_gen_put(struct sl_passes *passes, enum sl_kind kind, int stage, int32_t micro) {
    SL_PUSH(&passes->vec,
            ((struct sl_action){.kind = (uint8_t)kind, .stage = (uint16_t)stage, .micro = micro}));
}

int64_t sl_schedules_gen_ceil(int64_t a, int64_t b) { return a <= 0 ? 0 : (a + b - 1) / b; }

static int64_t max(int64_t a, int64_t b) { return a > b ? a : b; }

int64_t sl_schedules_gen_group(const struct sl_gen *gen, int stage) {
    int group = gen->row->groups ? gen->plan->stages[stage].group : 0;
    return gen->opts->group ? gen->opts->group : group ? group : 1;
}

int64_t sl_schedules_row_need(int64_t b, int64_t k, int64_t next_f, int64_t next_b,
                              int64_t next_k) {
    return sl_schedules_gen_ceil(next_f + max(next_b, k * b + max(0, b - next_k * next_b)), b) * b;
}

void sl_schedules_gen_inflight(const struct sl_gen *gen, int64_t *out) {
    const struct sl_plan *plan = gen->plan;
    for (int t = plan->stage_count - 1; t >= 0; t--) {
        int stage = plan->topo[t];
        const struct sl_stage *i = &plan->stages[stage];
        int64_t b = i->micro_size, k = sl_schedules_gen_group(gen, stage), f = k * b;
        for (int e = 0; e < i->out_count; e++) {
            int to = plan->edges[i->out[e]].to;
            int64_t need = sl_schedules_row_need(b, k, out[to], plan->stages[to].micro_size,
                                                 sl_schedules_gen_group(gen, to));
            f = max(f, need + gen->opts->slack * b);
        }
        out[stage] = f + (i->width - 1) * k * b;
    }
}

void sl_schedules_gen_windowed(struct sl_gen *gen, int seat, int64_t window, int64_t k,
                               bool split) {
    int stage = gen->plan->seats[seat].stage, width = gen->plan->stages[stage].width;
    int replica = gen->plan->seats[seat].replica;
    int32_t micros = gen->micros[stage], next = 0;
    for (int32_t a = 0; a < micros; a++) {
        int64_t until = window - 1 + a / k * k;
        for (; next < micros && next <= until; next++)
            if (next % width == replica)
                sl_schedules_gen_put(&gen->seats[seat], SL_FORWARD, stage, next);
        if (a % width != replica)
            continue;
        sl_schedules_gen_put(&gen->seats[seat], split ? SL_BACKWARD_INPUT : SL_BACKWARD, stage, a);
        if (split)
            sl_schedules_gen_put(&gen->seats[seat], SL_BACKWARD_WEIGHT, stage, a);
    }
}

/* --- merge --- */

static int head(void *ctx, int seat, struct sl_offer out[4]) {
    const struct sl_gen *gen = ctx;
    const struct sl_passes *seq = &gen->seats[seat];
    int64_t taken = seq->vec.room; /* the simulation uses `room` as a cursor into the sequence */
    if (taken >= seq->vec.count)
        return 0;
    out[0].pass = seq->vec.at[taken];
    int height = gen->plan->stages[out[0].pass.stage].height;
    bool forward = out[0].pass.kind == SL_FORWARD, weight = out[0].pass.kind == SL_BACKWARD_WEIGHT;
    out[0].urgency = height + (forward ? SL_STAGE_MAX : weight ? 2 * SL_STAGE_MAX : 0);
    return 1;
}

static void took_head(void *ctx, int seat, const struct sl_action *pass) {
    struct sl_gen *gen = ctx;
    (void)pass;
    gen->seats[seat].vec.room++;
}

sl_err sl_schedules_gen_play_seats(struct sl_gen *gen, int64_t *end_ns) {
    int64_t *rooms = SL_NEW(gen->arena, int64_t, gen->plan->seat_count);
    for (int i = 0; i < gen->plan->seat_count; i++) {
        rooms[i] = gen->seats[i].vec.room;
        gen->seats[i].vec.room = 0;
    }
    struct sl_play play = {.gen = gen, .ctx = gen, .candidates = head, .took = took_head};
    sl_err err = sl_schedules_gen_play(&play);
    for (int i = 0; i < gen->plan->seat_count; i++) {
        gen->seats[i].vec.room = rooms[i];
        gen->seats[i].vec.count = 0;
    }
    *end_ns = play.end_ns;
    return err;
}

sl_err sl_schedules_gen_merge(struct sl_gen *gen) {
    bool single = true;
    for (int i = 0; i < gen->plan->worker_count; i++)
        single &= gen->plan->worker_seat_count[i] <= 1;
    if (single) {
        for (int i = 0; i < gen->plan->worker_count; i++) {
            if (!gen->plan->worker_seat_count[i])
                continue;
            struct sl_passes *from = &gen->seats[gen->plan->worker_seats[i][0]];
            struct sl_passes *to = &gen->workers[i];
            struct sl_passes was = *to;
            *to = *from; /* moves the list instead of copying it: there may be millions of passes */
            *from = was;
            from->vec.count = 0;
        }
        return SL_OK;
    }
    int64_t end_ns;
    return sl_schedules_gen_play_seats(gen, &end_ns);
}

/* --- domain tests --- */

sl_err sl_schedules_gen_check_equal(const struct sl_gen *gen) {
    const struct sl_stage *stages = gen->plan->stages;
    for (int i = 1; i < gen->plan->stage_count; i++)
        if (stages[i].micro_size != stages[0].micro_size)
            return sl_fail(SL_ERR_REFUSED,
                           "%s needs one micro-batch size for all stages: %s has %lld samples, %s "
                           "%lld; graph and kfkb allow that",
                           gen->row->name, stages[0].name, (long long)stages[0].micro_size,
                           stages[i].name, (long long)stages[i].micro_size);
    return SL_OK;
}

sl_err sl_schedules_gen_check_single(const struct sl_gen *gen) {
    for (int i = 0; i < gen->plan->worker_count; i++)
        if (gen->plan->worker_seat_count[i] > 1)
            return sl_fail(SL_ERR_REFUSED,
                           "%s with replicas or ties needs one stage per worker: worker %d has %d",
                           gen->row->name, i, gen->plan->worker_seat_count[i]);
    return SL_OK;
}

static bool is_chain(const struct sl_plan *plan) {
    if (plan->edge_count != plan->stage_count - 1)
        return false;
    for (int i = 0; i < plan->edge_count; i++)
        if (plan->edges[i].from != i || plan->edges[i].to != i + 1)
            return false;
    return true;
}

int sl_schedules_gen_depth(const struct sl_plan *plan, enum sl_layout layout) {
    int width = plan->stages[0].width, pipelines = layout == SL_LAYOUT_CROSS ? width / 2 : width;
    return pipelines && plan->worker_count > pipelines ? plan->worker_count / pipelines : 1;
}

/* Returns the worker that a replica shares with an earlier stage, or with the other pipeline of a
 * pair. */
static int shared_worker(const struct sl_plan *plan, enum sl_layout layout, int stage,
                         int replica) {
    int n = plan->stage_count, p = sl_schedules_gen_depth(plan, layout);
    if (layout == SL_LAYOUT_CROSS && replica % 2)
        return plan->stages[n - 1 - stage].workers[replica - 1];
    int base = layout == SL_LAYOUT_V && stage >= p ? n - 1 - stage : stage % p;
    return plan->stages[base].workers[replica];
}

/* Checks the placement. If every worker has the same number of stages, the workers of the first p
 * stages are distinct. */
static sl_err check_places(const struct sl_gen *gen, enum sl_layout layout) {
    const struct sl_plan *plan = gen->plan;
    SL_ASSERT(plan->worker_count > 0);
    int width = plan->stages[0].width, each = plan->seat_count / plan->worker_count;
    for (int i = 0; i < plan->stage_count; i++) {
        const struct sl_stage *stage = &plan->stages[i];
        if (stage->width != width)
            return sl_fail(SL_ERR_REFUSED,
                           "%s needs as many replicas of every stage: %s has %d, %s has %d",
                           gen->row->name, plan->stages[0].name, width, stage->name, stage->width);
    }
    for (int i = 0; i < plan->stage_count; i++)
        for (int r = 0; r < width; r++) {
            int want = shared_worker(plan, layout, i, r);
            if (plan->stages[i].workers[r] != want)
                return sl_fail(SL_ERR_REFUSED, "%s needs replica %d of stage %s on worker %d",
                               gen->row->name, r, plan->stages[i].name, want);
        }
    for (int w = 0; w < plan->worker_count; w++)
        if (plan->worker_seat_count[w] != each)
            return sl_fail(SL_ERR_REFUSED,
                           "%s needs as many stages on every worker: worker %d has %d, not %d",
                           gen->row->name, w, plan->worker_seat_count[w], each);
    return SL_OK;
}

sl_err sl_schedules_gen_check_chain(const struct sl_gen *gen, enum sl_layout layout) {
    const struct sl_plan *plan = gen->plan;
    int n = plan->stage_count, width = plan->stages[0].width,
        p = sl_schedules_gen_depth(plan, layout);
    SL_TRY(sl_schedules_gen_check_equal(gen));
    if (!is_chain(plan))
        return sl_fail(SL_ERR_REFUSED,
                       "%s needs a chain of stages; zb-graph and graph take any graph",
                       gen->row->name);
    if (layout == SL_LAYOUT_CROSS && (width % 2 || n != p || n % 2))
        return sl_fail(SL_ERR_REFUSED,
                       "%s needs an even number of stages and as many workers: %d stages, %d "
                       "workers",
                       gen->row->name, n, plan->worker_count);
    if (p * (layout == SL_LAYOUT_CROSS ? width / 2 : width) != plan->worker_count)
        return sl_fail(SL_ERR_REFUSED,
                       "%s needs equal pipelines: %d workers are no multiple of %d replicas",
                       gen->row->name, plan->worker_count, width);
    if (layout == SL_LAYOUT_V && n != 2 * p)
        return sl_fail(SL_ERR_REFUSED, "%s needs two stages per worker: %d stages, %d workers",
                       gen->row->name, n, p);
    if (layout == SL_LAYOUT_LOOP && n % p)
        return sl_fail(SL_ERR_REFUSED,
                       "%s needs as many stages on every worker: %d stages, %d workers",
                       gen->row->name, n, p);
    return check_places(gen, layout);
}
