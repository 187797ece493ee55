/* Sets with weights. Private to data/: open.c finds the weights, kind_mix.c mixes the sets. */
#ifndef SL_DATA_MIX_H
#define SL_DATA_MIX_H

#include "base/map.h"
#include "data/source.h"

struct sl_data_weighted { /* an item FILE:WEIGHT of a source */
    const char *source;
    double weight;
};

extern const struct sl_data_kind sl_data_mix;

/* As sl_data_open; categories are numbered as in `first`, unless it is NULL. */
SL_MUST_CHECK sl_err sl_data_open_like(const struct sl_data_spec *spec, const struct sl_data *first,
                                       struct sl_data **out);
/* The samples of the splits: those of the sets. */
void sl_data_mix_split(struct sl_data *data);

#endif
