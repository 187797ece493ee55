/* The table of planners. docs/adding/planner.md shows how to add one. */
#ifndef SL_PLANNERS_REGISTRY_H
#define SL_PLANNERS_REGISTRY_H

#include "search/planner.h"

/* All planners in alphabetical order; ends with NULL. */
extern const struct sl_planner *const sl_planners_rows[];
/* The planner of equal pipelines: the fastest one that also suits large machines. */
extern const struct sl_planner sl_planners_balanced;
/* Finds a planner. SL_ERR_USAGE with the nearest name if there is none. */
SL_MUST_CHECK sl_err sl_planners_find(const char *name, const struct sl_planner **out);

#endif
