/* Which part of a model each worker measures: contiguous pieces, as long as each other, so that a
 * unit has the company (weights, activations, caches) that it has in a pipeline of as many stages.
 */
#ifndef SL_PROFILE_SLICES_H
#define SL_PROFILE_SLICES_H

#include "base/arena.h"

struct sl_slice {
    int first, last; /* units [first, last) */
};

/* Cuts units with these times into at most `parts` slices, the longest as short as it can be;
 * returns how many there are. */
int sl_profile_slices_cut(struct sl_arena *arena, const int64_t *unit_ns, int units, int parts,
                          const struct sl_slice **out);

#endif
