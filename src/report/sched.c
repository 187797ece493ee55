/* Reports on a verified schedule: the needs of every stage, as a table and as JSON. */
#include "report/sched.h"

#include "base/json.h"
#include "sched/deps.h"
#include "sched/order.h"

/* live: most micro-batches of a seat between F and B or I. delay: most steps by which the weights
 * of its forward passes are old. */
static void measure(const struct sl_sched *sched, int seat, int64_t *live, int64_t *delay) {
    int worker = sched->plan->seats[seat].worker, stage = sched->plan->seats[seat].stage;
    int64_t now = 0;
    bool alone = sched->plan->stages[stage].passes == SL_STAGE_FORWARD; /* F frees its slot */
    *live = *delay = 0;
    for (int s = 0; s < SL_SEGMENT_COUNT; s++)
        for (int64_t i = 0; i < sched->lists[s][worker].count; i++) {
            const struct sl_action *a = &sched->lists[s][worker].at[i];
            if (a->stage != stage || a->kind > SL_BACKWARD_INPUT)
                continue;
            now += a->kind == SL_FORWARD ? 1 : -1;
            *live = now > *live ? now : *live;
            now -= alone;
            int64_t behind = a->micro / sched->micros[stage] - a->version;
            if (a->kind == SL_FORWARD && behind > *delay)
                *delay = behind;
        }
}

/* Returns the most message buffers of an edge and direction at one of its ends. */
static int32_t message_buffers(const struct sl_sched *sched) {
    int32_t max = 0;
    for (int i = 0; i < sched->plan->seat_count; i++)
        for (int p = SL_POOL_EDGES;
             p < sl_sched_pool_count(&sched->plan->stages[sched->plan->seats[i].stage]); p++)
            max = sched->pools[i][p].count > max ? sched->pools[i][p].count : max;
    return max;
}

void sl_report_sched_json(const struct sl_sched *sched, const struct sl_sim *sim,
                          struct sl_text *out) {
    const struct sl_plan *plan = sched->plan;
    struct sl_json_out json = {.text = out, .indent = 2};
    sl_json_open(&json, '{');
    sl_json_put_string(&json, "schedule", sched->name);
    sl_json_put_string(&json, "rule", sl_sched_rule_name(sched->rule));
    sl_json_put_bool(&json, "verified", true);
    sl_json_put_bool(&json, "canonical", sl_sched_order_of(sched).gradients);
    sl_json_put_int(&json, "message_buffers", message_buffers(sched));
    sl_json_put_int(&json, "send_buffers", sched->buffers);
    sl_json_put_int(&json, "iterations", sched->iters);
    sl_json_put_int(&json, "repetitions", sched->reps);
    sl_json_put_int(&json, "depth", plan->depth);
    sl_json_put_int(&json, "actions", sl_sched_action_count(sched));
    if (sim)
        sl_json_put_int(&json, "step_ns", sim->step_ns);
    sl_json_key(&json, "stages");
    sl_json_open(&json, '[');
    for (int i = 0; i < plan->seat_count; i++) {
        const struct sl_seat *seat = &plan->seats[i];
        int64_t live, delay;
        measure(sched, i, &live, &delay);
        sl_json_open(&json, '{');
        sl_json_put_string(&json, "stage", plan->stages[seat->stage].name);
        sl_json_put_int(&json, "replica", seat->replica);
        sl_json_put_int(&json, "worker", seat->worker);
        sl_json_put_int(&json, "micro_batches", sched->micros[seat->stage]);
        sl_json_put_int(&json, "live", live);
        sl_json_put_int(&json, "live_samples", live * plan->stages[seat->stage].micro_size);
        if (sim)
            sl_json_put_int(&json, "bubble_ns", sl_sim_bubble(sim, seat->worker));
        sl_json_put_int(&json, "versions", sched->pools[i][SL_POOL_WEIGHT].count);
        sl_json_put_int(&json, "delay", delay);
        if (sim)
            sl_json_put_int(&json, "peak_bytes", sim->seats[i].peak_bytes);
        sl_json_put_int(&json, "worker_bytes", sl_sched_worker_bytes(sched, seat->worker));
        sl_json_close(&json, '}');
    }
    sl_json_close(&json, ']');
    sl_json_close(&json, '}');
    sl_text_put(out, "\n");
}

void sl_report_sched(const struct sl_sched *sched, struct sl_text *out) {
    const struct sl_plan *plan = sched->plan;
    char bytes[SL_HUMAN_BYTES];
    sl_text_printf(out,
                   "%s (%s): %d stages, %d workers, depth %d, %d iterations, %lld actions: "
                   "%s\n",
                   sched->name, sl_sched_rule_name(sched->rule), plan->stage_count,
                   plan->worker_count, plan->depth, sched->iters,
                   (long long)sl_sched_action_count(sched),
                   sl_sched_order_of(sched).gradients
                       ? "verified"
                       : "executable; gradients are summed in another order than on one worker");
    bool sketch = sl_plan_is_sketch(plan);
    sl_text_printf(out, "stage             worker  micro-batches  live  versions  delay%s\n",
                   sketch ? "" : "  memory of worker");
    for (int i = 0; i < plan->seat_count; i++) {
        const struct sl_seat *seat = &plan->seats[i];
        int64_t live, delay;
        measure(sched, i, &live, &delay);
        sl_text_printf(
            out, "%-16s  %6d  %13d  %4lld  %8d  %5lld%s%s\n", plan->stages[seat->stage].name,
            seat->worker, sched->micros[seat->stage], (long long)live,
            sched->pools[i][SL_POOL_WEIGHT].count, (long long)delay, sketch ? "" : "  ",
            sketch ? "" : sl_human_bytes(sl_sched_worker_bytes(sched, seat->worker), bytes));
    }
    if (message_buffers(sched) > 1)
        sl_text_printf(out, "message buffers: up to %d at an end of an edge, per direction\n",
                       message_buffers(sched));
    if (sched->buffers)
        sl_text_printf(out,
                       "the sends of the file complete only if each channel between two workers "
                       "buffers %d message%s; lowering has posted the receives earlier\n",
                       sched->buffers, sched->buffers == 1 ? "" : "s");
}
