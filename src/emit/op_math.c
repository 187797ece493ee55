/* Exports arithmetic, activations, reductions, products and losses. */
#include "emit/ops.h"

void sl_emit_op_same(struct sl_emit *o, const char *onnx) {
    const char *in[SL_MAX_IN];
    for (int i = 0; i < o->node->in_count; i++)
        in[i] = sl_emit_in(o, i);
    sl_emit_set(o, 0, sl_emit_put(o, onnx, o->node->in_count, in));
}

void sl_emit_op_by(struct sl_emit *o, const char *onnx) {
    const char *by = sl_emit_put_number(o, sl_emit_attr(o, "by")->f);
    sl_emit_set(o, 0, SL_EMIT_PUT(o, onnx, sl_emit_in(o, 0), by));
}

/* For ops whose only attribute is ONNX's alpha. */
void sl_emit_op_alpha(struct sl_emit *o, const char *onnx) {
    sl_emit_with_float(o, "alpha", o->node->attr[0].f);
    sl_emit_op_same(o, onnx);
}

void sl_emit_op_clamp(struct sl_emit *o, const char *onnx) {
    const char *min = sl_emit_put_number(o, sl_emit_attr(o, "min")->f);
    const char *max = sl_emit_put_number(o, sl_emit_attr(o, "max")->f);
    sl_emit_set(o, 0, SL_EMIT_PUT(o, onnx, sl_emit_in(o, 0), min, max));
}

void sl_emit_op_compare(struct sl_emit *o, const char *onnx) {
    const char *y = SL_EMIT_PUT(o, onnx, sl_emit_in(o, 0), sl_emit_in(o, 1));
    sl_emit_set(o, 0, sl_emit_put_cast(o, y, SL_EMIT_TO_INT));
}

void sl_emit_op_logic(struct sl_emit *o, const char *onnx) {
    const char *in[2];
    for (int i = 0; i < o->node->in_count; i++)
        in[i] = sl_emit_put_cast(o, sl_emit_in(o, i), SL_EMIT_TO_BOOL);
    const char *y = sl_emit_put(o, onnx, o->node->in_count, in);
    sl_emit_set(o, 0, sl_emit_put_cast(o, y, SL_EMIT_TO_INT));
}

void sl_emit_op_cast(struct sl_emit *o, const char *onnx) {
    enum sl_dtype to = sl_graph_value(o->graph, o->node->out[0])->dtype;
    (void)onnx;
    sl_emit_set(
        o, 0,
        sl_emit_put_cast(o, sl_emit_in(o, 0), to == SL_INT ? SL_EMIT_TO_INT : SL_EMIT_TO_FLOAT));
}

void sl_emit_op_where(struct sl_emit *o, const char *onnx) {
    const char *cond = sl_emit_put_cast(o, sl_emit_in(o, 0), SL_EMIT_TO_BOOL);
    sl_emit_set(o, 0, SL_EMIT_PUT(o, onnx, cond, sl_emit_in(o, 1), sl_emit_in(o, 2)));
}

void sl_emit_op_gelu(struct sl_emit *o, const char *onnx) {
    bool erf = sl_emit_attr(o, "approx")->i != 0; /* tanh|erf */
    sl_emit_with_text(o, "approximate", erf ? "none" : "tanh");
    sl_emit_op_same(o, onnx);
}

void sl_emit_op_silu(struct sl_emit *o, const char *onnx) {
    const char *x = sl_emit_in(o, 0);
    (void)onnx;
    sl_emit_set(o, 0, SL_EMIT_PUT(o, "Mul", x, SL_EMIT_PUT(o, "Sigmoid", x)));
}

void sl_emit_op_rsqrt(struct sl_emit *o, const char *onnx) {
    (void)onnx;
    sl_emit_set(o, 0, SL_EMIT_PUT(o, "Reciprocal", SL_EMIT_PUT(o, "Sqrt", sl_emit_in(o, 0))));
}

/* Computes log1p. With u = 1 + x rounded: x log(u) / (u - 1), which is accurate where log(u)
 * alone loses x; and x if u = 1 (Higham, Accuracy and Stability of Numerical Algorithms, section
 * 1.14.1). */
void sl_emit_op_log1p(struct sl_emit *o, const char *onnx) {
    const char *x = sl_emit_in(o, 0), *one = sl_emit_put_number(o, 1);
    const char *u = SL_EMIT_PUT(o, "Add", x, one), *rest = SL_EMIT_PUT(o, "Sub", u, one);
    const char *tiny = SL_EMIT_PUT(o, "Equal", u, one);
    const char *safe = SL_EMIT_PUT(o, "Where", tiny, one, rest);
    const char *log = SL_EMIT_PUT(o, "Log", u), *big = sl_emit_put_number(o, 1e6);
    const char *y = SL_EMIT_PUT(o, "Mul", SL_EMIT_PUT(o, "Div", x, safe), log);
    (void)onnx;
    y = SL_EMIT_PUT(o, "Where", tiny, x, y);
    sl_emit_set(o, 0, SL_EMIT_PUT(o, "Where", SL_EMIT_PUT(o, "Greater", x, big), log, y));
}

void sl_emit_op_softmax(struct sl_emit *o, const char *onnx) {
    sl_emit_with_int(o, "axis", -1);
    sl_emit_op_same(o, onnx);
}

/* ---- reductions ---- */

void sl_emit_op_reduce(struct sl_emit *o, const char *onnx) {
    sl_emit_set(o, 0,
                sl_emit_put_reduce(o, onnx, sl_emit_in(o, 0), &sl_emit_attr(o, "axes")->ints,
                                   sl_emit_attr(o, "keep")->i != 0));
}

void sl_emit_op_var(struct sl_emit *o, const char *onnx) {
    const struct sl_ints *axes = &sl_emit_attr(o, "axes")->ints;
    const char *x = sl_emit_in(o, 0), *mean = sl_emit_put_reduce(o, "ReduceMean", x, axes, true);
    const char *off = SL_EMIT_PUT(o, "Sub", x, mean), *square = SL_EMIT_PUT(o, "Mul", off, off);
    const char *y =
        sl_emit_put_reduce(o, "ReduceMean", square, axes, sl_emit_attr(o, "keep")->i != 0);
    int64_t correction = sl_emit_attr(o, "correction")->i;
    double count = 1;
    bool batch = false;
    (void)onnx;
    for (int i = 0; i < axes->count; i++) {
        struct sl_dim size = sl_graph_shape_dim(sl_emit_shape(o, 0), (int)axes->at[i]);
        count *= (double)size.n;
        batch |= size.batch;
    }
    if (correction && batch)
        sl_emit_refuse(o, "a correction of the variance over the batch");
    if (correction)
        y = SL_EMIT_PUT(o, "Mul", y, sl_emit_put_number(o, count / (count - (double)correction)));
    sl_emit_set(o, 0, y);
}

void sl_emit_op_arg(struct sl_emit *o, const char *onnx) {
    sl_emit_with_int(o, "axis", sl_emit_attr(o, "axis")->i);
    sl_emit_with_int(o, "keepdims", sl_emit_attr(o, "keep")->i);
    sl_emit_op_same(o, onnx);
}

void sl_emit_op_cumsum(struct sl_emit *o, const char *onnx) {
    const char *axis = sl_emit_put_int(o, sl_emit_attr(o, "axis")->i);
    sl_emit_with_int(o, "exclusive", sl_emit_attr(o, "exclusive")->i);
    sl_emit_with_int(o, "reverse", sl_emit_attr(o, "reverse")->i);
    sl_emit_set(o, 0, SL_EMIT_PUT(o, onnx, sl_emit_in(o, 0), axis));
}

void sl_emit_op_topk(struct sl_emit *o, const char *onnx) {
    const char *in[2] = {sl_emit_in(o, 0), sl_emit_put_int(o, sl_emit_attr(o, "k")->i)};
    const char *out[2] = {NULL, NULL};
    sl_emit_with_int(o, "axis", sl_emit_attr(o, "axis")->i);
    sl_emit_with_int(o, "largest", sl_emit_attr(o, "largest")->i);
    sl_emit_put_many(o, onnx, (struct sl_emit_names){2, in}, (struct sl_emit_names){2, out});
    sl_emit_set(o, 0, out[0]);
    sl_emit_set(o, 1, out[1]);
}

/* ---- products ---- */

/* Exchanges the last two axes, if `turn`. */
static const char *turned(struct sl_emit *o, int input, bool turn) {
    int rank = sl_emit_shape(o, input)->rank;
    int64_t perm[SL_MAX_RANK];
    for (int i = 0; i < rank; i++)
        perm[i] = i < rank - 2 ? i : 2 * rank - 3 - i;
    return turn ? sl_emit_put_turned(o, sl_emit_in(o, input), rank, perm) : sl_emit_in(o, input);
}

void sl_emit_op_matmul(struct sl_emit *o, const char *onnx) {
    bool ta = sl_emit_attr(o, "ta")->i != 0, tb = sl_emit_attr(o, "tb")->i != 0;
    bool flat = sl_emit_shape(o, 0)->rank == 2 && sl_emit_shape(o, 1)->rank == 2;
    if (flat && (ta || tb || sl_emit_has(o, 2))) {
        sl_emit_with_int(o, "transA", ta);
        sl_emit_with_int(o, "transB", tb);
        sl_emit_op_same(o, "Gemm");
        return;
    }
    const char *a = turned(o, 0, ta), *b = turned(o, 1, tb);
    const char *y = SL_EMIT_PUT(o, onnx, a, b);
    if (sl_emit_has(o, 2))
        y = SL_EMIT_PUT(o, "Add", y, sl_emit_in(o, 2));
    sl_emit_set(o, 0, y);
}

/* ---- losses that are outputs ---- */

static void put_mean(struct sl_emit *o, const char *terms) {
    sl_emit_with_int(o, "keepdims", 0);
    sl_emit_set(o, 0, SL_EMIT_PUT(o, "ReduceMean", terms));
}

void sl_emit_op_mse(struct sl_emit *o, const char *onnx) {
    const char *off = SL_EMIT_PUT(o, "Sub", sl_emit_in(o, 0), sl_emit_in(o, 1));
    (void)onnx;
    put_mean(o, SL_EMIT_PUT(o, "Mul", off, off));
}

void sl_emit_op_l1(struct sl_emit *o, const char *onnx) {
    const char *off = SL_EMIT_PUT(o, "Sub", sl_emit_in(o, 0), sl_emit_in(o, 1));
    (void)onnx;
    put_mean(o, SL_EMIT_PUT(o, "Abs", off));
}

/* Flattens to rows of classes, because ONNX has the classes on axis 1. */
void sl_emit_op_cross_entropy(struct sl_emit *o, const char *onnx) {
    const struct sl_shape *x = sl_emit_shape(o, 0);
    int64_t classes = sl_graph_shape_dim(x, -1).n;
    if (sl_emit_attr(o, "smoothing")->f != 0 || sl_emit_is_read(o, 1))
        sl_emit_refuse(o, "a smoothed loss");
    const char *to[2] = {sl_emit_put_ints(o, 2, (int64_t[]){-1, classes}), sl_emit_put_int(o, -1)};
    const char *rows = SL_EMIT_PUT(o, "Reshape", sl_emit_in(o, 0), to[0]);
    const char *targets = SL_EMIT_PUT(o, "Reshape", sl_emit_in(o, 1), to[1]);
    sl_emit_with_int(o, "ignore_index", sl_emit_attr(o, "ignore")->i);
    sl_emit_with_text(o, "reduction", "mean");
    sl_emit_set(o, 0, SL_EMIT_PUT(o, onnx, rows, targets));
}
