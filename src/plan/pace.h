/* How often a run saves itself, from what a save was seen to cost. */
#ifndef SL_PLAN_PACE_H
#define SL_PLAN_PACE_H

#include <stdint.h>

struct sl_pace {
    double share;     /* of the run's time that saving may take */
    int64_t least_ns; /* between saves: more often serves nobody */
    int64_t step_ns;  /* of the run */
    int64_t stall_ns; /* the run waits for a save */
    int64_t cpu_ns;   /* of its writer: taken from the run where no core is free */
    int64_t write_ns; /* until it is durable: the next one would wait for it */
};

/* Steps between saves. */
int64_t sl_plan_pace_steps(const struct sl_pace *pace);
/* Part of the run's time that saving every so many steps takes at most. */
double sl_plan_pace_cost(const struct sl_pace *pace, int64_t every);

#endif
