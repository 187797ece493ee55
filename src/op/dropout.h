/* The mask of dropout, shared by reference and kernels.
 *
 * Element i of the run (i = first_sample x elements per sample + offset in the micro-batch) is
 * dropped if word i of its random stream is below p 2^32. The mask therefore does not depend on the
 * micro-batch size or the number of stages. Recomputation and the backward pass draw the mask
 * again instead of keeping it. */
#ifndef SL_OP_DROPOUT_H
#define SL_OP_DROPOUT_H

#include "base/rng.h"
#include "op/common.h"

enum { SL_DROPOUT_P, SL_DROPOUT_STREAM };

struct sl_dropout {
    /* first: index, in the run, of the first element of the micro-batch */
    uint64_t seed, stream, first;
    uint64_t below; /* a word below this drops its element */
    double p;
};

static inline struct sl_dropout sl_dropout_open(const struct sl_ref *r) {
    double p = r->attr[SL_DROPOUT_P].f;
    int64_t each = sl_op_numel(&r->out[0].shape) / r->samples;
    return (struct sl_dropout){
        .seed = r->seed,
        .stream = (uint64_t)r->attr[SL_DROPOUT_STREAM].i,
        .first = (uint64_t)(r->first_sample * each),
        .below = (uint64_t)(p * 4294967296.0),
        .p = p,
    };
}

static inline bool sl_dropout_keeps(const struct sl_dropout *d, int64_t offset) {
    return sl_rng_u32(d->seed, d->stream, d->first + (uint64_t)offset) >= d->below;
}

/* Checks that p is in [0, 1) and that B is the first axis, because element offsets must follow
 * samples. */
SL_MUST_CHECK sl_err sl_op_infer_dropout(struct sl_infer *infer);

#endif
