/* Fitting the constants of a machine to measured steps (docs/calibrate.md).
 *
 *     all-reduces  -> latency and rate of sums inside a host
 *     steps in one host        -> seven constants of the kind of device
 *     steps over several hosts -> two constants of the link between hosts
 *
 * sl_sizing_sim, the simulation of `sluice sim MODEL`, evaluates every candidate. The reported
 * errors are on rows that were not used for the fit: in folds, or row by row. */
#ifndef SL_SIZING_CALIBRATE_H
#define SL_SIZING_CALIBRATE_H

#include "base/err.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

struct sl_sizing_calibrate_request {
    const char *const *steps; /* [step_count] tables of steps */
    int step_count;
    const char *const *sums; /* [sum_count] tables of all-reduces, named ...-N.txt for N devices */
    int sum_count;
    const char *machine;           /* machine to start from: name, file or specification */
    const char *model;             /* [gpt2] with the sizes C, H, L, T, P, V */
    const char *const *model_dirs; /* ends with NULL */
    const char *dtype, *schedule, *recompute; /* [fp16, 1f1b, auto] */
    int64_t vocabulary;                       /* [51200] */
    int64_t folds;  /* number of folds [5; below 20 rows, as many as rows] */
    int threads;    /* [all cores] */
    const char *to; /* X.machine to write; NULL: only report */
    bool check;     /* fit nothing, and report the errors of `machine` */
    bool json;
};

SL_MUST_CHECK sl_err sl_sizing_calibrate(const struct sl_sizing_calibrate_request *request,
                                         struct sl_text *out);

#endif
