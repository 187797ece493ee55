/* How the passes of workers went, one behind the other: no worker is always equally fast, and not
 * all are as fast as each other. A pipeline waits for whoever is slow, so that a step of it is
 * longer than one of passes that all take their median. */
#ifndef SL_COST_TEMPO_H
#define SL_COST_TEMPO_H

#include <stdint.h>

enum {
    SL_TEMPO_EVEN = 1000000,   /* as long as the table says */
    SL_TEMPO_MAX = 1000000000, /* a thousand times as long */
    SL_TEMPO_WORKERS = 1 << 10,
    SL_TEMPO_PASSES = 1 << 12,
};

/* Millionths of the time that the table says, of every pass of every worker, in the order in which
 * they were measured, at the same time. No passes: not measured. */
struct sl_tempo {
    int workers, passes;
    const int32_t *millionths; /* [worker][pass] */
};

/* Pass number `pass` of a worker; both go round. */
static inline int32_t sl_tempo_at(const struct sl_tempo *tempo, int worker, int64_t pass) {
    return tempo
        ->millionths[(int64_t)(worker % tempo->workers) * tempo->passes + pass % tempo->passes];
}

#endif
