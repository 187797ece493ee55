/* The mask of dropout: which elements are kept. The one definition for references and kernels.
 *
 * The i-th element of the run (first_sample x elements per sample + offset in the micro-batch) is
 * dropped when word i of its stream is below p 2^32. Nothing else enters, so the mask is the same
 * for any size of micro-batch, any number of stages, and when a forward pass is computed again; the
 * backward pass draws it anew instead of keeping it.
 */
#ifndef SL_OP_DROPOUT_H
#define SL_OP_DROPOUT_H

#include "base/rng.h"
#include "op/common.h"

enum { SL_DROPOUT_P, SL_DROPOUT_STREAM };

struct sl_dropout {
    uint64_t seed, stream, first; /* number of the micro-batch's first element in the run */
    uint64_t below;               /* words below this drop their element */
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

/* p in [0, 1), and B in front: offsets in the micro-batch must follow the samples. */
SL_MUST_CHECK sl_err sl_op_infer_dropout(struct sl_infer *infer);

#endif
