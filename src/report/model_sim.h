/* Report of a model simulated with given degrees of parallelism. */
#ifndef SL_REPORT_MODEL_SIM_H
#define SL_REPORT_MODEL_SIM_H

#include "report/sched.h"
#include "search/candidate.h"

struct sl_report_model_sim {
    const struct sl_candidate_detail *detail; /* candidate with all replicas */
    struct sl_candidate_score score;
    struct sl_report_sim sim; /* simulation of one of the equal pipelines */
    int pp, chunks;           /* workers of a pipeline; stages per worker */
};

/* Append times, memory and collectives. `grid` NULL: without a timeline. */
void sl_report_model_sim(const struct sl_report_model_sim *s, const struct sl_grid_opts *grid,
                         struct sl_text *out);
void sl_report_model_sim_json(const struct sl_report_model_sim *s, struct sl_text *out);

#endif
