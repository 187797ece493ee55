/* Writes .sched texts; text.c shows the format. */
#include "plan/text.h"
#include "sched/deps.h"

static void put_pass(struct sl_text *out, const struct sl_action *a) {
    sl_text_printf(out, " v %d w %d", a->version, a->weight_slot);
    if (a->ahead)
        sl_text_printf(out, " p %d", a->ahead);
    if (a->grad_slot)
        sl_text_printf(out, " g %d", a->grad_slot);
    sl_text_printf(out, " s %d", a->slot);
    if (a->slot2 || a->kind == SL_BACKWARD_INPUT || a->kind == SL_BACKWARD_WEIGHT)
        sl_text_printf(out, " k %d", a->slot2);
}

static void put_action(struct sl_text *out, const struct sl_sched *sched,
                       const struct sl_action *a) {
    const char *stage = sched->plan->stages[a->stage].name;
    sl_text_put(out, sl_sched_kind_name(a->kind));
    if (a->kind == SL_SEND || a->kind == SL_RECV) {
        sl_text_printf(out, " %s %s %d peer %d edge %d other %d s %d",
                       a->flags & SL_GRAD ? "grad" : "act", stage, a->micro, a->peer, a->edge,
                       a->other, a->slot);
        if (a->slot2)
            sl_text_printf(out, " k %d", a->slot2);
    } else {
        sl_text_printf(out, " %s", stage);
        if (a->kind <= SL_RECV)
            sl_text_printf(out, " %d", a->micro);
        if (sched->lowered)
            put_pass(out, a);
    }
    sl_text_put(out, "\n");
}

static void put_pools(struct sl_text *out, const struct sl_sched *sched, int seat) {
    const struct sl_seat *at = &sched->plan->seats[seat];
    const struct sl_stage *stage = &sched->plan->stages[at->stage];
    sl_text_printf(out, "pools %s %d", stage->name, at->replica);
    for (int i = 0; i < sl_sched_pool_count(stage); i++) {
        const struct sl_slot_pool *pool = &sched->pools[seat][i];
        sl_text_printf(out, "  %d %d %lld", pool->count, pool->turn, (long long)pool->bytes);
    }
    sl_text_put(out, "\n");
}

void sl_sched_write(const struct sl_sched *sched, struct sl_text *out) {
    static const char *const segments[] = {"prologue", "period", "epilogue"};
    const struct sl_plan *plan = sched->plan;
    sl_text_put(out, "sluice-sched 1\n");
    sl_plan_write_lines(plan, out);
    sl_text_printf(out, "program \"%s\" rule %s ", sched->name, sl_sched_rule_name(sched->rule));
    if (sched->policy.row) {
        sl_text_put(out, "policy \"");
        sl_optim_policy_put(out, &sched->policy);
        sl_text_put(out, "\" ");
    }
    if (sched->slack)
        sl_text_printf(out, "slack %d ", sched->slack);
    sl_text_put(out, sched->global_step ? "together " : "");
    sl_text_printf(out, "%s\n", sched->lowered ? "lowered" : "passes");
    sl_text_printf(out, "samples %lld last %lld iters %d reps %d\n", (long long)sched->batch,
                   (long long)sched->last_batch, sched->iters, sched->reps);
    for (int i = 0; i < plan->stage_count; i++) {
        sl_text_printf(out, "time %s", plan->stages[i].name);
        for (int k = 0; k < SL_KIND_COUNT; k++)
            sl_text_printf(out, " %s %lld", sl_sched_kind_name((enum sl_kind)k),
                           (long long)sched->dur_ns[i][k]);
        sl_text_put(out, "\n");
    }
    for (int i = 0; sched->lowered && i < plan->seat_count; i++)
        put_pools(out, sched, i);
    for (int w = 0; w < plan->worker_count; w++) {
        sl_text_printf(out, "worker %d\n", w);
        for (int s = 0; s < SL_SEGMENT_COUNT; s++) {
            const struct sl_actions *list = &sched->lists[s][w];
            if (list->count)
                sl_text_printf(out, "%s\n", segments[s]);
            for (int64_t i = 0; i < list->count; i++)
                put_action(out, sched, &list->at[i]);
        }
    }
}
