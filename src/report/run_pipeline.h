/* What a run's page says about its pipeline: stages over the model, memory, time, why it takes so
 * long, predicted and measured timelines. */
#ifndef SL_REPORT_RUN_PIPELINE_H
#define SL_REPORT_RUN_PIPELINE_H

#include "graph/graph.h"
#include "report/picture.h"

/* All instructions of one kernel, of forward and backward of a micro-batch on one worker. */
struct sl_op_time {
    const char *kernel;
    int calls;
    int64_t dur_ns;
    double flops;
};

struct sl_run_pipeline {
    const struct sl_graph *graph;      /* of the run's model; NULL: not known */
    const struct sl_sched *sched;      /* as it ran, with its plan */
    const struct sl_picture *measured; /* NULL: it was not traced */
    const struct sl_picture *replayed; /* the schedule with the mean times of the run; NULL: none */
    const struct sl_picture *foretold; /* with times that were told before the run; NULL: none */
    const char *cost;                  /* the table that those came from */
    int64_t foretold_ns;               /* of the measured steps: with the wait for one norm before a
                                          synchronous update, which the picture does not draw */
};

void sl_report_run_pipeline_put(const struct sl_run_pipeline *p, struct sl_text *out);
void sl_report_run_ops_put(const struct sl_op_time *ops, int count, struct sl_text *out);

/* Mean duration of each kind of action of each stage in a picture: dur[stage][kind]; kinds that it
 * has not keep their value. */
void sl_report_picture_durations(const struct sl_picture *picture, int64_t (*dur)[SL_KIND_COUNT]);

/* stage_graph.c: the stages as boxes from left to right, on the blocks of the model they hold. */
void sl_report_stage_graph_put(const struct sl_plan *plan, const struct sl_graph *graph,
                               struct sl_text *out);

#endif
