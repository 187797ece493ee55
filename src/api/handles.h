/* The structs behind the handles of the public interface. */
#ifndef SL_API_HANDLES_H
#define SL_API_HANDLES_H

#include "graph/model.h"
#include "report/picture.h"
#include "sim/sim.h"

struct sl_net {
    struct sl_graph *graph;
    const char *scope;
    struct sl_text text; /* the last result of sl_net_print */
    char shape[SL_SHAPE_TEXT];
};

struct sl_pipeline {
    struct sl_arena arena;
    const struct sl_plan *plan;
    struct sl_sched *read;                  /* the schedule of a file; NULL: none */
    const struct sl_sched *sched;           /* verified; NULL: not yet */
    const int64_t (*dur_ns)[SL_KIND_COUNT]; /* [stage]; NULL: the schedule's */
    const struct sl_sim *sim;
    struct sl_text text; /* the last result of sl_pipeline_text */
};

#endif
