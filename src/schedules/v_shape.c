/* V-shaped rows: 2p stages folded over p workers, stages r and 2p-1-r on worker r.
 *
 *     worker 0:  0 .     . 7        zb-v        (Qi et al. 2024, Zero Bubble)
 *     worker 1:    1 . . 6          dualpipe-v  (DeepSeek-AI 2024, DualPipe, cut in half)
 *     worker 2:     2   5
 *     worker 3:      3 4
 */
#include "schedules/gen.h"

struct side { /* makes the list of one worker: worker `rank` of pipeline `replica` */
    struct sl_gen *gen;
    int rank, replica, width;
    struct sl_passes *passes;
    int stage[2];             /* stages of the first and the second half of the V */
    int32_t f[2], b[2], w[2]; /* [half] next micro-batch of F, B and W */
    SL_VEC(int) waiting;      /* half of each deferred W, oldest first */
    int64_t waiting_at;
};

static struct side side_of(struct sl_gen *gen, int rank, int replica) {
    return (struct side){.gen = gen,
                         .rank = rank,
                         .replica = replica,
                         .width = gen->plan->stages[0].width,
                         .passes = &gen->workers[gen->plan->stages[rank].workers[replica]],
                         .stage = {rank, gen->plan->stage_count - 1 - rank}};
}

/* Number of micro-batches of this pipeline. */
static int32_t share_of(const struct side *s) {
    return sl_sched_deps_share(s->gen->micros[0], s->width, s->replica);
}

static void put(struct side *s, enum sl_kind kind, int c, int32_t micro) {
    if (micro < share_of(s)) /* zb-v counts as if there were at least 2p-1 micro-batches */
        sl_schedules_gen_put(s->passes, kind, s->stage[c], micro * s->width + s->replica);
}

static void forward(struct side *s, int c) { put(s, SL_FORWARD, c, s->f[c]++); }
static void input(struct side *s, int c) { put(s, SL_BACKWARD_INPUT, c, s->b[c]++); }
static void weight(struct side *s, int c) { put(s, SL_BACKWARD_WEIGHT, c, s->w[c]++); }

static void both(struct side *s, int c) {
    input(s, c);
    weight(s, c);
}

static void zb_v_worker(struct side *s, int p, int32_t m) {
    int r = s->rank;
    for (int i = 0; i < 2 * (p - r) - 1; i++)
        forward(s, 0);
    for (int i = 0; i < r; i++) {
        forward(s, 1);
        forward(s, 0);
    }
    for (int i = 0; i < p - r; i++) {
        forward(s, 1);
        both(s, 1);
    }
    while (s->f[1] < s->f[0] || s->f[0] < m) {
        if (s->f[0] < m)
            forward(s, 0);
        both(s, 0);
        forward(s, 1);
        both(s, 1);
    }
    for (int i = 0; i < r; i++) {
        input(s, 0);
        input(s, 1);
    }
    for (int i = 0; i < p - r; i++) {
        input(s, 0);
        weight(s, 0);
    }
    while (s->w[1] < s->b[1])
        weight(s, 1);
    while (s->w[0] < s->b[0])
        weight(s, 0);
}

static sl_err zb_v(struct sl_gen *gen) {
    int p = sl_schedules_gen_depth(gen->plan, SL_LAYOUT_V);
    for (int replica = 0; replica < gen->plan->stages[0].width; replica++)
        for (int r = 0; r < p; r++) {
            struct side s = side_of(gen, r, replica);
            int32_t m = share_of(&s);
            zb_v_worker(&s, p, m > 2 * p - 1 ? m : 2 * p - 1);
        }
    return SL_OK;
}

/* --- dualpipe-v --- */

static void backward(struct side *s, int c, bool split) {
    if (split) {
        put(s, SL_BACKWARD_INPUT, c, s->b[c]++);
        SL_PUSH(&s->waiting, c);
    } else {
        put(s, SL_BACKWARD, c, s->b[c]++);
        s->w[c] = s->b[c];
    }
}

static void oldest_weight(struct side *s) {
    if (s->waiting_at == s->waiting.count)
        return;
    int c = s->waiting.at[s->waiting_at++];
    weight(s, c);
}

static void dualpipe_v_drain(struct side *s, int p) {
    int r = s->rank;
    bool split = false;
    for (int i = 0; i < p - r - 1; i++) { /* B1 F1 B0 */
        backward(s, 1, false);
        forward(s, 1);
        backward(s, 0, false);
    }
    for (int i = 0; i < r + 1; i++) { /* B1 B0, the second half split */
        split |= i == (r + 1) / 2 && r % 2 == 1;
        backward(s, 1, split);
        split |= i == (r + 1) / 2 && r % 2 == 0;
        backward(s, 0, split);
    }
    for (int i = 0; i < p - r - 1; i++) {
        oldest_weight(s);
        backward(s, 0, true);
    }
    for (int i = 0; i < r + 1; i++)
        oldest_weight(s);
}

static void dualpipe_v_worker(struct side *s, int p, int32_t m) {
    int r = s->rank;
    for (int i = 0; i < 2 * (p - r - 1); i++)
        forward(s, 0);
    for (int i = 0; i < r + 1; i++) {
        forward(s, 0);
        forward(s, 1);
    }
    for (int i = 0; i < p - r - 1; i++) {
        backward(s, 1, true);
        oldest_weight(s);
        forward(s, 1);
    }
    for (int i = 0; i < m - 2 * p + r + 1; i++) {
        forward(s, 0);
        backward(s, 1, false);
        forward(s, 1);
        backward(s, 0, false);
    }
    dualpipe_v_drain(s, p);
}

static sl_err dualpipe_v(struct sl_gen *gen) {
    int p = sl_schedules_gen_depth(gen->plan, SL_LAYOUT_V);
    for (int replica = 0; replica < gen->plan->stages[0].width; replica++)
        for (int r = 0; r < p; r++) {
            struct side s = side_of(gen, r, replica);
            dualpipe_v_worker(&s, p, share_of(&s));
            SL_VEC_FREE(&s.waiting);
        }
    return SL_OK;
}

static sl_err check_zb_v(const struct sl_gen *gen) {
    return sl_schedules_gen_check_chain(gen, SL_LAYOUT_V);
}

static sl_err check_dualpipe_v(const struct sl_gen *gen) {
    SL_TRY(sl_schedules_gen_check_chain(gen, SL_LAYOUT_V));
    if (gen->sched->micros[0] < 2 * gen->plan->worker_count)
        return sl_fail(SL_ERR_REFUSED, "dualpipe-v needs m >= 2p: %d micro-batches, %d workers",
                       gen->sched->micros[0], gen->plan->worker_count);
    return SL_OK;
}

/* The two stages of a worker together hold 2p micro-batches (zb-v) or 2p+1 (dualpipe-v). */
static void claim(const struct sl_gen *gen, int seat, struct sl_claim *out) {
    int64_t live = 2 * (int64_t)sl_schedules_gen_depth(gen->plan, SL_LAYOUT_V) +
                   (gen->row->iteration == dualpipe_v);
    int64_t share = sl_sched_deps_share(gen->micros[0], gen->plan->stages[0].width,
                                        gen->plan->seats[seat].replica);
    live = live < share ? live : share;
    *out = (struct sl_claim){.live = live, .versions = 1, .delay = 0};
}

const struct sl_schedule sl_schedules_row_zb_v = {
    .name = "zb-v",
    .brief = "zero bubble on a V of stages: memory of 1f1b, no bubble for equal times",
    .domain = "a chain of 2p stages in a V over p workers",
    .rule = SL_RULE_SYNC,
    .layout = SL_LAYOUT_V,
    .layout_chunks = true,
    .splits_backward = true,
    .torch_name = "ScheduleZBVZeroBubble",
    .torchtitan_name = "ZBVZeroBubble",
    .check = check_zb_v,
    .iteration = zb_v,
    .claim = claim,
    .automodel_v = true,
};

const struct sl_schedule sl_schedules_row_dualpipe_v = {
    .name = "dualpipe-v",
    .brief = "DualPipe on a V of stages (DeepSeek)",
    .domain = "a chain of 2p stages in a V over p workers, m >= 2p",
    .rule = SL_RULE_SYNC,
    .layout = SL_LAYOUT_V,
    .layout_chunks = true,
    .splits_backward = true,
    .mixes_backward = true,
    .micros_per_worker = 2,
    .torch_name = "ScheduleDualPipeV",
    .torchtitan_name = "DualPipeV",
    .check = check_dualpipe_v,
    .iteration = dualpipe_v,
    .claim = claim,
};
