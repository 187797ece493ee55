/* Lowers layers: normalisation, global pooling, activations with an attribute. */
#include "onnx/map.h"

#include <math.h>

sl_err sl_onnx_map_global_pool(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    struct sl_onnx_emit e;
    int64_t axes[SL_MAX_RANK];
    int x, count = 0;
    SL_TRY(sl_onnx_lower_in(l, 0, &x));
    for (int i = 2; i < sl_onnx_lower_shape(l, x)->rank; i++)
        axes[count++] = i;
    if (count == 0)
        return sl_onnx_lower_refuse(l, "an image is needed");
    SL_TRY(sl_onnx_emit_open(l, &e, row->ours));
    sl_onnx_emit_ints(&e, "axes", count, axes);
    sl_onnx_emit_int(&e, "keep", 1);
    SL_TRY(sl_onnx_emit(l, &e, 1, &x, &x));
    sl_onnx_lower_out(l, 0, x, SL_ONNX_FLOAT);
    return SL_OK;
}

/* ---- normalisation ---- */

/* BatchNormalization: exported for evaluation, the statistics are fixed; exported for training,
 * they are running ones. */
sl_err sl_onnx_map_batchnorm(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    struct sl_onnx_emit e;
    int in[5], y;
    bool training = sl_proto_attr_int(l->node, "training_mode", 0) != 0;
    (void)row;
    for (int i = 0; i < 5; i++) {
        struct sl_onnx_val *val = sl_onnx_lower_val(l, i);
        if (val && i >= 3)
            val->is_param = false;
        SL_TRY(sl_onnx_lower_in(l, i, &in[i]));
    }
    for (int i = 1; training && i < l->node->out_count && i < 3; i++) {
        struct sl_onnx_val *val = sl_onnx_lower_named(l, l->node->out[i]);
        if (val && val->readers)
            return sl_onnx_lower_refuse(l,
                                        "the new running statistics are no tensors of the graph");
    }
    SL_TRY(sl_onnx_emit_open(l, &e, training ? "batchnorm" : "batchnorm_eval"));
    sl_onnx_emit_float(&e, "eps", sl_proto_attr_float(l->node, "epsilon", 1e-5));
    sl_onnx_emit_float(&e, "momentum", 1 - sl_proto_attr_float(l->node, "momentum", 0.9));
    SL_TRY(sl_onnx_emit(l, &e, 5, in, &y));
    sl_onnx_lower_out(l, 0, y, SL_ONNX_FLOAT);
    return SL_OK;
}

/* Merges the axes from `axis` on into one last axis. */
static sl_err rows_from(struct sl_onnx_lower *l, int x, int axis, int *out) {
    struct sl_shape in = *sl_onnx_lower_shape(l, x), shape = {.rank = axis ? axis : 1, .dim = {1}};
    for (int i = 0; i < axis; i++)
        sl_graph_shape_set(&shape, i, sl_graph_shape_dim(&in, i));
    struct sl_dim rest = sl_graph_shape_product(&in, axis, in.rank);
    if (rest.batch)
        return sl_onnx_lower_refuse(l, "normalisation over the batch");
    sl_graph_shape_set(&shape, shape.rank++, rest);
    return sl_onnx_emit_reshape(l, x, &shape, out);
}

/* Sets the outputs after the first: the mean of every row of x, and 1 / sqrt(variance + eps). */
static sl_err put_moments(struct sl_onnx_lower *l, int x, struct sl_shape shape, int axis,
                          double eps) {
    int64_t last = sl_onnx_lower_shape(l, x)->rank - 1;
    int y;
    for (int k = axis; k < shape.rank; k++)
        sl_graph_shape_set(&shape, k, (struct sl_dim){1, false});
    for (int i = 1; i < l->node->out_count && i < 3; i++) {
        struct sl_onnx_emit e;
        SL_TRY(sl_onnx_emit_open(l, &e, i == 1 ? "reduce_mean" : "reduce_var"));
        sl_onnx_emit_ints(&e, "axes", 1, &last);
        SL_TRY(sl_onnx_emit(l, &e, 1, &x, &y));
        if (i == 2) {
            SL_TRY(sl_onnx_emit_by(l, "offset", y, eps, &y));
            SL_TRY(sl_onnx_emit_plain(l, "rsqrt", 1, &y, &y));
        }
        SL_TRY(sl_onnx_emit_reshape(l, y, &shape, &y));
        sl_onnx_lower_out(l, i, y, SL_ONNX_FLOAT);
    }
    return SL_OK;
}

static sl_err normalise(struct sl_onnx_lower *l, const char *op, const char *eps, int inputs) {
    struct sl_onnx_emit e;
    int in[3] = {-1, -1, -1}, y, axis;
    SL_TRY(sl_onnx_lower_in(l, 0, &in[0]));
    struct sl_shape whole = *sl_onnx_lower_shape(l, in[0]);
    SL_TRY(sl_onnx_lower_axis(l, sl_proto_attr_int(l->node, "axis", -1), whole.rank, &axis));
    SL_TRY(rows_from(l, in[0], axis, &in[0]));
    SL_TRY(put_moments(l, in[0], whole, axis, sl_proto_attr_float(l->node, eps, 1e-5)));
    struct sl_shape want = {.rank = 1};
    sl_graph_shape_set(&want, 0, sl_graph_shape_dim(sl_onnx_lower_shape(l, in[0]), -1));
    for (int i = 1; i < inputs; i++)
        if (sl_onnx_lower_has(l, i)) {
            SL_TRY(sl_onnx_lower_in(l, i, &in[i]));
            if (sl_graph_shape_numel(sl_onnx_lower_shape(l, in[i]), 1) != want.dim[0])
                return sl_onnx_lower_refuse(l, "input %d has not one element per feature", i);
            SL_TRY(sl_onnx_emit_reshape(l, in[i], &want, &in[i]));
        }
    SL_TRY(sl_onnx_emit_open(l, &e, op));
    sl_onnx_emit_float(&e, "eps", sl_proto_attr_float(l->node, eps, 1e-5));
    SL_TRY(sl_onnx_emit(l, &e, in[2] >= 0 ? 3 : 2, in, &y));
    SL_TRY(sl_onnx_emit_reshape(l, y, &whole, &y));
    sl_onnx_lower_out(l, 0, y, SL_ONNX_FLOAT);
    return SL_OK;
}

sl_err sl_onnx_map_layernorm(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    return normalise(l, row->ours, "epsilon", 3);
}

sl_err sl_onnx_map_rmsnorm(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    return normalise(l, row->ours, "epsilon", 2);
}

sl_err sl_onnx_map_gelu(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    struct sl_onnx_emit e;
    int x;
    SL_TRY(sl_onnx_lower_in(l, 0, &x));
    SL_TRY(sl_onnx_emit_open(l, &e, row->ours));
    sl_onnx_emit_choice(&e, "approx",
                        sl_proto_attr_is(l->node, "approximate", "tanh", false) ? "tanh" : "erf");
    SL_TRY(sl_onnx_emit(l, &e, 1, &x, &x));
    sl_onnx_lower_out(l, 0, x, SL_ONNX_FLOAT);
    return SL_OK;
}
