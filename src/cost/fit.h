/* Robust least squares with bounds, for constants of machines.
 *
 *     minimise over x the sum of rho(r_i(x)),  rho(r) = 2 s^2 (sqrt(1 + (r / s)^2) - 1),
 *
 * with r_i(x) = log(predicted_i / measured_i): small errors count by their square, large errors
 * by their size. x are logarithms of positive constants. Levenberg-Marquardt with numeric
 * derivatives: the same inputs give the same bits. */
#ifndef SL_COST_FIT_H
#define SL_COST_FIT_H

#include "base/err.h"

#include <stdbool.h>

enum { SL_FIT_MAX = 16 };

struct sl_fit {
    int count; /* number of unknowns, at most SL_FIT_MAX */
    int rows;  /* number of measurements */
    double low[SL_FIT_MAX], high[SL_FIT_MAX];
    double scale; /* s of the formula above */
    int rounds;   /* most rounds */
    /* Computes the residuals at x of the rows with use[i] (NULL: all rows). */
    sl_err (*residuals)(const void *ctx, const double *x, const bool *use, double *out);
    const void *ctx;
};

/* Fits. `x` is the start and becomes the result. Uses the rows with use[i] (NULL: all rows). */
SL_MUST_CHECK sl_err sl_cost_fit(const struct sl_fit *fit, const bool *use, double *x);

#endif
