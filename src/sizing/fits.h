/* Answers whether a model fits on a machine with the given degrees; open degrees become the
 * smallest ones with which it fits. */
#ifndef SL_SIZING_FITS_H
#define SL_SIZING_FITS_H

#include "report/fits.h"
#include "sizing/sim.h"

/* Fails only if the request is wrong; the report says whether the model fits. */
SL_MUST_CHECK sl_err sl_sizing_fits(struct sl_arena *arena, const struct sl_sizing_request *request,
                                    struct sl_report_fits *out);

#endif
