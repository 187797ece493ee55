/* Tempo: the measured variation of the speed of passes, per worker. A pipeline waits for its
 * slowest worker, so a real step is longer than one in which every pass takes its median time. */
#ifndef SL_COST_TEMPO_H
#define SL_COST_TEMPO_H

#include <stdint.h>

enum {
    SL_TEMPO_EVEN = 1000000,   /* equal to the time in the cost table */
    SL_TEMPO_MAX = 1000000000, /* a thousand times that */
    SL_TEMPO_WORKERS = 1 << 10,
    SL_TEMPO_PASSES = 1 << 12,
};

/* Times of passes in millionths of the cost table's time, in the order of measurement; the workers
 * ran at the same time. passes 0: not measured. */
struct sl_tempo {
    int workers, passes;
    const int32_t *millionths; /* [worker][pass] */
};

/* Returns the time of pass number `pass` of a worker; both numbers wrap around. */
static inline int32_t sl_tempo_at(const struct sl_tempo *tempo, int worker, int64_t pass) {
    return tempo
        ->millionths[(int64_t)(worker % tempo->workers) * tempo->passes + pass % tempo->passes];
}

#endif
