/* The dependency rule, and the seat that runs each micro-batch. */
#include "sched/deps.h"

struct sl_need sl_sched_deps_need(const struct sl_stage *stage, enum sl_kind kind) {
    uint16_t stashed = (uint16_t)(1u << (stage->recompute ? SL_RECOMPUTE : SL_FORWARD));
    switch (kind) {
    case SL_FORWARD: return (struct sl_need){.in_acts = true};
    case SL_RECOMPUTE: return (struct sl_need){.own = 1u << SL_FORWARD};
    case SL_BACKWARD:
    case SL_BACKWARD_INPUT: return (struct sl_need){.out_grads = true, .own = stashed};
    case SL_BACKWARD_WEIGHT: return (struct sl_need){.own = 1u << SL_BACKWARD_INPUT};
    default: return (struct sl_need){0};
    }
}

bool sl_sched_deps_has(const struct sl_stage *stage, enum sl_kind kind) {
    switch (stage->passes) {
    case SL_STAGE_FORWARD: return kind == SL_FORWARD || kind > SL_RECOMPUTE;
    case SL_STAGE_FROZEN: return kind != SL_BACKWARD_INPUT && kind != SL_BACKWARD_WEIGHT;
    default: return true;
    }
}

bool sl_sched_deps_reduces(const struct sl_stage *stage) {
    return stage->width > 1 && (stage->passes == SL_STAGE_TRAINS || stage->bytes.state > 0);
}

struct sl_micro_range sl_sched_deps_overlap(const struct sl_sched *sched, int stage, int32_t micro,
                                            int other) {
    int64_t size = sched->plan->stages[stage].micro_size;
    int64_t other_size = sched->plan->stages[other].micro_size;
    if (size == other_size)
        return (struct sl_micro_range){micro, micro + 1};
    int32_t iter = micro / sched->micros[stage], index = micro % sched->micros[stage];
    int64_t first = index * size, last = first + sl_sched_samples(sched, stage, micro) - 1;
    int32_t base = iter * sched->micros[other];
    return (struct sl_micro_range){base + (int32_t)(first / other_size),
                                   base + (int32_t)(last / other_size) + 1};
}

int sl_sched_deps_seat(const struct sl_sched *sched, int stage, int32_t micro) {
    const struct sl_stage *s = &sched->plan->stages[stage];
    return s->width == 1 ? s->seat : s->seat + (micro % sched->micros[stage]) % s->width;
}

int32_t sl_sched_deps_share(int32_t micros, int width, int replica) {
    return replica < micros ? (micros - replica + width - 1) / width : 0;
}

bool sl_sched_deps_completes(const struct sl_sched *sched, int stage, int32_t micro) {
    int32_t micros = sched->micros[stage], index = micro % micros;
    return index + sched->plan->stages[stage].width >=
           sl_sched_micros(sched, stage, micro / micros);
}

bool sl_sched_deps_meets(const struct sl_sched *sched, int group) {
    return !sched->global_step || group < sched->plan->stage_count;
}

int32_t sl_sched_deps_ordinal(const struct sl_sched *sched, int stage, int32_t micro) {
    const struct sl_stage *s = &sched->plan->stages[stage];
    if (s->width == 1)
        return micro;
    int32_t micros = sched->micros[stage], iter = micro / micros, index = micro % micros;
    return iter * sl_sched_deps_share(micros, s->width, index % s->width) + index / s->width;
}
