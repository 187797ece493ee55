/* Helpers of image ops: sliding windows over [B,C,H,W], sums per channel. */
#ifndef SL_OP_WINDOW_H
#define SL_OP_WINDOW_H

#include "op/common.h"

struct sl_window {
    int64_t kernel[2], stride[2], pad[2], dilation[2]; /* [height, width] */
};

/* Checks that input i is a float image [B,C,H,W]; only the first axis may contain B. */
SL_MUST_CHECK sl_err sl_op_need_image(const struct sl_infer *infer, int i);
/* Checks that input i, if present, is a float vector with one element per channel (axis 1) of x. */
SL_MUST_CHECK sl_err sl_op_need_channels(const struct sl_infer *infer, int i,
                                         const struct sl_shape *x);
/* Expands attribute `attr` from one value for both directions to two, each at least `least`. */
SL_MUST_CHECK sl_err sl_op_need_pair(struct sl_infer *infer, int attr, int64_t least);
/* Sets axes 2 and 3 of `out` to the number of window positions over image x. */
SL_MUST_CHECK sl_err sl_op_window_infer(const struct sl_infer *infer,
                                        const struct sl_window *window, const struct sl_shape *x,
                                        struct sl_shape *out);
/* Returns the part of a window at `at` (direction 0 or 1) that lies inside [0, size); dilation 1
 * only. */
void sl_op_window_clip(const struct sl_window *window, int direction, int64_t at, int64_t size,
                       int64_t *from, int64_t *to);

/* For pooling ops, whose attributes kernel, stride (0: the kernel) and pad come first. */
sl_err sl_op_pool_infer(struct sl_infer *infer);
struct sl_window sl_op_pool_window(const union sl_attr *attr);

/* Shape inference for internal ops whose attribute `attr` is the shape of their only output. */
sl_err sl_op_infer_stated(struct sl_infer *infer, int attr);

/* Emits the sum of [B,C,...] over all axes but 1, in the shape of `like` ([C]). */
int sl_op_grad_sum_channels(struct sl_grad *grad, int value, int like);

#endif
