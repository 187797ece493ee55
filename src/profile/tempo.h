/* Tempo: the measured variation of pass times relative to the cost table (cost/tempo.h). */
#ifndef SL_PROFILE_TEMPO_H
#define SL_PROFILE_TEMPO_H

#include "base/arena.h"
#include "cost/tempo.h"

/* Times of a forward pass and of the following backward pass. */
struct sl_profile_pair {
    int64_t f, b; /* in ns */
};

struct sl_tempo_log {
    int workers, rounds, sizes; /* rounds per size, limited by the room of a table */
    int32_t *millionths; /* [worker][size][round][f, b] measured time / table time, in millionths */
};

void sl_profile_tempo_open(struct sl_arena *arena, struct sl_tempo_log *log, int workers,
                           int rounds, int sizes);
/* Adds the measured rounds of a worker, relative to the table's times of the same passes. */
void sl_profile_tempo_add(struct sl_tempo_log *log, int worker, int size,
                          const struct sl_profile_pair *took, struct sl_profile_pair table);
struct sl_tempo sl_profile_tempo_of(const struct sl_tempo_log *log);

#endif
