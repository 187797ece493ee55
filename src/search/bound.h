/* Lower bounds on the step over all cuts, widths, recomputation and placements.
 *
 * Work: all passes of all micro-batches, spread over all devices.
 * Way: one micro-batch passes through the graph and back. Chain: on the heaviest path of the
 * graph the stages form a chain. A stage of width w that begins at unit y takes at least
 *
 *     forward of everything before y + ceil(micros / w) passes + max(
 *         backward of everything before y,
 *         reduction over w replicas + step)
 *
 * For a limit T, a greedy walk from the end of the path to its beginning makes every stage as
 * long as time and memory allow. This gives the minimal number of devices; bisection finds the
 * smallest T for which the devices suffice. A recomputing stage recomputes before every backward
 * pass, but the first recomputation may overlap with waiting. It keeps its inputs of every
 * micro-batch in flight. The bound ignores units off the path, messages and other bytes; these
 * only make plans slower. */
#ifndef SL_SEARCH_BOUND_H
#define SL_SEARCH_BOUND_H

#include "search/problem.h"

/* Returns the larger of the bounds Work and Way for one micro-batch size. */
int64_t sl_search_size_bound(const struct sl_problem *problem, int size, bool async);

/* Returns a lower bound over these schedules (the list ends with NULL), exact to one part in
 * 10,000. `mixed`: it also covers plans whose stages differ in micro-batch size or run groups. */
int64_t sl_search_space_bound(const struct sl_problem *problem, const char *const *schedules,
                              bool mixed);

/* Returns the times of a unit on its fastest kind of device. */
struct sl_unit_time sl_search_least_time(const struct sl_problem *p, int size, int unit);

#endif
