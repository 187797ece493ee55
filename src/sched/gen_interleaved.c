/* Interleaved 1F1B (Narayanan et al. 2021, Megatron-LM, sec. 2.2): v stages per
 * worker, stage c*p + r on worker r.
 *
 * Virtual micro-batch x of a worker is micro-batch (x / pv) p + x mod p of chunk (x mod pv) / p;
 * the backward takes chunks from the last. Worker r runs 2(p-r-1) + (v-1)p forwards, then
 * alternates.
 */
#include "sched/gen.h"

static sl_err check(const struct sl_gen *gen) {
    SL_TRY(sl_sched_gen_check_chain(gen, SL_LAYOUT_LOOP));
    if (gen->sched->micros[0] % gen->plan->worker_count)
        return sl_fail(SL_ERR_REFUSED,
                       "interleaved needs micro-batches in multiples of the workers: %d "
                       "micro-batches, %d workers",
                       gen->sched->micros[0], gen->plan->worker_count);
    return SL_OK;
}

static void put(struct sl_gen *gen, int worker, enum sl_kind kind, int64_t x) {
    int p = gen->plan->worker_count, v = gen->plan->stage_count / p;
    int64_t chunk = x % (p * v) / p, micro = x / (p * v) * p + x % p;
    if (kind != SL_FORWARD)
        chunk = v - 1 - chunk;
    sl_sched_gen_put(&gen->workers[worker], kind, (int)chunk * p + worker, (int32_t)micro);
}

static int64_t warm_up(const struct sl_gen *gen, int worker) {
    int64_t p = gen->plan->worker_count, v = gen->plan->stage_count / p;
    int64_t total = gen->micros[0] * v;
    int64_t warm = v == 1 ? p - worker - 1 : 2 * (p - worker - 1) + (v - 1) * p;
    return warm < total ? warm : total;
}

static sl_err iteration(struct sl_gen *gen) {
    int p = gen->plan->worker_count;
    for (int r = 0; r < p; r++) {
        int64_t total = (int64_t)gen->micros[0] * (gen->plan->stage_count / p);
        int64_t warm = warm_up(gen, r);
        for (int64_t x = 0; x < warm; x++)
            put(gen, r, SL_FORWARD, x);
        for (int64_t x = warm; x < total + warm; x++) {
            if (x < total)
                put(gen, r, SL_FORWARD, x);
            put(gen, r, SL_BACKWARD, x - warm);
        }
    }
    return SL_OK;
}

/* Number of micro-batches of chunk c among the first `count` virtual micro-batches of a worker. */
static int64_t of_chunk(int64_t count, int64_t p, int64_t v, int64_t c) {
    int64_t rest = count % (p * v) - c * p;
    return count / (p * v) * p + (rest < 0 ? 0 : rest < p ? rest : p);
}

/* Just before backward x of the worker, warm_up + x + 1 forwards have run. */
static void claim(const struct sl_gen *gen, int seat, struct sl_claim *out) {
    int64_t p = gen->plan->worker_count, v = gen->plan->stage_count / p, live = 0;
    int64_t warm = warm_up(gen, gen->plan->seats[seat].worker), total = gen->micros[0] * v;
    int64_t chunk = gen->plan->seats[seat].stage / p;
    for (int64_t x = 0; x <= p * v && x < total; x++) {
        int64_t forwards = warm + x + 1 < total ? warm + x + 1 : total;
        int64_t now = of_chunk(forwards, p, v, chunk) - of_chunk(x, p, v, v - 1 - chunk);
        live = now > live ? now : live;
    }
    *out = (struct sl_claim){.live = live, .versions = 1, .delay = 0};
}

const struct sl_schedule sl_sched_row_interleaved = {
    .name = "interleaved",
    .brief = "several stages per worker in a loop (Megatron's interleaved 1F1B)",
    .domain = "a chain, stages in a loop over the workers, micro-batches a multiple of the workers",
    .rule = SL_RULE_SYNC,
    .layout = SL_LAYOUT_LOOP,
    .layout_chunks = true,
    .micros_divide = true,
    .torch_name = "ScheduleInterleaved1F1B",
    .torchtitan_name = "Interleaved1F1B",
    .check = check,
    .iteration = iteration,
    .claim = claim,
};
