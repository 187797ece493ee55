/* Slices: contiguous parts of a model with about equal time, one per worker. A unit then shares
 * caches with the same neighbours as in a pipeline with that many stages. */
#ifndef SL_PROFILE_SLICES_H
#define SL_PROFILE_SLICES_H

#include "base/arena.h"

struct sl_profile_slice {
    int first, last; /* the slice has units first .. last - 1 */
};

/* Cuts units with these times into at most `parts` slices so that the longest is as short as
 * possible. Returns the number of slices. */
int sl_profile_slices_cut(struct sl_arena *arena, const int64_t *unit_ns, int units, int parts,
                          const struct sl_profile_slice **out);

#endif
