/* Lowers losses of the file: cross entropy and negative log likelihood, with weights of classes,
 * an ignored class and every reduction.
 *
 *   x [N,C,d...]   targets [N,d...]   weights [C]   loss: one, or [N,d...] */
#include "onnx/map.h"

/* Moves the classes of x to the last axis. */
static sl_err classes_last(struct sl_onnx_lower *l, int x, int *out) {
    int perm[SL_MAX_RANK], count = 0, rank = sl_onnx_lower_shape(l, x)->rank;
    if (rank < 2)
        return sl_onnx_lower_refuse(l, "an axis of classes is needed");
    for (int i = 0; i < rank; i++)
        if (i != 1)
            perm[count++] = i;
    perm[rank - 1] = 1;
    return sl_onnx_emit_transpose(l, x, perm, out);
}

/* Replaces ignored targets by a class that does not exist, so that their row of one_hot is 0. */
static sl_err without_ignored(struct sl_onnx_lower *l, int64_t classes, int *targets) {
    int in[3] = {-1, -1, *targets}, number[2];
    if (!sl_proto_attr(l->node, "ignore_index"))
        return SL_OK;
    double values[2] = {(double)sl_proto_attr_int(l->node, "ignore_index", 0), (double)classes};
    for (int i = 0; i < 2; i++) {
        SL_TRY(sl_onnx_emit_filled(l, &(struct sl_shape){0}, values[i], &number[i]));
        SL_TRY(sl_onnx_emit_plain(l, "to_int", 1, &number[i], &number[i]));
    }
    SL_TRY(sl_onnx_emit_plain(l, "equal", 2, (int[]){*targets, number[0]}, &in[0]));
    in[1] = number[1];
    return sl_onnx_emit_plain(l, "where", 3, in, targets);
}

static sl_err sum_of(struct sl_onnx_lower *l, int x, bool all, int *out) {
    struct sl_onnx_emit e;
    int64_t axes[] = {-1};
    SL_TRY(sl_onnx_emit_open(l, &e, "reduce_sum"));
    sl_onnx_emit_ints(&e, "axes", all ? 0 : 1, axes);
    return sl_onnx_emit(l, &e, 1, &x, out);
}

/* Composes the loss of ops. x: logarithms of probabilities with the classes last. */
static sl_err composed(struct sl_onnx_lower *l, int x, int targets, int *out) {
    struct sl_onnx_emit e;
    int64_t classes = sl_graph_shape_dim(sl_onnx_lower_shape(l, x), -1).n;
    int hot, weights, total;
    SL_TRY(without_ignored(l, classes, &targets));
    SL_TRY(sl_onnx_emit_open(l, &e, "one_hot"));
    sl_onnx_emit_int(&e, "size", classes);
    SL_TRY(sl_onnx_emit(l, &e, 1, &targets, &hot));
    if (sl_onnx_lower_has(l, 2)) {
        sl_onnx_lower_val(l, 2)->is_param = false;
        SL_TRY(sl_onnx_lower_in(l, 2, &weights));
        SL_TRY(sl_onnx_emit_plain(l, "mul", 2, (int[]){hot, weights}, &hot));
    }
    SL_TRY(sl_onnx_emit_plain(l, "mul", 2, (int[]){hot, x}, &x));
    SL_TRY(sl_onnx_emit_scale(l, x, -1, &x));
    bool none = sl_proto_attr_is(l->node, "reduction", "none", false);
    SL_TRY(sum_of(l, x, !none, out));
    if (none || sl_proto_attr_is(l->node, "reduction", "sum", false))
        return SL_OK;
    SL_TRY(sum_of(l, hot, true, &total));
    return sl_onnx_emit_plain(l, "div", 2, (int[]){*out, total}, out);
}

static bool is_mean(struct sl_onnx_lower *l) {
    return sl_proto_attr_is(l->node, "reduction", "mean", true) && !sl_onnx_lower_has(l, 2);
}

sl_err sl_onnx_map_cross_entropy(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    struct sl_onnx_emit e;
    int in[2], perm[SL_MAX_RANK], y, logs;
    (void)row;
    SL_TRY(sl_onnx_lower_float(l, 0, &in[0]));
    SL_TRY(sl_onnx_lower_in(l, 1, &in[1]));
    SL_TRY(classes_last(l, in[0], &in[0]));
    SL_TRY(sl_onnx_emit_plain(l, "log_softmax", 1, &in[0], &logs));
    if (is_mean(l)) {
        SL_TRY(sl_onnx_emit_open(l, &e, "cross_entropy"));
        sl_onnx_emit_int(&e, "ignore", sl_proto_attr_int(l->node, "ignore_index", -100));
        SL_TRY(sl_onnx_emit(l, &e, 2, in, &y));
    } else {
        SL_TRY(composed(l, logs, in[1], &y));
    }
    sl_onnx_lower_out(l, 0, y, SL_ONNX_FLOAT);
    int rank = sl_onnx_lower_shape(l, in[0])->rank;
    for (int i = 0; i < rank; i++)
        perm[i] = i == 0 ? 0 : i == 1 ? rank - 1 : i - 1;
    SL_TRY(sl_onnx_emit_transpose(l, logs, perm, &logs));
    sl_onnx_lower_out(l, 1, logs, SL_ONNX_FLOAT);
    return SL_OK;
}

sl_err sl_onnx_map_nll(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    struct sl_onnx_emit e;
    int in[2], y;
    (void)row;
    SL_TRY(sl_onnx_lower_float(l, 0, &in[0]));
    SL_TRY(sl_onnx_lower_in(l, 1, &in[1]));
    SL_TRY(classes_last(l, in[0], &in[0]));
    if (is_mean(l)) {
        SL_TRY(sl_onnx_emit_open(l, &e, "nll"));
        sl_onnx_emit_int(&e, "ignore", sl_proto_attr_int(l->node, "ignore_index", -100));
        SL_TRY(sl_onnx_emit(l, &e, 2, in, &y));
    } else {
        SL_TRY(composed(l, in[0], in[1], &y));
    }
    sl_onnx_lower_out(l, 0, y, SL_ONNX_FLOAT);
    return SL_OK;
}
