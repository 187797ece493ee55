/* Deterministic parallel for: body(ctx, i) is called once for each i, on any thread. Components
 * below device use threads only through it. */
#ifndef SL_BASE_PAR_H
#define SL_BASE_PAR_H

#include <stdint.h>

/* Call body(ctx, i) for every i in [0, count), on up to `threads` threads (0: all cores). Calls
 * must not share mutable data. Returns when all calls have returned. */
void sl_par_for(int64_t count, int threads, void (*body)(void *ctx, int64_t i), void *ctx);

/* Number of cores that this process may use. */
int sl_par_cores(void);

#endif
