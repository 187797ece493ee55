/* Zero bubble on a graph of stages: W fills the gaps that joins create.
 *
 *     src ─ a ─ b ─ sink      c waits for the long branch during warm-up and drain; its W
 *        └─ c ──────┘         passes run there instead of after every I
 *
 * Greedy simulations with the given durations. A free worker runs, in this order:
 *     an I whose gradients have arrived;
 *     an F whose inputs have arrived, if fewer than f_i micro-batches are between F and I (Jeon et
 *     al. 2025, GraphPipe, Algorithm 2) and fewer than f_max between F and W;
 *     a waiting W.
 * So it takes the memory of zb-h1: f_i stashes, and f_max micro-batches stashed or kept for W.
 * Three orders are simulated: I before F, F before I, and that of zb-h1. The shortest one is
 * used. docs/design/0005-zb-graph.md has the details. */
#include "schedules/gen.h"

struct seat_state {
    int32_t forward, input, weight; /* next micro-batch of the seat for F, I and W */
    int32_t share;                  /* number of micro-batches of this seat */
    int64_t stash_max, kept_max;    /* most micro-batches between F and I, and between F and W */
};

struct state {
    struct sl_gen *gen;
    struct seat_state *seats;
    bool forward_first;
};

static struct sl_action pass_of(const struct sl_gen *gen, int seat, enum sl_kind kind,
                                int32_t local) {
    const struct sl_seat *s = &gen->plan->seats[seat];
    int32_t micro = local * gen->plan->stages[s->stage].width + s->replica;
    return (struct sl_action){.kind = (uint8_t)kind, .stage = (uint16_t)s->stage, .micro = micro};
}

static int candidates(void *ctx, int seat, struct sl_offer out[4]) {
    struct state *state = ctx;
    struct seat_state *s = &state->seats[seat];
    int height = state->gen->plan->stages[state->gen->plan->seats[seat].stage].height;
    int count = 0;
    if (s->input < s->forward)
        out[count++] =
            (struct sl_offer){pass_of(state->gen, seat, SL_BACKWARD_INPUT, s->input), height};
    if (s->forward < s->share && s->forward - s->input < s->stash_max &&
        s->forward - s->weight < s->kept_max)
        out[count++] = (struct sl_offer){pass_of(state->gen, seat, SL_FORWARD, s->forward),
                                         SL_STAGE_MAX + height};
    if (s->weight < s->input)
        out[count++] = (struct sl_offer){pass_of(state->gen, seat, SL_BACKWARD_WEIGHT, s->weight),
                                         2 * SL_STAGE_MAX + height};
    return count;
}

static void took(void *ctx, int seat, const struct sl_action *pass) {
    struct seat_state *s = &((struct state *)ctx)->seats[seat];
    if (pass->kind == SL_FORWARD)
        s->forward++;
    else if (pass->kind == SL_BACKWARD_INPUT)
        s->input++;
    else
        s->weight++;
}

static int64_t window_of(const struct sl_gen *gen, int stage) {
    return gen->samples[stage] / gen->plan->stages[stage].micro_size;
}

static sl_err play_greedy(struct sl_gen *gen, bool forward_first, int64_t *end_ns) {
    struct state state = {gen, SL_NEW(gen->arena, struct seat_state, gen->plan->seat_count),
                          forward_first};
    int64_t max = 0;
    for (int i = 0; i < gen->plan->stage_count; i++)
        max = gen->samples[i] > max ? gen->samples[i] : max;
    for (int i = 0; i < gen->plan->seat_count; i++) {
        const struct sl_seat *seat = &gen->plan->seats[i];
        const struct sl_stage *stage = &gen->plan->stages[seat->stage];
        state.seats[i] = (struct seat_state){
            .share = sl_sched_deps_share(gen->micros[seat->stage], stage->width, seat->replica),
            .stash_max = sl_schedules_gen_ceil(window_of(gen, seat->stage), stage->width),
            .kept_max =
                sl_schedules_gen_ceil(sl_schedules_gen_ceil(max, stage->micro_size), stage->width),
        };
    }
    struct sl_play play = {.gen = gen, .ctx = &state, .candidates = candidates, .took = took};
    SL_TRY(sl_schedules_gen_play(&play));
    *end_ns = play.end_ns;
    return SL_OK;
}

/* Can the order of zb-h1 be used? It needs one micro-batch size, and room for it where replicas
 * share a window. */
static bool has_h1(const struct sl_gen *gen) {
    for (int i = 0; i < gen->plan->stage_count; i++)
        if (gen->plan->stages[i].micro_size != gen->plan->stages[0].micro_size ||
            gen->plan->stages[i].width > 1)
            return false;
    return true;
}

static sl_err iteration(struct sl_gen *gen) {
    enum { I_FIRST, F_FIRST, H1, VARIANTS };
    int workers = gen->plan->worker_count;
    struct sl_passes *best = SL_NEW(gen->arena, struct sl_passes, workers);
    int64_t best_ns = INT64_MAX;
    sl_err err = SL_OK;
    for (int v = 0; v < (has_h1(gen) ? VARIANTS : H1) && err == SL_OK; v++) {
        int64_t end_ns;
        if (v == H1) {
            sl_schedules_gen_zb_sequences(gen, 1);
            err = sl_schedules_gen_play_seats(gen, &end_ns);
        } else {
            err = play_greedy(gen, v == F_FIRST, &end_ns);
        }
        for (int w = 0; w < workers; w++) {
            if (err == SL_OK && end_ns < best_ns) {
                struct sl_passes was = best[w];
                best[w] = gen->workers[w];
                gen->workers[w] = was;
            }
            gen->workers[w].vec.count = 0;
        }
        best_ns = err == SL_OK && end_ns < best_ns ? end_ns : best_ns;
    }
    for (int w = 0; w < workers; w++) {
        SL_VEC_FREE(&gen->workers[w].vec);
        gen->workers[w] = best[w];
    }
    return err;
}

static sl_err check_any(const struct sl_gen *gen) {
    (void)gen;
    return SL_OK;
}

static void claim(const struct sl_gen *gen, int seat, struct sl_claim *out) {
    int stage = gen->plan->seats[seat].stage, width = gen->plan->stages[stage].width;
    int64_t live = window_of(gen, stage);
    live = live < gen->micros[stage] ? live : gen->micros[stage];
    *out = (struct sl_claim){
        .live = sl_schedules_gen_ceil(live, width), .live_bound = true, .versions = 1, .delay = 0};
}

const struct sl_schedule sl_schedules_row_zb_graph = {
    .name = "zb-graph",
    .brief = "zero bubble on a graph of stages: W fills the gaps at joins",
    .domain = "any",
    .rule = SL_RULE_SYNC,
    .splits_backward = true,
    .searched = SL_SEARCHED_EQUAL,
    .any_micro_size = true,
    .check = check_any,
    .iteration = iteration,
    .window = window_of,
    .claim = claim,
};
