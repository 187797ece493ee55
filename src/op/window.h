/* What images share: windows that slide over [B,C,H,W], and sums per channel. */
#ifndef SL_OP_WINDOW_H
#define SL_OP_WINDOW_H

#include "op/common.h"

struct sl_window {
    int64_t kernel[2], stride[2], pad[2], dilation[2]; /* height, width */
};

/* Demand that input i is a float image [B,C,H,W]; only its first size may hold B. */
SL_MUST_CHECK sl_err sl_op_need_image(const struct sl_infer *infer, int i);
/* Demand that input i, if present, is a float vector with as many elements as axis 1 of x. */
SL_MUST_CHECK sl_err sl_op_need_channels(const struct sl_infer *infer, int i,
                                         const struct sl_shape *x);
/* Attribute `attr` holds one value for both directions or two; afterwards it holds two. */
SL_MUST_CHECK sl_err sl_op_need_pair(struct sl_infer *infer, int attr, int64_t least);
/* Put the size of the result of sliding over image x into axes 2 and 3 of out. */
SL_MUST_CHECK sl_err sl_op_window_infer(const struct sl_infer *infer,
                                        const struct sl_window *window, const struct sl_shape *x,
                                        struct sl_shape *out);
/* The part of a window at `at` (direction 0 or 1) that lies inside [0, size); dilation 1. */
void sl_op_window_clip(const struct sl_window *window, int direction, int64_t at, int64_t size,
                       int64_t *from, int64_t *to);

/* Pooling: attributes kernel, stride (0: the kernel) and pad come first. */
sl_err sl_op_pool_infer(struct sl_infer *infer);
struct sl_window sl_op_pool_window(const union sl_attr *attr);

/* Infer for internal ops that state the shape of their only output in attribute `attr`. */
sl_err sl_op_infer_stated(struct sl_infer *infer, int attr);

/* [B,C,...] summed over all axes but 1, in the shape of `like` ([C]). */
int sl_op_grad_sum_channels(struct sl_grad *grad, int value, int like);

#endif
