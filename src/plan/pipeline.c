/* Extracts the first of the equal pipelines of a plan. */
#include "plan/pipeline.h"

int sl_plan_pipelines(const struct sl_plan *plan) {
    int width = plan->stages[0].width;
    for (int s = 0; s < plan->stage_count; s++)
        if (plan->stages[s].width != width)
            return 1;
    return plan->batch % width ? 1 : width;
}

sl_err sl_plan_pipeline(struct sl_arena *arena, const struct sl_plan *plan,
                        const struct sl_plan **out) {
    struct sl_plan one = *plan;
    struct sl_stage *stages = SL_NEW(arena, struct sl_stage, plan->stage_count);
    int *worker_of = SL_NEW(arena, int, plan->stage_count);
    /* new number of the worker + 1; 0: the worker is not used */
    int *number = SL_NEW(arena, int, plan->worker_count);
    int64_t *memory = SL_NEW(arena, int64_t, plan->worker_count);
    one.worker_count = 0;
    for (int s = 0; s < plan->stage_count; s++) {
        int w = plan->stages[s].workers[0];
        if (!number[w]) {
            memory[one.worker_count] = plan->memory_bytes ? plan->memory_bytes[w] : 0;
            number[w] = ++one.worker_count;
        }
        worker_of[s] = number[w] - 1;
        stages[s] = plan->stages[s];
        stages[s].width = 1;
        stages[s].zero1 = false; /* there are no other replicas to divide the state with */
        stages[s].workers = &worker_of[s];
    }
    one.stages = stages;
    one.memory_bytes = plan->memory_bytes ? memory : NULL;
    one.batch = plan->batch / sl_plan_pipelines(plan);
    return sl_plan_build(arena, &one, out);
}
