/* A plan of an imported graph, for people and for programs. */
#ifndef SL_CLI_PLAN_REPORT_H
#define SL_CLI_PLAN_REPORT_H

#include "peers/peers.h"

struct sl_cli_plan_report {
    const char *file, *planner;
    const struct sl_peer_model *model;
    const struct sl_layers *layers;
    const struct sl_peers_plan *plan;
    double search_ms;
};

void sl_cli_plan_report(const struct sl_cli_plan_report *report, struct sl_text *out);
void sl_cli_plan_report_json(const struct sl_cli_plan_report *report, struct sl_text *out);

#endif
