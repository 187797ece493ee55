/* Parallel for with a result that does not depend on the number of threads: item i is always done
 * by the same call, only who calls it differs. Desk rooms use no other threads. */
#ifndef SL_BASE_PAR_H
#define SL_BASE_PAR_H

#include <stdint.h>

/* Call body(ctx, i) for every i in [0, count), on up to `threads` threads (0 = all cores). Bodies
 * must not touch each other's data. Returns when all are done. */
void sl_par_for(int64_t count, int threads, void (*body)(void *ctx, int64_t i), void *ctx);

/* Cores this process may use. */
int sl_par_cores(void);

#endif
