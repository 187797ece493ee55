/* The report of a deadlock: a cycle of workers that wait for each other, with their actions. */
#include "sched/blocked.h"

#include <stdio.h>
#include <stdlib.h>

const char *sl_sched_action_text(const struct sl_sched *sched, const struct sl_action *a,
                                 char out[SL_ACTION_TEXT]) {
    const struct sl_plan *plan = sched->plan;
    const char *stage = a->stage < plan->stage_count ? plan->stages[a->stage].name : "?";
    const char *kind = sl_sched_kind_name(a->kind);
    switch ((enum sl_kind)a->kind) {
    case SL_SEND:
    case SL_RECV:
        snprintf(out, SL_ACTION_TEXT, "%s %s %.24s %d %s worker %d (edge %d)", kind,
                 a->flags & SL_GRAD ? "grad" : "act", stage, a->micro,
                 a->kind == SL_SEND ? "to" : "from", a->peer, a->edge);
        break;
    case SL_REDUCE:
    case SL_STEP:
    case SL_PREDICT:
        snprintf(out, SL_ACTION_TEXT, "%s %.24s version %d", kind, stage, a->version);
        break;
    default: snprintf(out, SL_ACTION_TEXT, "%s %.24s %d", kind, stage, a->micro); break;
    }
    return out;
}

static void put_wait(const struct sl_sched *sched, const struct sl_blocked *waits, int w,
                     struct sl_text *text) {
    char action[SL_ACTION_TEXT];
    sl_text_printf(text, "worker %d at %s waits %s worker %d", w,
                   sl_sched_action_text(sched, &waits[w].at, action), waits[w].why, waits[w].on);
}

sl_err sl_sched_report_blocked(const struct sl_sched *sched, const struct sl_blocked *waits) {
    enum { SHOWN = 6 };
    int count = sched->plan->worker_count, best = -1, best_length = 0;
    bool cycle = false;
    /* Follows the waits from every worker. Keeps the shortest cycle, else the shortest chain to a
     * finished worker. */
    int *seen = sl_realloc(NULL, sizeof *seen * (size_t)count);
    for (int i = 0; i < count; i++)
        seen[i] = -1;
    for (int i = 0; i < count; i++) {
        int w = i, length = 0;
        while (waits[w].on >= 0 && seen[w] < 0) {
            seen[w] = i;
            w = waits[w].on;
            length++;
        }
        bool ring = waits[w].on >= 0 && seen[w] == i;
        if (ring) {
            length = 0;
            for (int v = waits[w].on; v != w; v = waits[v].on)
                length++;
            length++;
        } else {
            w = i;
        }
        bool stuck = waits[i].on >= 0 && (ring || waits[w].on >= 0);
        if (stuck && length &&
            (best < 0 || (ring && !cycle) || (ring == cycle && length < best_length))) {
            best = w;
            best_length = length;
            cycle |= ring;
        }
    }
    free(seen);
    struct sl_text text = {0};
    for (int i = 0, w = best; w >= 0 && waits[w].on >= 0 && i < best_length; i++, w = waits[w].on) {
        if (i == SHOWN) {
            sl_text_printf(&text, "; and %d more", best_length - i);
            break;
        }
        sl_text_put(&text, i ? "; " : "");
        put_wait(sched, waits, w, &text);
        if (!cycle && waits[waits[w].on].on < 0)
            sl_text_put(&text, ", which has nothing more to do here");
    }
    sl_err err = sl_fail(SL_ERR_REFUSED, "deadlock: %s%s", cycle ? "cycle of waits: " : "",
                         text.at ? text.at : "no worker can go on");
    sl_text_free(&text);
    return err;
}
