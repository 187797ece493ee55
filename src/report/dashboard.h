/* A training run on a terminal: progress, losses, activity of the workers.
 *
 *     gpt-nano, 1f1b on 4 workers                 step 120/300  40 %  left 12.0 s
 *     loss 2.3456  validation 2.4011  norm 0.93  lr 1.0e-03  12.3k tokens/s  ...
 *       3.2 |\                                    all losses so far, over the whole width
 *       2.1 |  ---___
 *     0 |F0 F1 B0== ...                           timeline of the last measured steps */
#ifndef SL_REPORT_DASHBOARD_H
#define SL_REPORT_DASHBOARD_H

#include "report/picture.h"

enum { SL_DASHBOARD_KEPT = 1024 };

struct sl_dashboard {
    const char *title; /* "gpt-nano, 1f1b on 4 workers" */
    int64_t step, steps;
    double loss, eval_loss, norm, lr; /* NAN: no value */
    double rate;                      /* items per second */
    const char *item;                 /* "tokens" */
    double bubble;                    /* NAN: no pipeline */
    int64_t bytes;                    /* memory of the largest worker, or of the process */
    int64_t left_ns;
    /* losses so far, as means of `per` steps; when the array is full, neighbours are merged and
     * `per` doubles */
    double losses[SL_DASHBOARD_KEPT];
    int kept;
    int64_t per;
    double sum; /* sum of the incomplete mean; next field: its number of steps */
    int64_t in_sum;
};

struct sl_dashboard_room {
    int columns, rows;
    bool colour, unicode; /* unicode false: only ASCII */
};

/* Adds the loss of one step; ignores a loss that is not finite. */
void sl_report_dashboard_add(struct sl_dashboard *d, double loss);

/* Appends at most room->rows lines of at most room->columns columns, each with a newline. `lanes`:
 * the last measured timeline, or NULL. */
void sl_report_dashboard_put(const struct sl_dashboard *d, const struct sl_picture *lanes,
                             const struct sl_dashboard_room *room, struct sl_text *out);

#endif
