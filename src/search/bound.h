/* What no plan can beat: lower bounds on the step over all cuts, widths, recomputation and places.
 *
 * Work: all passes of all micro-batches, spread over all devices. Way: one micro-batch through the
 * graph and back. Chain: on the heaviest path through the graph a plan is a row of stages, and a
 * stage of width w that begins at unit y costs at least
 *
 *     forward of everything before y + ceil(micros / w) passes + the longer of
 *     backward of everything before y, or reduction over w replicas and step
 *
 * With a limit T the least number of devices that cover the path is found by going from its end to
 * its beginning, each stage as long as time and memory allow; bisection finds the smallest T for
 * which the devices suffice. A stage that recomputes does so for all but its first backward pass
 * after that one has begun, and keeps what it has read of every micro-batch in flight. What is left
 * out (units beside the path, messages, other bytes) only makes plans slower.
 */
#ifndef SL_SEARCH_BOUND_H
#define SL_SEARCH_BOUND_H

#include "search/problem.h"

/* Work and way for one micro-batch size. */
int64_t sl_search_size_bound(const struct sl_problem *problem, int size, bool async);

/* No plan with one of these schedules (ends with NULL) has a smaller step; to one part in 10,000.
 * `mixed`: nor has one with the schedule `graph` and a micro-batch size per stage. */
int64_t sl_search_space_bound(const struct sl_problem *problem, const char *const *schedules,
                              bool mixed);

#endif
