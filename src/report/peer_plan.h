/* Report of a plan of an imported graph under the cost model of its format. */
#ifndef SL_REPORT_PEER_PLAN_H
#define SL_REPORT_PEER_PLAN_H

#include "peers/peers.h"

struct sl_report_peer_plan {
    const char *file, *planner;
    const struct sl_peers_cost_model *model;
    const struct sl_layers *layers;
    const struct sl_peers_plan *plan;
    double search_ms;
};

/* Append the report as a table, or as JSON that a script can evaluate. */
void sl_report_peer_plan(const struct sl_report_peer_plan *report, struct sl_text *out);
void sl_report_peer_plan_json(const struct sl_report_peer_plan *report, struct sl_text *out);

#endif
