/* The dependency rule, and the seat that runs each micro-batch. */
#include "sched/deps.h"

bool sl_sched_deps_reduces(const struct sl_stage *stage) {
    return stage->width > 1 && (stage->passes == SL_STAGE_TRAINS || stage->bytes.state > 0);
}

struct sl_micro_range sl_sched_deps_overlap_sizes(const struct sl_sched *sched, int stage,
                                                  int32_t micro, int other) {
    int64_t size = sched->plan->stages[stage].micro_size;
    int64_t other_size = sched->plan->stages[other].micro_size;
    int32_t iter = micro / sched->micros[stage], index = micro % sched->micros[stage];
    int64_t first = index * size, last = first + sl_sched_samples(sched, stage, micro) - 1;
    int32_t base = iter * sched->micros[other];
    return (struct sl_micro_range){base + (int32_t)(first / other_size),
                                   base + (int32_t)(last / other_size) + 1};
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

int32_t sl_sched_deps_ordinal_replica(const struct sl_sched *sched, int stage, int32_t micro) {
    const struct sl_stage *s = &sched->plan->stages[stage];
    int32_t micros = sched->micros[stage], iter = micro / micros, index = micro % micros;
    return iter * sl_sched_deps_share(micros, s->width, index % s->width) + index / s->width;
}
