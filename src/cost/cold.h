/* A pass that its worker has waited for takes longer than one behind another pass: the core has
 * been asleep, and caches and clocks are not as they were. */
#ifndef SL_COST_COLD_H
#define SL_COST_COLD_H

#include <stdint.h>

enum { SL_COLD_MAX_NS = 1000000000 };

/* What an F, and a B or I, takes more: after a wait of `after_ns` and longer all of it, after less
 * its share (rounded down). All from 0 to SL_COLD_MAX_NS; after_ns 0: nothing. */
struct sl_cold {
    int64_t f_ns, b_ns, after_ns;
};

#endif
