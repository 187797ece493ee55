/* Will it fit? A model, a machine and the degrees that are given; open degrees become the smallest ones
 * with which the model fits. */
#ifndef SL_SIZING_FITS_H
#define SL_SIZING_FITS_H

#include "report/fits.h"
#include "sizing/sim.h"

/* Fails only if a request is wrong; whether the model fits is in the report. */
SL_MUST_CHECK sl_err sl_sizing_fits(struct sl_arena *arena, const struct sl_sizing_request *request,
                                    struct sl_report_fits *out);

#endif
