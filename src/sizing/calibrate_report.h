/* The constants that are fitted, with their bounds, and the report of errors. */
#ifndef SL_SIZING_CALIBRATE_REPORT_H
#define SL_SIZING_CALIBRATE_REPORT_H

#include "cost/machine.h"

enum sl_calibrate_constant {
    SL_CALIBRATE_EFFICIENCY,
    SL_CALIBRATE_HALF,
    SL_CALIBRATE_SCORE,
    SL_CALIBRATE_STREAM,
    SL_CALIBRATE_LAUNCH,
    SL_CALIBRATE_MEET,
    SL_CALIBRATE_MESSAGE,
    SL_CALIBRATE_SUM,
    SL_CALIBRATE_SUM_LATENCY,
};

struct sl_calibrate_row {
    enum sl_calibrate_constant which;
    /* stream: factors of the start value; sum: factors of the link's bandwidth */
    double low, high, start;
};

enum { SL_CALIBRATE_DEVICE, SL_CALIBRATE_NETWORK, SL_CALIBRATE_GROUPS, SL_CALIBRATE_MAX = 8 };

struct sl_calibrate_group {
    const char *name, *rows;
    struct sl_calibrate_row constants[SL_CALIBRATE_MAX];
    int count;
};
extern const struct sl_calibrate_group sl_sizing_calibrate_groups[SL_CALIBRATE_GROUPS];

struct sl_calibrate_result {
    int rows, folds;
    const char *recompute;
    const double
        *fitted;  /* [all rows] predicted / measured - 1; NAN: the row is in another group. NULL:
                   * there are no rows */
    double *held; /* the same with the row held out; NULL: not computed */
};

void sl_sizing_calibrate_report(const struct sl_machine *machine,
                                const struct sl_calibrate_result *results, int rows,
                                struct sl_text *out);
void sl_sizing_calibrate_report_json(const struct sl_machine *machine,
                                     const struct sl_calibrate_result *results, int rows,
                                     struct sl_text *out);

#endif
