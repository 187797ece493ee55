/* The line that a training run prints for a step. */
#ifndef SL_CLI_STEP_LINE_H
#define SL_CLI_STEP_LINE_H

#include "job/train.h"

struct sl_step_line {
    int64_t steps;    /* of the whole run */
    const char *item; /* "tokens" */
    int64_t last_ns;  /* time of the last line; 0: none yet */
};

/* Prints the line: on a terminal one line that is redrawn; in a log, lines at powers of two and
 * after every tenth of the run. */
void sl_cli_step_line_put(struct sl_step_line *line, const struct sl_step_report *report,
                          const struct sl_job_speed *speed);
/* Prints a step without its final report; in a log at most one line every ten seconds. */
void sl_cli_step_line_provisional(struct sl_step_line *line, const struct sl_step_report *report,
                                  const struct sl_job_speed *speed);

#endif
