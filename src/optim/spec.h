/* "name:key=value,key=value": the text of optimizers, policies and learning-rate schedules. */
#ifndef SL_OPTIM_SPEC_H
#define SL_OPTIM_SPEC_H

#include "base/text.h"

enum sl_value_range {
    SL_RANGE_CLOSED,    /* low <= x <= high */
    SL_RANGE_HALF_OPEN, /* low <= x < high */
    SL_RANGE_WHOLE,     /* low <= x <= high, integers only */
};

/* One hyper-parameter of a row. */
struct sl_hyper {
    const char *name; /* a row {0} ends the table */
    double fallback, low, high;
    enum sl_value_range range;
    const char *brief;
};

int sl_optim_hyper_count(const struct sl_hyper *table);
/* Returns the index in the table, or -1. */
int sl_optim_hyper_find(const struct sl_hyper *table, struct sl_str name);

/* Splits a text into the part before ':' and the part after it ("" if there is none). */
void sl_optim_spec_split(const char *text, struct sl_str *name, const char **rest);

/* Fills values[] with the defaults and the values in `rest`. `what` begins every message:
 * "optimizer 'adamw'". The error for an unknown key suggests the nearest one; the error for a value
 * outside its range names the range. `given` (may be NULL) gets bit i for each key that was
 * written. */
SL_MUST_CHECK sl_err sl_optim_spec_values(const char *what, const struct sl_hyper *table,
                                          const char *rest, double *values, unsigned *given);

/* Writes the name, and ":key=value,..." for values that differ from the default. */
void sl_optim_spec_put(struct sl_text *text, const char *name, const struct sl_hyper *table,
                       const double *values);

#endif
