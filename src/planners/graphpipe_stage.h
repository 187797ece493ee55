/* One stage of GraphPipe's partitioner: its time and memory under the rules of a search. Private to
 * graphpipe*.c. */
#ifndef SL_PLANNERS_GRAPHPIPE_STAGE_H
#define SL_PLANNERS_GRAPHPIPE_STAGE_H

#include "planners/graphpipe_parts.h"

struct sl_planners_graphpipe_stages {
    const struct sl_problem *p;
    const struct sl_planners_graphpipe_rules *rules;
    struct sl_search_memory_rule rule;
    int64_t limit; /* limit of an iteration, in ns */
    /* [config] samples of a micro-batch; micro-batches of an iteration */
    int64_t *samples, *micros;
    int grain;                  /* number of real devices that a device of the program stands for */
    double memory;              /* bytes of a device */
    const struct sl_link *wire; /* link between distant devices */
    const struct sl_link **ring; /* [log2 of the width / grain] link between replicas */
    bool *inside;                /* [unit] scratch memory for sums */
    int *set;                    /* [unit] scratch memory for sums */
};

/* Returns the time of an iteration on `width` devices, in ns. */
int64_t sl_planners_graphpipe_stage_ns(const struct sl_planners_graphpipe_stages *s,
                                       const struct sl_cut_stage *sum, int config, int width);
/* Returns the samples in flight on `width` replicas if one replica needs `need`. */
int64_t sl_planners_graphpipe_stage_in_flight(const struct sl_planners_graphpipe_stages *s,
                                              int config, int width, int64_t need);
/* Does the stage meet the limit and fit in memory? */
bool sl_planners_graphpipe_stage_fits(const struct sl_planners_graphpipe_stages *s,
                                      const struct sl_cut_stage *sum, int config, int width,
                                      int64_t need);
/* Returns the least width, in devices of the program, with which the passes alone meet the
 * limit. */
int64_t sl_planners_graphpipe_stage_width(const struct sl_planners_graphpipe_stages *s,
                                          const struct sl_cut_stage *sum, int config);
/* Returns the sums of a stage; a table of its part caches them. */
const struct sl_cut_stage *
sl_planners_graphpipe_stage_sums(struct sl_planners_graphpipe_stages *s,
                                 const struct sl_planners_graphpipe_piece *piece, int config);
/* Fills s->set with the units of a stage; returns their number. */
int sl_planners_graphpipe_stage_units(struct sl_planners_graphpipe_stages *s,
                                      const struct sl_planners_graphpipe_piece *piece);

/* Returns the time in ns of all passes of the units for one batch, each unit with its best
 * configuration and device. */
double sl_planners_graphpipe_stage_work(const struct sl_planners_graphpipe_stages *s,
                                        const int *units, int count);

#endif
