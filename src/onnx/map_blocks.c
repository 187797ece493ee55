/* Lowers operators that become several ops: activations with parameters, norms of groups. */
#include "onnx/map.h"

#include <math.h>

static sl_err hard_sigmoid(struct sl_onnx_lower *l, int x, int *y) {
    struct sl_onnx_emit e;
    SL_TRY(sl_onnx_emit_scale(l, x, sl_proto_attr_float(l->node, "alpha", 0.2), y));
    SL_TRY(sl_onnx_emit_by(l, "offset", *y, sl_proto_attr_float(l->node, "beta", 0.5), y));
    SL_TRY(sl_onnx_emit_open(l, &e, "clamp"));
    sl_onnx_emit_float(&e, "min", 0);
    sl_onnx_emit_float(&e, "max", 1);
    return sl_onnx_emit(l, &e, 1, y, y);
}

/* alpha elu(x / alpha) = max(0, x) + min(0, alpha (exp(x / alpha) - 1)) */
static sl_err celu(struct sl_onnx_lower *l, int x, int *y) {
    double alpha = sl_proto_attr_float(l->node, "alpha", 1);
    if (alpha <= 0)
        return sl_onnx_lower_refuse(l, "alpha = %g", alpha);
    SL_TRY(sl_onnx_emit_scale(l, x, 1 / alpha, y));
    SL_TRY(sl_onnx_emit_plain(l, "elu", 1, y, y));
    return sl_onnx_emit_scale(l, *y, alpha, y);
}

/* relu(x) - slope relu(-x) */
static sl_err prelu(struct sl_onnx_lower *l, int x, int *y) {
    int slope, below;
    SL_TRY(sl_onnx_lower_in(l, 1, &slope));
    SL_TRY(sl_onnx_emit_plain(l, "neg", 1, &x, &below));
    SL_TRY(sl_onnx_emit_plain(l, "relu", 1, &below, &below));
    SL_TRY(sl_onnx_emit_plain(l, "mul", 2, (int[]){below, slope}, &below));
    SL_TRY(sl_onnx_emit_plain(l, "relu", 1, &x, &x));
    return sl_onnx_emit_plain(l, "sub", 2, (int[]){x, below}, y);
}

static sl_err softsign(struct sl_onnx_lower *l, int x, int *y) {
    int size;
    SL_TRY(sl_onnx_emit_plain(l, "abs", 1, &x, &size));
    SL_TRY(sl_onnx_emit_by(l, "offset", size, 1, &size));
    return sl_onnx_emit_plain(l, "div", 2, (int[]){x, size}, y);
}

static sl_err swish(struct sl_onnx_lower *l, int x, int *y) {
    double alpha = sl_proto_attr_float(l->node, "alpha", 1);
    if (alpha == 1)
        return sl_onnx_emit_plain(l, "silu", 1, &x, y);
    SL_TRY(sl_onnx_emit_scale(l, x, alpha, y));
    SL_TRY(sl_onnx_emit_plain(l, "sigmoid", 1, y, y));
    return sl_onnx_emit_plain(l, "mul", 2, (int[]){x, *y}, y);
}

static sl_err thresholded(struct sl_onnx_lower *l, int x, int *y) {
    int in[3] = {-1, x, -1}, bound;
    SL_TRY(sl_onnx_emit_filled(l, &(struct sl_shape){0}, sl_proto_attr_float(l->node, "alpha", 1),
                               &bound));
    SL_TRY(sl_onnx_emit_filled(l, &(struct sl_shape){0}, 0, &in[2]));
    SL_TRY(sl_onnx_emit_plain(l, "greater", 2, (int[]){x, bound}, &in[0]));
    return sl_onnx_emit_plain(l, "where", 3, in, y);
}

static sl_err selu(struct sl_onnx_lower *l, int x, int *y) {
    double alpha = sl_proto_attr_float(l->node, "alpha", 1.67326);
    double gamma = sl_proto_attr_float(l->node, "gamma", 1.0507);
    struct sl_onnx_emit e;
    if (fabs(alpha - 1.67326) < 1e-5 && fabs(gamma - 1.0507) < 1e-5)
        return sl_onnx_emit_plain(l, "selu", 1, &x, y);
    SL_TRY(sl_onnx_emit_open(l, &e, "elu"));
    sl_onnx_emit_float(&e, "alpha", alpha);
    SL_TRY(sl_onnx_emit(l, &e, 1, &x, y));
    return sl_onnx_emit_scale(l, *y, gamma, y);
}

static sl_err reciprocal(struct sl_onnx_lower *l, int x, int *y) {
    return sl_onnx_emit_by(l, "power", x, -1, y);
}

sl_err sl_onnx_map_activation(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    static const struct {
        const char *op;
        sl_err (*make)(struct sl_onnx_lower *l, int x, int *y);
    } makers[] = {
        {"Celu", celu},   {"HardSigmoid", hard_sigmoid},
        {"PRelu", prelu}, {"Reciprocal", reciprocal},
        {"Selu", selu},   {"Softsign", softsign},
        {"Swish", swish}, {"ThresholdedRelu", thresholded},
    };
    int x, y = -1;
    SL_TRY(sl_onnx_lower_in(l, 0, &x));
    for (int i = 0; i < SL_COUNT(makers); i++)
        if (strcmp(makers[i].op, row->op) == 0)
            SL_TRY(makers[i].make(l, x, &y));
    sl_onnx_lower_out(l, 0, y, SL_ONNX_FLOAT);
    return SL_OK;
}

/* Reshapes one number per channel from [C] to [C,1,...]. */
static sl_err per_channel(struct sl_onnx_lower *l, int input, const struct sl_shape *image,
                          int *out) {
    struct sl_shape shape = {.rank = image->rank - 1};
    SL_TRY(sl_onnx_lower_in(l, input, out));
    for (int i = 0; i < shape.rank; i++)
        shape.dim[i] = 1;
    shape.dim[0] = image->dim[1];
    if (sl_graph_shape_numel(sl_onnx_lower_shape(l, *out), 1) != shape.dim[0])
        return sl_onnx_lower_refuse(l, "input %d has not one element per channel", input);
    return sl_onnx_emit_reshape(l, *out, &shape, out);
}

/* Groups of channels become rows of a layernorm; then each channel is scaled and shifted. */
sl_err sl_onnx_map_groupnorm(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    struct sl_onnx_emit e;
    int x, in[2];
    SL_TRY(sl_onnx_lower_in(l, 0, &x));
    struct sl_shape image = *sl_onnx_lower_shape(l, x), rows = {.rank = 3}, one = {.rank = 1};
    int64_t groups = strcmp(row->op, "InstanceNormalization") == 0
                         ? image.dim[1]
                         : sl_proto_attr_int(l->node, "num_groups", 0);
    if (image.rank < 3 || (image.batch & ~1u) || groups < 1 || image.dim[1] % groups)
        return sl_onnx_lower_refuse(l, "groups do not divide the channels of the image");
    if (strcmp(row->op, "GroupNormalization") == 0 && l->file->opset < 21)
        return sl_onnx_lower_refuse(
            l, "before operator set 21 it scales whole groups; export with 21");
    sl_graph_shape_set(&rows, 0, sl_graph_shape_dim(&image, 0));
    rows.dim[1] = groups;
    rows.dim[2] = sl_graph_shape_product(&image, 1, image.rank).n / groups;
    one.dim[0] = rows.dim[2];
    SL_TRY(sl_onnx_emit_reshape(l, x, &rows, &in[0]));
    SL_TRY(sl_onnx_emit_filled(l, &one, 1, &in[1]));
    SL_TRY(sl_onnx_emit_open(l, &e, row->ours));
    sl_onnx_emit_float(&e, "eps", sl_proto_attr_float(l->node, "epsilon", 1e-5));
    SL_TRY(sl_onnx_emit(l, &e, 2, in, &x));
    SL_TRY(sl_onnx_emit_reshape(l, x, &image, &in[0]));
    SL_TRY(per_channel(l, 1, &image, &in[1]));
    SL_TRY(sl_onnx_emit_plain(l, "mul", 2, in, &in[0]));
    SL_TRY(per_channel(l, 2, &image, &in[1]));
    SL_TRY(sl_onnx_emit_plain(l, "add", 2, in, &in[0]));
    sl_onnx_lower_out(l, 0, in[0], SL_ONNX_FLOAT);
    return SL_OK;
}
