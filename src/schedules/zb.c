/* Zero-bubble H1 and H2: backward is split, and W runs late enough to fill the drain.
 *
 * Group x on a stage of height h, where H is the largest height (Qi et al. 2024, Zero Bubble, sec.
 * 2; h = p-1-r on a chain, and heights extend the rule to graphs):
 *     H1: F x, I x-h,  W x-H          H2: F x, I x-2h, W x-2H
 * Passes with numbers outside [0, m) are skipped; this gives warm-up and cool-down. */
#include "schedules/gen.h"

static int64_t h1_window(const struct sl_gen *gen, int stage) {
    return gen->plan->stages[stage].height + 1;
}

static int64_t h2_window(const struct sl_gen *gen, int stage) {
    return 2 * (int64_t)gen->plan->stages[stage].height + 1;
}

static void put(struct sl_gen *gen, int seat, enum sl_kind kind, int64_t micro) {
    const struct sl_seat *s = &gen->plan->seats[seat];
    if (micro >= 0 && micro < gen->micros[s->stage] &&
        micro % gen->plan->stages[s->stage].width == s->replica)
        sl_schedules_gen_put(&gen->seats[seat], kind, s->stage, (int32_t)micro);
}

void sl_schedules_gen_zb_sequences(struct sl_gen *gen, int scale) {
    int64_t late = (int64_t)scale * (gen->plan->depth - 1);
    for (int i = 0; i < gen->plan->seat_count; i++) {
        int stage = gen->plan->seats[i].stage;
        int64_t ahead = (int64_t)scale * gen->plan->stages[stage].height;
        for (int64_t x = 0; x < gen->micros[stage] + late; x++) {
            put(gen, i, SL_FORWARD, x);
            put(gen, i, SL_BACKWARD_INPUT, x - ahead);
            put(gen, i, SL_BACKWARD_WEIGHT, x - late);
        }
    }
}

static sl_err iteration(struct sl_gen *gen) {
    sl_schedules_gen_zb_sequences(gen, gen->row->window == h2_window ? 2 : 1);
    return sl_schedules_gen_merge(gen);
}

static void claim(const struct sl_gen *gen, int seat, struct sl_claim *out) {
    int stage = gen->plan->seats[seat].stage, width = gen->plan->stages[stage].width;
    int64_t live = gen->row->window(gen, stage);
    live = live < gen->micros[stage] ? live : gen->micros[stage];
    *out = (struct sl_claim){.live = sl_schedules_gen_ceil(live, width), .versions = 1, .delay = 0};
}

const struct sl_schedule sl_schedules_row_zb_h1 = {
    .name = "zb-h1",
    .brief = "zero bubble H1: memory of 1f1b, a third of its bubble",
    .domain = "one micro-batch size for all stages",
    .rule = SL_RULE_SYNC,
    .splits_backward = true,
    .check = sl_schedules_gen_check_equal,
    .iteration = iteration,
    .window = h1_window,
    .claim = claim,
};

const struct sl_schedule sl_schedules_row_zb_h2 = {
    .name = "zb-h2",
    .brief = "zero bubble H2: twice the memory, no bubble for equal times",
    .domain = "one micro-batch size for all stages",
    .rule = SL_RULE_SYNC,
    .splits_backward = true,
    .check = sl_schedules_gen_check_equal,
    .iteration = iteration,
    .window = h2_window,
    .claim = claim,
};
