/* Reports whether a model fits: bytes of the fullest device by cause, and changes that would make
 * it fit. */
#ifndef SL_REPORT_FITS_H
#define SL_REPORT_FITS_H

#include "report/model_sim.h"

/* Bytes of one device. */
struct sl_fits_bytes {
    int64_t weights, grads, state, activations, rest, all; /* rest: messages and workspace */
    int stage;                                             /* a stage of the device */
};

/* The effect of changing one option. */
struct sl_fits_change {
    const char *what;   /* "--tp 4" */
    int64_t peak_bytes; /* bytes of the fullest device with it; 0: the change is not possible */
    int64_t step_ns;
    bool fits;
};

enum { SL_FITS_CHANGES = 8 };

struct sl_report_fits {
    struct sl_report_model_sim sim;
    struct sl_fits_bytes bytes; /* of the fullest device */
    struct sl_fits_change changes[SL_FITS_CHANGES];
    int change_count;
    bool searched; /* the degrees of parallelism were searched */
};

void sl_report_fits_measure(const struct sl_report_model_sim *sim, struct sl_fits_bytes *out);
void sl_report_fits(const struct sl_report_fits *fits, struct sl_text *out);
void sl_report_fits_json(const struct sl_report_fits *fits, struct sl_text *out);

#endif
