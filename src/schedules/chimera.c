/* Chimera: two pipelines cross on the same workers (Li and Hoefler 2021, sec. 3).
 *
 *     worker 0:  stage 0 of the even micro-batches, stage p-1 of the odd ones
 *     worker p-1:  stage p-1 of the even micro-batches, stage 0 of the odd ones
 *
 * Each stage has two replicas (a second copy of the weights) that reduce their gradients.
 *
 * The paper schedules units of p micro-batches, p/2 in each direction, and overlaps them: forwards
 * of the next unit fill the gaps of the last one's backwards. A greedy simulation with the durations
 * gives the same order for any m: forwards first, the deepest first. Each replica of stage s runs at
 * most p - s forwards ahead, so that a worker has at most p + 1 micro-batches in flight. Forwards
 * come first because they are shorter and the windows limit them; a delayed forward delays all
 * later workers. With backwards first the directions get out of phase, and every unit adds a gap.
 *
 * With B >= F the bubble is (p-2) B for m = p and for even m >= 2p; tests/unit/sim/test_exact.c
 * has the other cases. It is never larger than that of 1f1b. */
#include "schedules/gen.h"

static sl_err check(const struct sl_gen *gen) {
    return sl_schedules_gen_check_chain(gen, SL_LAYOUT_CROSS);
}

struct state {
    struct sl_gen *gen;
    int32_t (*next)[2]; /* [seat] next F and next B, as micro-batch numbers of this seat */
};

static int candidates(void *ctx, int seat, struct sl_offer out[4]) {
    struct state *state = ctx;
    const struct sl_seat *s = &state->gen->plan->seats[seat];
    int32_t *next = state->next[seat], width = state->gen->plan->stages[s->stage].width;
    int32_t share = sl_sched_deps_share(state->gen->micros[s->stage], width, s->replica);
    int p = state->gen->plan->stage_count, count = 0;
    if (next[1] < next[0])
        out[count++] = (struct sl_offer){{.kind = SL_BACKWARD,
                                          .stage = (uint16_t)s->stage,
                                          .micro = next[1] * width + s->replica},
                                         SL_STAGE_MAX + s->stage};
    if (next[0] < share && next[0] - next[1] < p - s->stage)
        out[count++] = (struct sl_offer){{.kind = SL_FORWARD,
                                          .stage = (uint16_t)s->stage,
                                          .micro = next[0] * width + s->replica},
                                         SL_STAGE_MAX - s->stage};
    return count;
}

static void took(void *ctx, int seat, const struct sl_action *pass) {
    ((struct state *)ctx)->next[seat][pass->kind == SL_BACKWARD]++;
}

static sl_err iteration(struct sl_gen *gen) {
    struct state state = {
        gen, sl_arena_alloc(gen->arena, gen->plan->seat_count * (int64_t)sizeof(int32_t[2]))};
    struct sl_play play = {.gen = gen, .ctx = &state, .candidates = candidates, .took = took};
    return sl_schedules_gen_play(&play);
}

static void claim(const struct sl_gen *gen, int seat, struct sl_claim *out) {
    const struct sl_seat *s = &gen->plan->seats[seat];
    int64_t live = gen->plan->stage_count - s->stage;
    int64_t share =
        sl_sched_deps_share(gen->micros[0], gen->plan->stages[s->stage].width, s->replica);
    *out = (struct sl_claim){.live = live < share ? live : share, .versions = 1, .delay = 0};
}

const struct sl_schedule sl_schedules_row_chimera = {
    .name = "chimera",
    .brief = "two pipelines in opposite directions, two copies of the weights (Chimera)",
    .domain = "a chain of an even number of stages, each with a replica on the opposite worker",
    .rule = SL_RULE_SYNC,
    .layout = SL_LAYOUT_CROSS,
    .check = check,
    .iteration = iteration,
    .claim = claim,
};
