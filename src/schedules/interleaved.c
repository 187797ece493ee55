/* Interleaved 1F1B (Narayanan et al. 2021, Megatron-LM, sec. 2.2): v stages per
 * worker, stage c*p + r on worker r.
 *
 * Virtual micro-batch x of a worker is micro-batch (x / pv) p + x mod p of chunk (x mod pv) / p;
 * the backward takes the last chunk first. Worker r runs 2(p-r-1) + (v-1)p forwards, then
 * alternates backwards and forwards. */
#include "schedules/gen.h"

static sl_err check(const struct sl_gen *gen) {
    SL_TRY(sl_schedules_gen_check_chain(gen, SL_LAYOUT_LOOP));
    if (gen->sched->micros[0] % gen->plan->worker_count)
        return sl_fail(SL_ERR_REFUSED,
                       "interleaved needs micro-batches in multiples of the workers: %d "
                       "micro-batches, %d workers",
                       gen->sched->micros[0], gen->plan->worker_count);
    return SL_OK;
}

/* One of the equal pipelines: replica `replica` of every stage, which runs every `width`-th
 * micro-batch. */
struct pipeline {
    struct sl_gen *gen;
    int p, v, replica, width;
};

static struct pipeline pipeline_of(struct sl_gen *gen, int replica) {
    int p = sl_schedules_gen_depth(gen->plan, SL_LAYOUT_LOOP);
    return (struct pipeline){gen, p, gen->plan->stage_count / p, replica,
                             gen->plan->stages[0].width};
}

static void put(const struct pipeline *l, int rank, enum sl_kind kind, int64_t x) {
    int p = l->p, v = l->v;
    int64_t chunk = x % (p * v) / p, micro = x / (p * v) * p + x % p;
    if (kind != SL_FORWARD)
        chunk = v - 1 - chunk;
    struct sl_passes *passes = &l->gen->workers[l->gen->plan->stages[rank].workers[l->replica]];
    sl_schedules_gen_put(passes, kind, (int)chunk * p + rank,
                         (int32_t)(micro * l->width + l->replica));
}

static int64_t total_of(const struct pipeline *l) {
    return (int64_t)l->gen->micros[0] / l->width * l->v;
}

static int64_t warm_up(const struct pipeline *l, int rank) {
    int64_t p = l->p, v = l->v, total = total_of(l);
    int64_t warm = v == 1 ? p - rank - 1 : 2 * (p - rank - 1) + (v - 1) * p;
    return warm < total ? warm : total;
}

static sl_err iteration(struct sl_gen *gen) {
    for (int replica = 0; replica < gen->plan->stages[0].width; replica++) {
        struct pipeline l = pipeline_of(gen, replica);
        for (int r = 0; r < l.p; r++) {
            int64_t total = total_of(&l), warm = warm_up(&l, r);
            for (int64_t x = 0; x < warm; x++)
                put(&l, r, SL_FORWARD, x);
            for (int64_t x = warm; x < total + warm; x++) {
                if (x < total)
                    put(&l, r, SL_FORWARD, x);
                put(&l, r, SL_BACKWARD, x - warm);
            }
        }
    }
    return SL_OK;
}

/* Number of micro-batches of chunk c among the first `count` virtual micro-batches of a worker. */
static int64_t of_chunk(int64_t count, int64_t p, int64_t v, int64_t c) {
    int64_t rest = count % (p * v) - c * p;
    return count / (p * v) * p + (rest < 0 ? 0 : rest < p ? rest : p);
}

/* Just before backward x of a worker, warm_up + x + 1 of its forwards have run. */
static void claim(const struct sl_gen *gen, int seat, struct sl_claim *out) {
    struct sl_gen own = *gen;
    struct pipeline l = pipeline_of(&own, gen->plan->seats[seat].replica);
    int64_t p = l.p, v = l.v, live = 0, stage = gen->plan->seats[seat].stage;
    int64_t warm = warm_up(&l, (int)(stage % p)), total = total_of(&l), chunk = stage / p;
    for (int64_t x = 0; x <= p * v && x < total; x++) {
        int64_t forwards = warm + x + 1 < total ? warm + x + 1 : total;
        int64_t now = of_chunk(forwards, p, v, chunk) - of_chunk(x, p, v, v - 1 - chunk);
        live = now > live ? now : live;
    }
    *out = (struct sl_claim){.live = live, .versions = 1, .delay = 0};
}

const struct sl_schedule sl_schedules_row_interleaved = {
    .name = "interleaved",
    .brief = "several stages per worker in a loop (Megatron's interleaved 1F1B)",
    .domain = "a chain, stages in a loop over the workers, micro-batches a multiple of the workers",
    .rule = SL_RULE_SYNC,
    .layout = SL_LAYOUT_LOOP,
    .layout_chunks = true,
    .micros_divide = true,
    .torch_name = "ScheduleInterleaved1F1B",
    .torchtitan_name = "Interleaved1F1B",
    .in_megatron = true,
    .check = check,
    .iteration = iteration,
    .claim = claim,
};
