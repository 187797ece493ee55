/* Cold passes: a pass after a wait takes longer, because the core slept and its caches and clock
 * rate changed. */
#ifndef SL_COST_COLD_H
#define SL_COST_COLD_H

#include <stdint.h>

enum { SL_COLD_MAX_NS = 1000000000 };

/* The extra time of F, and of B or I. A wait of at least `after_ns` costs all of it, a shorter wait
 * its share (rounded down). All values are in [0, SL_COLD_MAX_NS]; after_ns 0: no extra time. */
struct sl_cold {
    int64_t f_ns, b_ns, after_ns;
};

#endif
