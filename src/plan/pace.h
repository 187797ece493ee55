/* The interval between checkpoints, from the measured cost of a save. */
#ifndef SL_PLAN_PACE_H
#define SL_PLAN_PACE_H

#include <stdint.h>

struct sl_pace {
    double share;     /* largest share of the run's time that saves may take */
    int64_t least_ns; /* minimum time between saves */
    int64_t step_ns;  /* duration of a step */
    int64_t stall_ns; /* time that the run waits for a save */
    int64_t cpu_ns;   /* CPU time of the writer; slows the run if no core is free */
    int64_t write_ns; /* time until the checkpoint is durable; the next save waits for it */
};

/* Returns the number of steps between saves. */
int64_t sl_plan_pace_steps(const struct sl_pace *pace);
/* Returns an upper bound on the share of the run's time that a save every `steps` steps takes. */
double sl_plan_pace_cost(const struct sl_pace *pace, int64_t every);

#endif
