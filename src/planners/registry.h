/* The table of planners. To add one: a file with a row (search/planner.h) and a line in registry.c. */
#ifndef SL_PLANNERS_REGISTRY_H
#define SL_PLANNERS_REGISTRY_H

#include "search/planner.h"

extern const struct sl_planner *const sl_planners_rows[]; /* alphabetical; ends with NULL */
/* Equal pipelines: the fastest row that also suits large machines. */
extern const struct sl_planner sl_planners_balanced;
/* SL_ERR_USAGE with the nearest name. */
SL_MUST_CHECK sl_err sl_planners_find(const char *name, const struct sl_planner **out);

#endif
