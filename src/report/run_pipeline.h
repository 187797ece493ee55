/* The pipeline part of a run's page: stages over the model, memory, time, critical path, predicted
 * and measured timelines. */
#ifndef SL_REPORT_RUN_PIPELINE_H
#define SL_REPORT_RUN_PIPELINE_H

#include "graph/graph.h"
#include "report/picture.h"

/* The time of all instructions of a kernel in forward and backward of a micro-batch on one
 * worker. */
struct sl_report_op_time {
    const char *kernel;
    int calls;
    int64_t dur_ns;
    double flops;
};

struct sl_report_pipeline {
    const struct sl_graph *graph;      /* graph of the run's model; NULL: unknown */
    const struct sl_sched *sched;      /* schedule of the run, with its plan */
    const struct sl_picture *measured; /* NULL: not traced */
    const struct sl_picture *replayed; /* the schedule with the mean times of the run; NULL: none */
    const struct sl_picture *foretold; /* the schedule with the times of the forecast; NULL: none */
    const char *cost;                  /* cost file of the forecast */
    /* forecast of the measured steps, with the wait for one norm before a synchronous update, which
     * the picture does not draw */
    int64_t foretold_ns;
};

void sl_report_run_pipeline_put(const struct sl_report_pipeline *p, struct sl_text *out);
void sl_report_run_ops_put(const struct sl_report_op_time *ops, int count, struct sl_text *out);

/* Computes the mean duration of each kind of action of each stage in a picture: dur[stage][kind].
 * Kinds that do not occur keep their value. */
void sl_report_picture_durations(const struct sl_picture *picture, int64_t (*dur)[SL_KIND_COUNT]);

/* stage_graph.c. Draws stages as boxes from left to right, with the blocks of the model that they
 * hold. */
void sl_report_stage_graph_put(const struct sl_plan *plan, const struct sl_graph *graph,
                               struct sl_text *out);

#endif
