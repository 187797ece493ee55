/* Exporters: write a plan for other systems. One row per target. */
#ifndef SL_INTEROP_EXPORTER_H
#define SL_INTEROP_EXPORTER_H

#include "graph/graph.h"
#include "sched/sched.h"

struct sl_schedule;

struct sl_export {
    const struct sl_plan *plan;
    const struct sl_graph *graph;       /* differentiated; NULL if the row does not need it */
    const int *stage_of;                /* [forward nodes] with the graph */
    const struct sl_schedule *schedule; /* schedule of the plan; NULL: the plan names none */
    const struct sl_sched *sched;       /* verified; NULL if the row does not need it */
    bool comms;                         /* write the schedule with its messages */
};

struct sl_exporter {
    const char *name; /* "megatron" */
    const char *brief;
    bool needs_graph, needs_sched;
    /* Can the target run this schedule? NULL: it runs any. Otherwise it runs another one, and the
     * exporting command states what that costs. */
    bool (*requests)(const struct sl_schedule *schedule);
    /* Writes the plan. SL_ERR_REFUSED: the target lacks a feature that the plan uses; the message
     * names it. */
    sl_err (*write)(const struct sl_export *what, struct sl_text *out);
};

/* In alphabetical order; ends with NULL. */
extern const struct sl_exporter *const sl_interop_exporters[];
/* Finds an exporter; SL_ERR_USAGE with the nearest name. */
SL_MUST_CHECK sl_err sl_interop_exporter_find(const char *name, const struct sl_exporter **out);

/* Checks a plan for frameworks that can only run a chain of equal stages: stages in order, equal
 * widths and micro-batch sizes, one weight version, p ranks. `layout` places stage s >= p:
 * SL_LAYOUT_LOOP on rank s mod p, SL_LAYOUT_V on rank 2p-1-s. On SL_ERR_REFUSED the message
 * names the target system and the feature it lacks. */
SL_MUST_CHECK sl_err sl_interop_export_check_row(const struct sl_export *x, const char *target,
                                                 enum sl_layout layout);
/* Returns the plan's schedule if torch can build it by name with these micro-batches; NULL: it must
 * be given as CSV. */
const struct sl_schedule *sl_interop_export_torch_row(const struct sl_export *x);
/* Returns the number of ranks of one pipeline: different workers of the first replicas of its
 * stages. */
int sl_interop_export_ranks(const struct sl_plan *plan);

#endif
