/* Exports layers: convolutions, pooling, norms, recurrent layers. */
#include "emit/ops.h"

#include <stdlib.h>

/* Writes an attribute of two values for both ends of both directions. */
static void with_pads(struct sl_emit *o, const struct sl_ints *pad) {
    sl_emit_with_ints(o, "pads", 4, (int64_t[]){pad->at[0], pad->at[1], pad->at[0], pad->at[1]});
}

void sl_emit_op_conv(struct sl_emit *o, const char *onnx) {
    const struct sl_shape *w = sl_emit_shape(o, 1);
    int out_pad = sl_graph_op_find_attr(o->node->op, SL_STR("out_pad"));
    sl_emit_with_ints(o, "kernel_shape", 2, &w->dim[2]);
    sl_emit_with_ints(o, "strides", 2, sl_emit_attr(o, "stride")->ints.at);
    sl_emit_with_ints(o, "dilations", 2, sl_emit_attr(o, "dilation")->ints.at);
    sl_emit_with_int(o, "group", sl_emit_attr(o, "groups")->i);
    if (out_pad >= 0)
        sl_emit_with_ints(o, "output_padding", 2, o->node->attr[out_pad].ints.at);
    with_pads(o, &sl_emit_attr(o, "pad")->ints);
    sl_emit_op_same(o, onnx);
}

void sl_emit_op_pool(struct sl_emit *o, const char *onnx) {
    int counts = sl_graph_op_find_attr(o->node->op, SL_STR("count_include_pad"));
    if (o->node->out_count > 1 && sl_emit_is_read(o, 1))
        sl_emit_refuse(o, "the places of its maxima are read");
    sl_emit_with_ints(o, "kernel_shape", 2, sl_emit_attr(o, "kernel")->ints.at);
    sl_emit_with_ints(o, "strides", 2, sl_emit_attr(o, "stride")->ints.at);
    with_pads(o, &sl_emit_attr(o, "pad")->ints);
    if (counts >= 0)
        sl_emit_with_int(o, "count_include_pad", o->node->attr[counts].i);
    sl_emit_op_same(o, onnx);
}

void sl_emit_op_global_pool(struct sl_emit *o, const char *onnx) {
    const char *mean = SL_EMIT_PUT(o, onnx, sl_emit_in(o, 0));
    sl_emit_set(o, 0, sl_emit_put_shaped(o, mean, sl_emit_result(o, 0)));
}

/* Returns the matrix that averages `size` pixels into `bins` bins: [bins, size], or [size,
 * bins]. */
static const char *put_shares(struct sl_emit *o, int64_t bins, int64_t size, bool turned) {
    float *share = calloc((size_t)(bins * size), sizeof *share);
    if (!share)
        sl_out_of_memory(sizeof *share * (size_t)(bins * size));
    for (int64_t i = 0; i < bins; i++) {
        int64_t from = i * size / bins, to = ((i + 1) * size + bins - 1) / bins;
        for (int64_t k = from; k < to; k++)
            share[turned ? k * bins + i : i * size + k] = 1 / (float)(to - from);
    }
    const char *name =
        sl_emit_put_table(o, 2, turned ? (int64_t[]){size, bins} : (int64_t[]){bins, size}, share);
    free(share);
    return name;
}

/* Equal bins become average pooling; others become means along both directions, that is, two
 * products. */
void sl_emit_op_adaptive_pool(struct sl_emit *o, const char *onnx) {
    const int64_t *in = sl_emit_shape(o, 0)->dim, *out = sl_emit_result(o, 0)->dim;
    if (in[2] % out[2] == 0 && in[3] % out[3] == 0) {
        const int64_t size[2] = {in[2] / out[2], in[3] / out[3]};
        sl_emit_with_ints(o, "kernel_shape", 2, size);
        sl_emit_with_ints(o, "strides", 2, size);
        sl_emit_op_same(o, onnx);
        return;
    }
    const char *rows = put_shares(o, out[2], in[2], false);
    const char *columns = put_shares(o, out[3], in[3], true);
    const char *half = SL_EMIT_PUT(o, "MatMul", rows, sl_emit_in(o, 0));
    sl_emit_set(o, 0, SL_EMIT_PUT(o, "MatMul", half, columns));
}

void sl_emit_op_upsample(struct sl_emit *o, const char *onnx) {
    const int64_t *factor = sl_emit_attr(o, "factor")->ints.at;
    const float scales[4] = {1, 1, (float)factor[0], (float)factor[1]};
    const char *by = sl_emit_put_table(o, 1, (int64_t[]){4}, scales);
    sl_emit_with_text(o, "mode", "nearest");
    sl_emit_with_text(o, "coordinate_transformation_mode", "asymmetric");
    sl_emit_with_text(o, "nearest_mode", "floor");
    sl_emit_set(o, 0, SL_EMIT_PUT(o, onnx, sl_emit_in(o, 0), "", by));
}

/* ---- norms ---- */

void sl_emit_op_batchnorm(struct sl_emit *o, const char *onnx) {
    sl_emit_with_float(o, "epsilon", sl_emit_attr(o, "eps")->f);
    sl_emit_op_same(o, onnx);
}

void sl_emit_op_layernorm(struct sl_emit *o, const char *onnx) {
    if (sl_emit_is_read(o, 1) || sl_emit_is_read(o, 2))
        sl_emit_refuse(o, "its mean is read");
    sl_emit_with_int(o, "axis", -1);
    sl_emit_with_float(o, "epsilon", sl_emit_attr(o, "eps")->f);
    sl_emit_op_same(o, onnx);
}

void sl_emit_op_rmsnorm(struct sl_emit *o, const char *onnx) {
    const struct sl_ints last = {.count = 1, .at = {-1}};
    const char *x = sl_emit_in(o, 0), *two = sl_emit_put_number(o, 2);
    const char *eps = sl_emit_put_number(o, sl_emit_attr(o, "eps")->f);
    const char *mean =
        sl_emit_put_reduce(o, "ReduceMean", SL_EMIT_PUT(o, "Pow", x, two), &last, true);
    const char *root = SL_EMIT_PUT(o, "Sqrt", SL_EMIT_PUT(o, "Add", mean, eps));
    const char *y = SL_EMIT_PUT(o, "Mul", x, SL_EMIT_PUT(o, "Reciprocal", root));
    (void)onnx;
    if (sl_emit_has(o, 1))
        y = SL_EMIT_PUT(o, "Mul", y, sl_emit_in(o, 1));
    sl_emit_set(o, 0, y);
}

/* Reshapes w or b, one number per channel, so that it broadcasts to [B,C,...]. */
static const char *put_channels(struct sl_emit *o, int input) {
    struct sl_shape shape = {.rank = sl_emit_shape(o, 0)->rank - 1};
    for (int i = 0; i < shape.rank; i++)
        shape.dim[i] = i ? 1 : sl_emit_shape(o, 0)->dim[1];
    return sl_emit_put_shaped(o, sl_emit_in(o, input), &shape);
}

static const char *put_filled(struct sl_emit *o, int64_t count, float value) {
    float *values = sl_realloc(NULL, sizeof *values * (size_t)count);
    for (int64_t i = 0; i < count; i++)
        values[i] = value;
    const char *name = sl_emit_put_table(o, 1, &count, values);
    free(values);
    return name;
}

/* Exports each group as a separate instance, because GroupNormalization of operator sets below 21
 * has a scale per group. */
void sl_emit_op_groupnorm(struct sl_emit *o, const char *onnx) {
    const struct sl_shape *x = sl_emit_shape(o, 0);
    int64_t groups = sl_emit_attr(o, "groups")->i, each = 1;
    (void)onnx;
    if (sl_emit_is_read(o, 1) || sl_emit_is_read(o, 2))
        sl_emit_refuse(o, "its mean is read");
    for (int i = 1; i < x->rank; i++)
        each *= x->dim[i];
    const struct sl_shape apart = SL_SHAPE(3, x->batch & 1u, x->dim[0], groups, each / groups);
    const char *y = sl_emit_put_shaped(o, sl_emit_in(o, 0), &apart);
    const char *one = put_filled(o, groups, 1), *zero = put_filled(o, groups, 0);
    sl_emit_with_float(o, "epsilon", sl_emit_attr(o, "eps")->f);
    y = sl_emit_put_shaped(o, SL_EMIT_PUT(o, "InstanceNormalization", y, one, zero), x);
    if (sl_emit_has(o, 1))
        y = SL_EMIT_PUT(o, "Mul", y, put_channels(o, 1));
    if (sl_emit_has(o, 2))
        y = SL_EMIT_PUT(o, "Add", y, put_channels(o, 2));
    sl_emit_set(o, 0, y);
}

/* ---- recurrent layers: x [B,T,I] -> y [B,T,H] ---- */

enum { X, W_IH, W_HH, BIAS_IH, BIAS_HH, H0, C0 };

/* Reorders the gates as in ONNX: i, o, f, c for i, f, g, o; z, r, h for r, z, n. */
static const char *put_gates(struct sl_emit *o, int input, int64_t parts) {
    static const int order[5][4] = {[1] = {0}, [3] = {1, 0, 2}, [4] = {0, 3, 1, 2}};
    const char *part[4];
    int64_t size = sl_emit_shape(o, W_HH)->dim[1];
    if (!sl_emit_has(o, input))
        return put_filled(o, parts * size, 0);
    for (int64_t i = 0; i < parts; i++)
        part[i] = sl_emit_put_slice(o, sl_emit_in(o, input), 0, order[parts][i] * size,
                                    (order[parts][i] + 1) * size);
    if (parts == 1)
        return sl_emit_in(o, input);
    sl_emit_with_int(o, "axis", 0);
    return sl_emit_put(o, "Concat", (int)parts, part);
}

/* Adds a first axis, for directions. */
static const char *put_direction(struct sl_emit *o, const char *x) {
    return SL_EMIT_PUT(o, "Unsqueeze", x, sl_emit_put_int(o, 0));
}

static const char *put_bias(struct sl_emit *o, int64_t parts) {
    const char *of_x, *of_h;
    if (!sl_emit_has(o, BIAS_IH) && !sl_emit_has(o, BIAS_HH))
        return "";
    of_x = put_gates(o, BIAS_IH, parts);
    of_h = put_gates(o, BIAS_HH, parts);
    sl_emit_with_int(o, "axis", 0);
    return put_direction(o, SL_EMIT_PUT(o, "Concat", of_x, of_h));
}

static const char *put_state(struct sl_emit *o, int input) {
    return sl_emit_has(o, input) ? put_direction(o, sl_emit_in(o, input)) : "";
}

static void put_recurrent(struct sl_emit *o, const char *onnx, int64_t parts,
                          const char *activation) {
    const struct sl_shape *y = sl_emit_result(o, 0);
    for (int i = 1; i < o->node->out_count; i++)
        if (sl_emit_is_read(o, i))
            sl_emit_refuse(o, "its state after every step is read, which ONNX does not give");
    const char *in[7] = {sl_emit_put_turned(o, sl_emit_in(o, X), 3, (int64_t[]){1, 0, 2})};
    in[1] = put_direction(o, put_gates(o, W_IH, parts));
    in[2] = put_direction(o, put_gates(o, W_HH, parts));
    in[3] = put_bias(o, parts);
    in[4] = ""; /* no lengths of sequences */
    in[5] = put_state(o, H0);
    in[6] = put_state(o, C0);
    sl_emit_with_int(o, "hidden_size", y->dim[2]);
    if (parts == 3)
        sl_emit_with_int(o, "linear_before_reset", 1);
    if (activation)
        sl_emit_with_texts(o, "activations", activation);
    const char *all = sl_emit_put(o, onnx, parts == 4 ? 7 : 6, in); /* [T,1,B,H] */
    const char *turned = sl_emit_put_turned(o, all, 4, (int64_t[]){2, 0, 1, 3});
    sl_emit_set(o, 0, sl_emit_put_shaped(o, turned, y));
}

void sl_emit_op_recurrent(struct sl_emit *o, const char *onnx) {
    int64_t parts = sl_emit_shape(o, W_HH)->dim[0] / sl_emit_shape(o, W_HH)->dim[1];
    put_recurrent(o, onnx, parts, NULL);
}

void sl_emit_op_rnn(struct sl_emit *o, const char *onnx) {
    put_recurrent(o, onnx, 1, sl_emit_attr(o, "act")->i ? "Relu" : "Tanh");
}
