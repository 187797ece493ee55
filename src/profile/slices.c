/* Finds slices by bisection on the length of the longest one. */
#include "profile/slices.h"

/* Returns the number of slices of at most `limit` ns; a longer unit forms its own slice. Fills
 * `out` unless it is NULL. */
static int fill(const int64_t *unit_ns, int units, int64_t limit, struct sl_profile_slice *out) {
    int count = 0, first = 0;
    int64_t sum = 0;
    for (int u = 0; u < units; u++) {
        if (u > first && sum + unit_ns[u] > limit) {
            if (out)
                out[count] = (struct sl_profile_slice){first, u};
            count++;
            first = u;
            sum = 0;
        }
        sum += unit_ns[u];
    }
    if (out)
        out[count] = (struct sl_profile_slice){first, units};
    return count + 1;
}

int sl_profile_slices_cut(struct sl_arena *arena, const int64_t *unit_ns, int units, int parts,
                          const struct sl_profile_slice **out) {
    int64_t low = 0, high = 0; /* `high` is always a feasible limit */
    for (int u = 0; u < units; u++)
        high += unit_ns[u];
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (fill(unit_ns, units, middle, NULL) <= parts)
            high = middle;
        else
            low = middle + 1;
    }
    struct sl_profile_slice *slices = SL_NEW(arena, struct sl_profile_slice, units + 1);
    *out = slices;
    return fill(unit_ns, units, high, slices);
}
