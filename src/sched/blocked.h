/* Actions that wait for each other: their texts, and the report of a deadlock. */
#ifndef SL_SCHED_BLOCKED_H
#define SL_SCHED_BLOCKED_H

#include "sched/sched.h"

/* Writes an action as text: "F s1 3". */
enum { SL_ACTION_TEXT = 96 };
const char *sl_sched_action_text(const struct sl_sched *sched, const struct sl_action *action,
                                 char out[SL_ACTION_TEXT]);

/* One worker of a deadlock. `on` is the worker that it waits for, or -1 if it waits for one that
 * has finished. The report returns SL_ERR_REFUSED with the shortest cycle or the chain to a
 * finished worker. */
struct sl_blocked {
    int on;
    struct sl_action at; /* the action that it cannot run */
    const char *why;     /* "to send", "for data", ... */
};
sl_err sl_sched_report_blocked(const struct sl_sched *sched, const struct sl_blocked *waits);

#endif
