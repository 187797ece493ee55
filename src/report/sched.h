/* Reports of a verified schedule and of its simulation. */
#ifndef SL_REPORT_SCHED_H
#define SL_REPORT_SCHED_H

#include "report/picture.h"
#include "sim/sim.h"

/* Append the needs of every stage: live micro-batches, weight versions, delay, memory. The JSON
 * also has times and peaks if `sim` is not NULL. */
void sl_report_sched(const struct sl_sched *sched, struct sl_text *out);
void sl_report_sched_json(const struct sl_sched *sched, const struct sl_sim *sim,
                          struct sl_text *out);

/* A schedule, its simulation and, if has_picture, its timeline. */
struct sl_report_sim {
    const struct sl_sched *sched; /* a verified schedule */
    const struct sl_sim *sim;
    struct sl_picture picture;
    bool has_picture;
};

/* Append times, bubbles, memory and the critical path. `grid` NULL: without a timeline. */
void sl_report_sim(const struct sl_report_sim *s, const struct sl_grid_opts *grid,
                   struct sl_text *out);
void sl_report_sim_json(const struct sl_report_sim *s, struct sl_text *out);

#endif
