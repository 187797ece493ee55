/* Random planning problems: chains, series-parallel graphs, general DAGs, on flat machines or mixed
 * ones. */
#ifndef SL_TESTS_PROBLEM_CASES_H
#define SL_TESTS_PROBLEM_CASES_H

#include "planners/registry.h"
#include "support/sched_cases.h"

struct problem_size {
    int units, devices; /* at most */
    bool mixed;         /* two hosts and two kinds of devices, some of the time */
    bool sized;         /* two micro-batch sizes */
    bool tied;          /* two units read one parameter */
};

/* One host of devices that are alike, with a link between each two of them. */
const struct sl_machine *flat_machine(struct sl_arena *arena, int devices, double bytes_per_s,
                                      int64_t latency_ns);

/* Units from 2, devices from 1. Memory is tight in two cases of three. */
const struct sl_problem *problem_draw(struct sl_arena *arena, struct dice *dice,
                                      struct problem_size max);

/* The smallest bottleneck over every acyclic partition, width and recomputation, by plain sums; -1
 * when nothing fits. Shares no code with the search. */
int64_t problem_brute(const struct sl_problem *problem, const char *schedule, int size);

#endif
