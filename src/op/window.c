/* Sliding windows over images: output sizes, one- or two-valued attributes, channel sums.
 *
 *   out = floor((in + 2 pad - dilation (kernel - 1) - 1) / stride) + 1, per direction
 */
#include "op/window.h"

/* Largest value of an attribute; products of attributes then fit into int64. */
#define MAX ((int64_t)1 << 24)

sl_err sl_op_need_image(const struct sl_infer *infer, int i) {
    char text[SL_SHAPE_TEXT];
    SL_TRY(sl_op_need_float(infer, i));
    if (infer->in[i].rank != 4 || (infer->in[i].batch & ~1u))
        return sl_graph_infer_fail(infer, "input %d must be an image [B,C,H,W], it is %s", i,
                                   sl_graph_shape_text(&infer->in[i], text));
    return SL_OK;
}

sl_err sl_op_need_channels(const struct sl_infer *infer, int i, const struct sl_shape *x) {
    char text[SL_SHAPE_TEXT], image[SL_SHAPE_TEXT];
    SL_TRY(sl_op_need_float(infer, i));
    const struct sl_shape want = SL_SHAPE(1, 0, x->dim[1]);
    if (infer->present[i] && !sl_graph_shape_equal(&infer->in[i], &want))
        return sl_graph_infer_fail(infer,
                                   "input %d must be [%lld] to match the channels of %s, it is %s",
                                   i, (long long)x->dim[1], sl_graph_shape_text(x, image),
                                   sl_graph_shape_text(&infer->in[i], text));
    return SL_OK;
}

sl_err sl_op_need_pair(struct sl_infer *infer, int attr, int64_t least) {
    struct sl_ints *ints = &infer->attr[attr].ints;
    const char *name = infer->op->attrs[attr].name;
    if (ints->count == 1)
        ints->at[ints->count++] = ints->at[0];
    if (ints->count != 2)
        return sl_graph_infer_fail(infer, "'%s' takes one value or two (height, width), got %d",
                                   name, ints->count);
    for (int i = 0; i < 2; i++)
        if (ints->at[i] < least || ints->at[i] > MAX)
            return sl_graph_infer_fail(infer, "'%s' must be between %lld and %lld, it is %lld",
                                       name, (long long)least, (long long)MAX,
                                       (long long)ints->at[i]);
    return SL_OK;
}

sl_err sl_op_window_infer(const struct sl_infer *infer, const struct sl_window *w,
                          const struct sl_shape *x, struct sl_shape *out) {
    char text[SL_SHAPE_TEXT];
    for (int i = 0; i < 2; i++) {
        if (w->kernel[i] > MAX)
            return sl_graph_infer_fail(infer, "a kernel of %lld is too large",
                                       (long long)w->kernel[i]);
        int64_t reach = w->dilation[i] * (w->kernel[i] - 1) + 1;
        int64_t room = x->dim[2 + i] + 2 * w->pad[i];
        if (reach > room)
            return sl_graph_infer_fail(
                infer,
                "a window %lld %s (kernel %lld, dilation %lld) does not fit into "
                "%s with padding %lld",
                (long long)reach, i ? "wide" : "high", (long long)w->kernel[i],
                (long long)w->dilation[i], sl_graph_shape_text(x, text), (long long)w->pad[i]);
        out->dim[2 + i] = (room - reach) / w->stride[i] + 1;
    }
    return SL_OK;
}

void sl_op_window_clip(const struct sl_window *w, int direction, int64_t at, int64_t size,
                       int64_t *from, int64_t *to) {
    *from = at * w->stride[direction] - w->pad[direction];
    *to = *from + w->kernel[direction];
    *from = *from > 0 ? *from : 0;
    *to = *to < size ? *to : size;
}

enum { KERNEL, STRIDE, PAD };

struct sl_window sl_op_pool_window(const union sl_attr *attr) {
    struct sl_window window;
    for (int i = 0; i < 2; i++) {
        window.kernel[i] = attr[KERNEL].ints.at[i];
        window.stride[i] = attr[STRIDE].ints.at[i];
        window.pad[i] = attr[PAD].ints.at[i];
        window.dilation[i] = 1;
    }
    return window;
}

sl_err sl_op_pool_infer(struct sl_infer *infer) {
    SL_TRY(sl_op_need_image(infer, 0));
    SL_TRY(sl_op_need_pair(infer, KERNEL, 1));
    SL_TRY(sl_op_need_pair(infer, STRIDE, 0));
    SL_TRY(sl_op_need_pair(infer, PAD, 0));
    for (int i = 0; i < 2; i++) {
        int64_t kernel = infer->attr[KERNEL].ints.at[i], pad = infer->attr[PAD].ints.at[i];
        if (infer->attr[STRIDE].ints.at[i] == 0)
            infer->attr[STRIDE].ints.at[i] = kernel;
        if (pad > kernel / 2)
            return sl_graph_infer_fail(
                infer,
                "padding %lld is more than half of kernel %lld: a window could lie "
                "outside the image",
                (long long)pad, (long long)kernel);
    }
    struct sl_window window = sl_op_pool_window(infer->attr);
    infer->out[0] = infer->in[0];
    return sl_op_window_infer(infer, &window, &infer->in[0], &infer->out[0]);
}

sl_err sl_op_infer_stated(struct sl_infer *infer, int attr) {
    infer->out[0] = infer->attr[attr].shape;
    return SL_OK;
}

int sl_op_grad_sum_channels(struct sl_grad *grad, int value, int like) {
    if (value < 0)
        return -1;
    const struct sl_shape *shape = sl_graph_grad_shape(grad, value);
    union sl_attr attr[1] = {{.shape = {.rank = shape->rank}}};
    for (int i = 0; i < shape->rank; i++)
        attr[0].shape.dim[i] = i == 1 ? shape->dim[i] : 1;
    int sum = sl_graph_grad_emit(grad, "sum_to", 1, &value, attr);
    return sl_op_grad_reshape(grad, sum, *sl_graph_grad_shape(grad, like));
}
