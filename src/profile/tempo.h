/* From what passes took to how they went (cost/tempo.h). */
#ifndef SL_PROFILE_TEMPO_H
#define SL_PROFILE_TEMPO_H

#include "base/arena.h"
#include "cost/tempo.h"

/* A forward pass and the backward pass behind it. */
struct sl_pass_pair {
    int64_t f, b; /* ns */
};

struct sl_tempo_log {
    int workers, rounds, sizes; /* rounds of each size; as many as a table may have, at most */
    int32_t *millionths;        /* [worker][size][round][f, b] */
};

void sl_profile_tempo_open(struct sl_arena *arena, struct sl_tempo_log *log, int workers,
                           int rounds, int sizes);
/* What a worker's rounds took, against what the table says of the same passes. */
void sl_profile_tempo_add(struct sl_tempo_log *log, int worker, int size,
                          const struct sl_pass_pair *took, struct sl_pass_pair table);
struct sl_tempo sl_profile_tempo_of(const struct sl_tempo_log *log);

#endif
