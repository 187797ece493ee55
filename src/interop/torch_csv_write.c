/* Writes one iteration of a synchronous chain in the form that torch's own parser reads.
 *
 * Our receives are posted early and do not block; torch's may block later ones (one NCCL stream per
 * pair of ranks). So each receive is written just before the first pass that reads its message
 * or a later message of its channel: in the order of the sends, and without extra waits. A
 * sender waits for its activation after the backward pass of the same micro-batch, which proves
 * arrival, and for gradients at the end. */
#include "base/log.h"
#include "base/vec.h"
#include "interop/torch_csv.h"

typedef SL_VEC(struct sl_action) action_vec;

struct writer {
    struct sl_text *out;
    bool first;          /* the next cell is the first of its row */
    action_vec received; /* receives that have not been written yet */
    action_vec sent;     /* sends that have not been waited for yet */
};

static sl_err check(const struct sl_sched *sched, bool comms) {
    const struct sl_plan *plan = sched->plan;
    if (comms && !sched->lowered)
        return sl_fail(SL_ERR_REFUSED, "messages are known after lowering only");
    if (sched->rule != SL_RULE_SYNC)
        return sl_fail(SL_ERR_REFUSED,
                       "torch's CSV has one weight version: rule %s cannot be written",
                       sl_sched_rule_name(sched->rule));
    if (plan->edge_count != plan->stage_count - 1)
        return sl_fail(SL_ERR_REFUSED, "torch's CSV has chains of stages only: %d stages, %d edges",
                       plan->stage_count, plan->edge_count);
    for (int i = 0; i < plan->edge_count; i++)
        if (plan->edges[i].from != i || plan->edges[i].to != i + 1)
            return sl_fail(
                SL_ERR_REFUSED, "torch's CSV has chains only: edge %s to %s leaves the row",
                plan->stages[plan->edges[i].from].name, plan->stages[plan->edges[i].to].name);
    for (int i = 0; i < plan->stage_count; i++) {
        if (plan->stages[i].width != 1)
            return sl_fail(SL_ERR_REFUSED, "torch's CSV has no replicas: stage %s has %d",
                           plan->stages[i].name, plan->stages[i].width);
        if (sched->micros[i] != sched->micros[0])
            return sl_fail(SL_ERR_REFUSED, "torch's CSV has one micro-batch size for all stages");
    }
    for (int w = 0; w < plan->worker_count; w++)
        if (sched->lists[SL_PROLOGUE][w].count)
            return sl_fail(SL_ERR_REFUSED, "torch's CSV is one iteration; this has a prologue");
    return SL_OK;
}

static void put(struct writer *w, int stage, const char *kind, int32_t micro) {
    sl_text_printf(w->out, "%s%d%s%d", w->first ? "" : ",", stage, kind, micro);
    w->first = false;
}

static bool reads(const struct sl_action *pass, const struct sl_action *recv) {
    bool grad = recv->flags & SL_GRAD;
    return recv->stage == pass->stage && recv->micro == pass->micro &&
           (grad ? pass->kind == SL_BACKWARD || pass->kind == SL_BACKWARD_INPUT
                 : pass->kind == SL_FORWARD);
}

static void put_receives(struct writer *w, const struct sl_action *pass) {
    for (int64_t i = 0; i < w->received.count; i++) {
        if (!reads(pass, &w->received.at[i]))
            continue;
        uint16_t peer = w->received.at[i].peer;
        int64_t kept = 0;
        for (int64_t j = 0; j < w->received.count; j++) {
            const struct sl_action *r = &w->received.at[j];
            if (j <= i && r->peer == peer)
                put(w, r->stage, r->flags & SL_GRAD ? "RECV_B" : "RECV_F", r->micro);
            else
                w->received.at[kept++] = *r;
        }
        w->received.count = kept;
        return; /* a stage of a chain has one input in each direction */
    }
}

/* Writes waits; `pass` NULL: all that are left. */
static void put_waits(struct writer *w, const struct sl_action *pass) {
    int64_t kept = 0;
    for (int64_t i = 0; i < w->sent.count; i++) {
        const struct sl_action *s = &w->sent.at[i];
        bool grad = s->flags & SL_GRAD;
        bool over = !pass || (!grad && pass->stage == s->stage && pass->micro == s->micro &&
                              (pass->kind == SL_BACKWARD || pass->kind == SL_BACKWARD_INPUT));
        if (over)
            put(w, s->stage, grad ? "WAIT_SEND_B" : "WAIT_SEND_F", s->micro);
        else
            w->sent.at[kept++] = *s;
    }
    w->sent.count = kept;
}

static void put_lowered(struct writer *w, const struct sl_action *a) {
    if (a->kind == SL_RECV) {
        SL_PUSH(&w->received, *a);
    } else if (a->kind == SL_SEND) {
        put(w, a->stage, a->flags & SL_GRAD ? "SEND_B" : "SEND_F", a->micro);
        SL_PUSH(&w->sent, *a);
    } else if (a->kind <= SL_BACKWARD_WEIGHT) {
        put_receives(w, a);
        put(w, a->stage, sl_sched_kind_name(a->kind), a->micro);
        put_waits(w, a);
    }
}

static int segment_of(const struct sl_sched *sched) {
    return sched->reps ? SL_PERIOD : SL_EPILOGUE;
}

bool sl_interop_torch_csv_pairs_losses(const struct sl_sched *sched, int32_t *micro,
                                       int32_t *after) {
    int last = sched->plan->stage_count - 1;
    const struct sl_actions *list =
        &sched->lists[segment_of(sched)][sched->plan->stages[last].workers[0]];
    int32_t before = -1;
    for (int64_t i = 0; i < list->count; i++) {
        const struct sl_action *a = &list->at[i];
        if (a->kind != SL_FORWARD || a->stage != last)
            continue;
        if (a->micro < before) {
            *micro = a->micro;
            *after = before;
            return false;
        }
        before = a->micro;
    }
    return true;
}

void sl_interop_torch_csv_warn(const struct sl_sched *sched) {
    int32_t micro, after;
    if (!sl_interop_torch_csv_pairs_losses(sched, &micro, &after))
        sl_log_warn("the last stage runs micro-batch %d after %d: torch's runtime takes its losses "
                    "in ascending order and would compute other gradients from this file",
                    micro, after);
}

sl_err sl_interop_torch_csv_write(const struct sl_sched *sched, bool comms, struct sl_text *out) {
    struct writer w = {.out = out};
    SL_TRY(check(sched, comms));
    int segment = segment_of(sched);
    for (int r = 0; r < sched->plan->worker_count; r++) {
        const struct sl_actions *list = &sched->lists[segment][r];
        w.first = true;
        for (int64_t i = 0; i < list->count; i++) {
            const struct sl_action *a = &list->at[i];
            if (comms)
                put_lowered(&w, a);
            else if (a->kind <= SL_BACKWARD_WEIGHT)
                put(&w, a->stage, sl_sched_kind_name(a->kind), a->micro);
        }
        put_waits(&w, NULL);
        sl_text_put(out, "\n");
    }
    SL_VEC_FREE(&w.received);
    SL_VEC_FREE(&w.sent);
    return SL_OK;
}
