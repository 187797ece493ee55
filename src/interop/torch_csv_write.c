/* Writing: one iteration of a synchronous chain, as torch's own parser reads it. */
#include "base/vec.h"
#include "interop/torch_csv.h"

struct writer {
    const struct sl_sched *sched;
    struct sl_text *out;
    bool first; /* cell of its row */
    SL_VEC(struct sl_action) sent;
};

static sl_err check(const struct sl_sched *sched, bool comms) {
    const struct sl_plan *plan = sched->plan;
    if (comms && !sched->lowered)
        return sl_fail(SL_ERR_NO, "messages are known after lowering only");
    if (sched->rule != SL_RULE_SYNC)
        return sl_fail(SL_ERR_NO, "torch's CSV has one weight version: rule %s cannot be written",
                       sl_rule_name(sched->rule));
    if (plan->edge_count != plan->stage_count - 1)
        return sl_fail(SL_ERR_NO, "torch's CSV has chains of stages only: %d stages, %d edges",
                       plan->stage_count, plan->edge_count);
    for (int i = 0; i < plan->edge_count; i++)
        if (plan->edges[i].from != i || plan->edges[i].to != i + 1)
            return sl_fail(SL_ERR_NO, "torch's CSV has chains only: edge %s to %s leaves the row",
                           plan->stages[plan->edges[i].from].name,
                           plan->stages[plan->edges[i].to].name);
    for (int i = 0; i < plan->stage_count; i++) {
        if (plan->stages[i].width != 1)
            return sl_fail(SL_ERR_NO, "torch's CSV has no replicas: stage %s has %d",
                           plan->stages[i].name, plan->stages[i].width);
        if (sched->micros[i] != sched->micros[0])
            return sl_fail(SL_ERR_NO, "torch's CSV has one micro-batch size for all stages");
    }
    for (int w = 0; w < plan->worker_count; w++)
        if (sched->lists[SL_PROLOGUE][w].count)
            return sl_fail(SL_ERR_NO, "torch's CSV is one iteration; this has a prologue");
    return SL_OK;
}

static void put(struct writer *w, int stage, const char *kind, int32_t micro) {
    sl_text_printf(w->out, "%s%d%s%d", w->first ? "" : ",", stage, kind, micro);
    w->first = false;
}

/* A slot that is filled again has been sent: say so before. */
static void put_waits(struct writer *w, const struct sl_action *next) {
    int64_t kept = 0;
    for (int64_t i = 0; i < w->sent.count; i++) {
        const struct sl_action *s = &w->sent.at[i];
        bool over = !next || (next->stage == s->stage && next->edge == s->edge &&
                              next->flags == s->flags && next->slot == s->slot);
        if (over)
            put(w, s->stage, s->flags & SL_GRAD ? "WAIT_SEND_B" : "WAIT_SEND_F", s->micro);
        else
            w->sent.at[kept++] = *s;
    }
    w->sent.count = kept;
}

static void put_message(struct writer *w, const struct sl_action *a) {
    bool grad = a->flags & SL_GRAD;
    if (a->kind == SL_RECV) {
        put(w, a->stage, grad ? "RECV_B" : "RECV_F", a->micro);
        return;
    }
    put_waits(w, a);
    put(w, a->stage, grad ? "SEND_B" : "SEND_F", a->micro);
    SL_PUSH(&w->sent, *a);
}

sl_err sl_torch_csv_write(const struct sl_sched *sched, bool comms, struct sl_text *out) {
    struct writer w = {.sched = sched, .out = out};
    SL_TRY(check(sched, comms));
    int segment = sched->reps ? SL_PERIOD : SL_EPILOGUE;
    for (int r = 0; r < sched->plan->worker_count; r++) {
        const struct sl_actions *list = &sched->lists[segment][r];
        w.first = true;
        for (int64_t i = 0; i < list->count; i++) {
            const struct sl_action *a = &list->at[i];
            if (a->kind <= SL_W)
                put(&w, a->stage, sl_kind_name(a->kind), a->micro);
            else if (comms && (a->kind == SL_SEND || a->kind == SL_RECV))
                put_message(&w, a);
        }
        if (comms)
            put_waits(&w, NULL);
        sl_text_put(out, "\n");
    }
    SL_VEC_FREE(&w.sent);
    return SL_OK;
}
