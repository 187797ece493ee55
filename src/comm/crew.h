/* A crew: the members of a group in one process. They share a barrier, two sets of tables that
 * alternate, and pointers to the terms of a sum. */
#ifndef SL_COMM_CREW_H
#define SL_COMM_CREW_H

#include "comm/comm.h"

struct sl_crew {
    struct sl_gate *gate;
    int members;
    atomic_int_least64_t arrived;
};

/* A barrier; may be used again. */
SL_MUST_CHECK sl_err sl_comm_crew_meet(struct sl_crew *crew);

/* Part i of n of a vector of `count` floats; parts are whole cache lines. */
struct sl_crew_slice {
    int64_t first, count;
};
struct sl_crew_slice sl_comm_slice_of(int64_t count, int i, int n);

/* An adder: a device and a scratch block for sums. */
struct sl_adder {
    struct sl_device *device;
    void *block;
    int64_t floats; /* size of the block */
};
SL_MUST_CHECK sl_err sl_comm_adder_open(struct sl_adder *adder, struct sl_device *device);
void sl_comm_adder_close(struct sl_adder *adder);
/* Computes out[i] = terms[0][i] + terms[1][i] + ... over a slice; out may be one of the terms. */
SL_MUST_CHECK sl_err sl_comm_adder_sum(const struct sl_adder *adder, const float *const *terms,
                                       int term_count, struct sl_crew_slice slice, float *out);

/* Computes into |= from, over `count` words of 64 bits. */
void sl_comm_merge_words(void *into, const void *from, int64_t count);

#endif
