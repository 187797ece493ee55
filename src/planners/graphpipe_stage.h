/* One stage of GraphPipe's partitioner: its time and memory under the rules of a search. Private to
 * graphpipe*.c. */
#ifndef SL_PLANNERS_GRAPHPIPE_STAGE_H
#define SL_PLANNERS_GRAPHPIPE_STAGE_H

#include "planners/graphpipe_parts.h"

struct sl_planners_graphpipe_stages {
    const struct sl_problem *p;
    const struct sl_planners_graphpipe_rules *rules;
    struct sl_search_memory_rule rule;
    int64_t limit;               /* ns of an iteration */
    int64_t *samples, *micros;   /* [config] of a micro-batch; micro-batches of an iteration */
    int grain;                   /* a device of the program stands for so many devices */
    double memory;               /* bytes of a device */
    const struct sl_link *wire;  /* between far devices, */
    const struct sl_link **ring; /* [log2 of the width / grain] and between replicas */
    bool *inside;                /* [unit] scratch of sums */
    int *set;                    /* [unit] scratch of sums */
};

/* ns of an iteration on `width` devices. */
int64_t sl_planners_graphpipe_stage_ns(const struct sl_planners_graphpipe_stages *s,
                                       const struct sl_cut_stage *sum, int config, int width);
/* Samples in flight on `width` replicas, if one needs so many. */
int64_t sl_planners_graphpipe_stage_in_flight(const struct sl_planners_graphpipe_stages *s,
                                              int config, int width, int64_t need);
/* Does it meet the limit and the memory? */
bool sl_planners_graphpipe_stage_fits(const struct sl_planners_graphpipe_stages *s,
                                      const struct sl_cut_stage *sum, int config, int width,
                                      int64_t need);
/* The least width, of the program's devices, with which passes alone meet the limit. */
int64_t sl_planners_graphpipe_stage_width(const struct sl_planners_graphpipe_stages *s,
                                          const struct sl_cut_stage *sum, int config);
/* Its sums; a table of the part remembers them. */
const struct sl_cut_stage *
sl_planners_graphpipe_stage_sums(struct sl_planners_graphpipe_stages *s,
                                 const struct sl_planners_graphpipe_piece *piece, int config);
/* The units of a stage into s->set; returns how many. */
int sl_planners_graphpipe_stage_units(struct sl_planners_graphpipe_stages *s,
                                      const struct sl_planners_graphpipe_piece *piece);

/* ns of all passes of units for one batch, each with its best configuration and device. */
double sl_planners_graphpipe_stage_work(const struct sl_planners_graphpipe_stages *s,
                                        const int *units, int count);

#endif
