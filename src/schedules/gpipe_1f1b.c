/* Rows that differ only in how far forwards run ahead: gpipe, 1f1b, kfkb, graph, serial.
 *
 *     gpipe   F0 F1 F2 F3 B0 B1 B2 B3      window = all
 *     1f1b    F0 F1 B0 F2 B1 F3 B2 B3      window = height + 1
 *     kfkb    F0 F1 F2 F3 B0 B1 F4 F5 ...  groups of k
 *     graph   kfkb with a micro-batch size per stage (Jeon et al. 2025, GraphPipe)
 *     serial  F0 B0 F1 B1 F2 B2 F3 B3      window = 1
 *     forward F0 F1 F2 F3                  evaluation: no backward passes */
#include "schedules/gen.h"

static int64_t all_of(const struct sl_gen *gen, int stage) { return gen->micros[stage]; }

static int64_t window_of(const struct sl_gen *gen, int stage) {
    return gen->samples[stage] / gen->plan->stages[stage].micro_size;
}

/* Window of rows whose replicas each wait for their micro-batch to come back. */
static int64_t one_each(const struct sl_gen *gen, int stage) {
    return gen->plan->stages[stage].width;
}

static sl_err check_any(const struct sl_gen *gen) {
    (void)gen;
    return SL_OK;
}

static sl_err iteration(struct sl_gen *gen) {
    for (int i = 0; i < gen->plan->seat_count; i++) {
        int stage = gen->plan->seats[i].stage;
        sl_schedules_gen_windowed(gen, i, gen->row->window(gen, stage),
                                  sl_schedules_gen_group(gen, stage), false);
    }
    return sl_schedules_gen_merge(gen);
}

static sl_err check_forward(const struct sl_gen *gen) {
    if (gen->iters == 1)
        return SL_OK;
    return sl_fail(SL_ERR_REFUSED, "forward makes no steps, so there is one iteration, not %lld",
                   (long long)gen->iters);
}

static sl_err iteration_forward(struct sl_gen *gen) {
    for (int i = 0; i < gen->plan->seat_count; i++) {
        const struct sl_seat *seat = &gen->plan->seats[i];
        int width = gen->plan->stages[seat->stage].width;
        for (int32_t j = seat->replica; j < gen->micros[seat->stage]; j += width)
            sl_schedules_gen_put(&gen->seats[i], SL_FORWARD, seat->stage, j);
    }
    return sl_schedules_gen_merge(gen);
}

static void claim_forward(const struct sl_gen *gen, int seat, struct sl_claim *out) {
    const struct sl_seat *at = &gen->plan->seats[seat];
    int32_t share = sl_sched_deps_share(gen->micros[at->stage], gen->plan->stages[at->stage].width,
                                        at->replica);
    *out = (struct sl_claim){.live = share > 0, .versions = 1, .delay = 0};
}

static void claim(const struct sl_gen *gen, int seat, struct sl_claim *out) {
    int stage = gen->plan->seats[seat].stage, width = gen->plan->stages[stage].width;
    int64_t live = gen->row->window(gen, stage);
    live = live < gen->micros[stage] ? live : gen->micros[stage];
    *out = (struct sl_claim){.live = sl_schedules_gen_ceil(live, width), .versions = 1, .delay = 0};
}

/* Fields that the synchronous rows share. */
#define SYNCHRONOUS .rule = SL_RULE_SYNC, .iteration = iteration, .claim = claim
#define GROUPED                                                                                    \
    SYNCHRONOUS, .domain = "any", .any_micro_size = true, .groups = true, .check = check_any,      \
                 .window = window_of

const struct sl_schedule sl_schedules_row_gpipe = {.name = "gpipe",
                                                   .brief =
                                                       "all forwards, then all backwards (GPipe)",
                                                   .domain = "any",
                                                   SYNCHRONOUS,
                                                   .memory = SL_MEMORY_ALL,
                                                   .searched = SL_SEARCHED_EQUAL,
                                                   .any_micro_size = true,
                                                   .torch_name = "ScheduleGPipe",
                                                   .torchtitan_name = "GPipe",
                                                   .torch_fills = true,
                                                   .check = check_any,
                                                   .window = all_of};

const struct sl_schedule sl_schedules_row_graph = {
    .name = "graph",
    .brief = "kFkB on a graph of stages, a micro-batch size per stage (GraphPipe)",
    GROUPED,
    .windowed = true,
    .searched = SL_SEARCHED_MIXED,
    .mixed = &sl_schedules_row_graph};

const struct sl_schedule sl_schedules_row_1f1b = {
    .name = "1f1b",
    .brief = "one forward, one backward, flush per step (PipeDream-Flush)",
    .domain = "one micro-batch size for all stages",
    SYNCHRONOUS,
    .windowed = true,
    .searched = SL_SEARCHED_EQUAL,
    .mixed = &sl_schedules_row_graph,
    .torch_name = "Schedule1F1B",
    .torchtitan_name = "1F1B",
    .torch_fills = true,
    .in_megatron = true,
    .check = sl_schedules_gen_check_equal,
    .window = window_of};

const struct sl_schedule sl_schedules_row_kfkb = {
    .name = "kfkb", .brief = "k forwards, k backwards (--group K)", GROUPED};

const struct sl_schedule sl_schedules_row_serial = {
    .name = "serial",
    .brief = "one micro-batch at a time: model parallelism without a pipeline",
    .domain = "one micro-batch size for all stages",
    SYNCHRONOUS,
    .memory = SL_MEMORY_ONE,
    .check = sl_schedules_gen_check_equal,
    .window = one_each};

const struct sl_schedule sl_schedules_row_forward = {
    .name = "forward",
    .brief = "forward passes only, for evaluation",
    .domain = "one iteration",
    .rule = SL_RULE_FORWARD,
    .any_micro_size = true,
    .check = check_forward,
    .iteration = iteration_forward,
    .window = all_of,
    .claim = claim_forward,
};
