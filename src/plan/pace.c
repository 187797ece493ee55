/* The checkpoint interval: saves take at most `share` of the run and never overlap. The writer's
 * CPU time counts in full, as if every core were busy. */
#include "plan/pace.h"

#include <math.h>

enum { STEPS_MAX = 1000000000 };

int64_t sl_plan_pace_steps(const struct sl_pace *pace) {
    double step = fmax((double)pace->step_ns, 1);
    double cost = (double)(pace->stall_ns + pace->cpu_ns);
    double apart = fmax(cost / (pace->share * step), (double)pace->write_ns / step);
    double steps = ceil(fmax(apart, (double)pace->least_ns / step));
    return steps < 1 ? 1 : steps < STEPS_MAX ? (int64_t)steps : STEPS_MAX;
}

double sl_plan_pace_cost(const struct sl_pace *pace, int64_t every) {
    return (double)(pace->stall_ns + pace->cpu_ns) / ((double)pace->step_ns * (double)every);
}
