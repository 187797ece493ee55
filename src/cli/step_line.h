/* The line that a training run shows of a step. */
#ifndef SL_CLI_STEP_LINE_H
#define SL_CLI_STEP_LINE_H

#include "run/train.h"

struct sl_step_line {
    int64_t steps;    /* of the whole run */
    const char *item; /* "tokens" */
    int64_t last_ns;  /* when a line was shown last; 0: never */
};

struct sl_step_speed {
    double rate;     /* items per second */
    int64_t left_ns; /* until the last step */
    double peak;     /* share of what the cores reach; NAN: not known */
};

/* On a terminal a line that redraws itself; in a log, lines at powers of two and every tenth. */
void sl_cli_step_line_put(struct sl_step_line *line, const struct sl_step_report *report,
                          const struct sl_step_speed *speed);
/* Of a step among others that are not told yet: in a log, a line every ten seconds. */
void sl_cli_step_line_provisional(struct sl_step_line *line, const struct sl_step_report *report,
                                  const struct sl_step_speed *speed);

#endif
