/* The buckets of relative positions of T5 (Raffel et al. 2020, section 2.1). */
#ifndef SL_OP_RELATIVE_H
#define SL_OP_RELATIVE_H

#include <math.h>
#include <stdint.h>

#ifdef __CUDACC__
#define SL_OP_RELATIVE_FN static __host__ __device__ inline
#else
#define SL_OP_RELATIVE_FN static inline
#endif

struct sl_relative {
    int64_t buckets, max_distance;
    int both_sides; /* keys after the query have separate buckets */
};

/* Returns the bucket of the distance key - query. Half of the buckets are exact distances; the
 * others grow with the logarithm up to max_distance. A small addend makes integer results exact on
 * every device. */
SL_OP_RELATIVE_FN int64_t sl_op_relative_bucket(const struct sl_relative *r, int64_t distance) {
    int64_t buckets = r->both_sides ? r->buckets / 2 : r->buckets, exact = buckets / 2;
    int64_t first = r->both_sides && distance > 0 ? buckets : 0;
    int64_t n = distance < 0 ? -distance : r->both_sides ? distance : 0;
    if (n < exact)
        return first + n;
    double share = log((double)n / (double)exact) / log((double)r->max_distance / (double)exact);
    int64_t large = exact + (int64_t)(share * (double)(buckets - exact) + 1e-6);
    return first + (large < buckets ? large : buckets - 1);
}

#endif
