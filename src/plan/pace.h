/* The interval between checkpoints, from the measured cost of a save. */
#ifndef SL_PLAN_PACE_H
#define SL_PLAN_PACE_H

#include <stdint.h>

struct sl_pace {
    double share;     /* of the run's time that saving may take */
    int64_t least_ns; /* minimum time between saves */
    int64_t step_ns;  /* of the run */
    int64_t stall_ns; /* the run waits for a save */
    int64_t cpu_ns;   /* of its writer; slows the run if no core is free */
    int64_t write_ns; /* until it is durable; the next save waits for it */
};

/* Steps between saves. */
int64_t sl_plan_pace_steps(const struct sl_pace *pace);
/* Upper bound on the share of the run's time that saving every `steps` steps takes. */
double sl_plan_pace_cost(const struct sl_pace *pace, int64_t every);

#endif
