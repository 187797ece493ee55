/* LSTM, GRU and RNN: one layer, in one or both directions.
 *
 *   ONNX    X [T,B,I]   W [dirs,G H,I]   R [dirs,G H,H]   B [dirs,2 G H]   Y [T,dirs,B,H]
 *   ours    x [B,T,I]   w_ih [G H,I]     w_hh [G H,H]     bias_ih, bias_hh    y [B,T,H]
 *
 * With layout 1 the file has X [B,T,I], Y [B,T,dirs,H] and states [B,dirs,H].
 *
 * The gates in the file have another order: i o f c instead of i f g o, z r h instead of r z n. */
#include "onnx/map.h"

enum { X, W, R, BIAS, LENGTHS, H0, C0, PEEPHOLE };

struct cell {
    const char *op; /* name of our op */
    int gates;
    int order[4];          /* for each of our gates, its position in the file */
    const char *functions; /* activations that the node may state, for one direction */
    int64_t hidden, steps;
    bool lstm, relu, batch_first;
    int dirs;
    bool backward;         /* the first direction reads from the end */
    int x, y[2], state[2]; /* x: [B,T,I]; y, state: [B,T,H] of each direction */
};

/* Takes direction `at` of input `input` as a matrix or vector [size, ...]; directions are the first
 * axis, or `axis`. */
static sl_err direction_of(struct sl_onnx_lower *l, int input, int at, int axis, int *out) {
    SL_TRY(sl_onnx_lower_in(l, input, out));
    struct sl_shape shape = *sl_onnx_lower_shape(l, *out);
    SL_TRY(sl_onnx_emit_slice(l, *out, axis, at, at + 1, out));
    for (int i = axis + 1; i < shape.rank; i++)
        sl_graph_shape_set(&shape, i - 1, sl_graph_shape_dim(&shape, i));
    shape.rank--;
    return sl_onnx_emit_reshape(l, *out, &shape, out);
}

/* Reorders the gates into our order. */
static sl_err reorder(struct sl_onnx_lower *l, const struct cell *c, int64_t from, int *x) {
    struct sl_onnx_emit e;
    int parts[4] = {0};
    for (int g = 0; g < c->gates; g++) {
        int64_t at = from + c->order[g] * c->hidden;
        SL_TRY(sl_onnx_emit_slice(l, *x, 0, at, at + c->hidden, &parts[g]));
    }
    *x = parts[0];
    if (c->gates == 1)
        return SL_OK;
    SL_TRY(sl_onnx_emit_open(l, &e, "concat"));
    sl_onnx_emit_int(&e, "axis", 0);
    return sl_onnx_emit(l, &e, c->gates, parts, x);
}

static bool is_zero(struct sl_onnx_lower *l, int input) {
    const struct sl_onnx_konst *konst = sl_onnx_lower_maybe(l, input);
    double value;
    return konst && sl_onnx_konst_uniform(konst, &value) && value == 0;
}

/* Reverses the time axis of x, if `backward`. */
static sl_err turn(struct sl_onnx_lower *l, bool backward, int *x) {
    struct sl_onnx_emit e;
    if (!backward)
        return SL_OK;
    SL_TRY(sl_onnx_emit_open(l, &e, "flip"));
    sl_onnx_emit_ints(&e, "axes", 1, (int64_t[]){1});
    return sl_onnx_emit(l, &e, 1, x, x);
}

/* Runs one direction. */
static sl_err run(struct sl_onnx_lower *l, struct cell *c, int at) {
    struct sl_onnx_emit e;
    int in[7] = {c->x, -1, -1, -1, -1, -1, -1}, count = 5, bias;
    int *y = &c->y[at], *state = &c->state[at];
    bool backward = at == 1 || c->backward;
    SL_TRY(turn(l, backward, &in[0]));
    for (int i = 0; i < 2; i++) {
        SL_TRY(direction_of(l, W + i, at, 0, &in[1 + i]));
        SL_TRY(reorder(l, c, 0, &in[1 + i]));
    }
    if (sl_onnx_lower_has(l, BIAS)) {
        SL_TRY(direction_of(l, BIAS, at, 0, &bias));
        for (int i = 0; i < 2; i++) {
            in[3 + i] = bias;
            SL_TRY(reorder(l, c, i * c->gates * c->hidden, &in[3 + i]));
        }
    } else {
        SL_TRY(sl_onnx_emit_filled(l, &SL_SHAPE(1, 0, c->gates * c->hidden), 0, &in[3]));
        in[4] = in[3];
    }
    for (int i = 0; i < 1 + c->lstm; i++)
        if (sl_onnx_lower_has(l, H0 + i) && !is_zero(l, H0 + i)) {
            SL_TRY(direction_of(l, H0 + i, at, c->batch_first, &in[5 + i]));
            count = 6 + i;
        }
    SL_TRY(sl_onnx_emit_open(l, &e, c->op));
    if (c->relu)
        sl_onnx_emit_choice(&e, "act", "relu");
    SL_TRY(sl_onnx_emit(l, &e, count, in, y));
    *state = *y + 1;
    SL_TRY(turn(l, backward, y));
    return c->lstm && backward ? turn(l, true, state) : SL_OK;
}

/* Joins [B,T,H] of the directions to [T,dirs,B,H] or [B,T,dirs,H]; the last step has no T. */
static sl_err stack(struct sl_onnx_lower *l, const struct cell *c, const int *y, int output,
                    bool last) {
    static const int order[] = {1, 2, 0, 3};
    struct sl_onnx_emit e;
    int parts[2], out;
    if (output >= l->node->out_count || !*l->node->out[output])
        return SL_OK;
    for (int d = 0; d < c->dirs; d++) {
        bool backward = d == 1 || c->backward;
        parts[d] = y[d];
        if (last)
            SL_TRY(sl_onnx_emit_slice(l, parts[d], 1, backward ? 0 : c->steps - 1,
                                      backward ? 1 : c->steps, &parts[d]));
        struct sl_shape shape = *sl_onnx_lower_shape(l, parts[d]);
        shape.rank = 4;
        sl_graph_shape_set(&shape, 2, (struct sl_dim){1, false});
        sl_graph_shape_set(&shape, 3, (struct sl_dim){c->hidden, false});
        SL_TRY(sl_onnx_emit_reshape(l, parts[d], &shape, &parts[d])); /* [B,T,1,H] */
    }
    out = parts[0];
    if (c->dirs == 2) {
        SL_TRY(sl_onnx_emit_open(l, &e, "concat"));
        sl_onnx_emit_int(&e, "axis", 2);
        SL_TRY(sl_onnx_emit(l, &e, 2, parts, &out));
    }
    if (!c->batch_first)
        SL_TRY(sl_onnx_emit_transpose(l, out, order, &out));
    struct sl_shape shape = *sl_onnx_lower_shape(l, out), thin = {0};
    int time = c->batch_first ? 1 : 0;
    for (int i = 0; i < 4; i++)
        if (i != time)
            sl_graph_shape_set(&thin, thin.rank++, sl_graph_shape_dim(&shape, i));
    if (last)
        SL_TRY(sl_onnx_emit_reshape(l, out, &thin, &out));
    sl_onnx_lower_out(l, output, out, SL_ONNX_FLOAT);
    return SL_OK;
}

/* Refuses options that our ops do not have. */
static sl_err refuse_options(struct sl_onnx_lower *l, const struct cell *c) {
    const struct sl_proto_attr *f = sl_proto_attr(l->node, "activations");
    const char *at = c->functions;
    int count = c->lstm ? 3 : c->gates == 3 ? 2 : 1;
    for (int i = 0; f && i < f->string_count && i < count * c->dirs; i++) {
        at = i % count == 0 ? c->functions : at;
        size_t length = strcspn(at, " ");
        if (f->strings[i].length != length || strncmp(f->strings[i].at, at, length) != 0)
            return sl_onnx_lower_refuse(l, "only the activations %s are supported", c->functions);
        at += length + (at[length] == ' ');
    }
    if (sl_proto_attr(l->node, "clip"))
        return sl_onnx_lower_refuse(l, "'clip' is not supported");
    if (sl_proto_attr_int(l->node, "input_forget", 0))
        return sl_onnx_lower_refuse(l, "'input_forget' is not supported");
    if (c->lstm && sl_onnx_lower_has(l, PEEPHOLE) && !is_zero(l, PEEPHOLE))
        return sl_onnx_lower_refuse(l, "peepholes are not supported");
    if (c->gates == 3 && !sl_proto_attr_int(l->node, "linear_before_reset", 0))
        return sl_onnx_lower_refuse(l, "only linear_before_reset = 1 is supported");
    const struct sl_onnx_konst *lengths = sl_onnx_lower_maybe(l, LENGTHS);
    double length;
    if (sl_onnx_lower_has(l, LENGTHS) &&
        (!lengths || !sl_onnx_konst_uniform(lengths, &length) || length != (double)c->steps))
        return sl_onnx_lower_refuse(l, "sequences of different lengths are not supported");
    return SL_OK;
}

static sl_err recurrent(struct sl_onnx_lower *l, struct cell *c) {
    static const int order[] = {1, 0, 2};
    int w;
    c->backward = sl_proto_attr_is(l->node, "direction", "reverse", false);
    c->dirs = sl_proto_attr_is(l->node, "direction", "bidirectional", false) ? 2 : 1;
    SL_TRY(sl_onnx_lower_in(l, X, &c->x));
    const struct sl_shape *in = sl_onnx_lower_shape(l, c->x);
    c->batch_first = sl_proto_attr_int(l->node, "layout", 0) != 0;
    if (in->rank != 3 || (in->batch & (c->batch_first ? 6u : 5u)) || !sl_onnx_lower_has(l, R))
        return sl_onnx_lower_refuse(l, "x must be [T,B,I]");
    c->steps = in->dim[c->batch_first];
    SL_TRY(sl_onnx_lower_in(l, R, &w));
    in = sl_onnx_lower_shape(l, w);
    c->hidden = in->rank == 3 ? in->dim[2] : 0;
    if (in->rank != 3 || in->dim[0] != c->dirs || in->dim[1] != c->gates * c->hidden)
        return sl_onnx_lower_refuse(l, "the recurrent weight must be [directions,%dH,H]", c->gates);
    SL_TRY(refuse_options(l, c));
    if (!c->batch_first)
        SL_TRY(sl_onnx_emit_transpose(l, c->x, order, &c->x));
    for (int d = 0; d < c->dirs; d++)
        SL_TRY(run(l, c, d));
    SL_TRY(stack(l, c, c->y, 0, false));
    SL_TRY(stack(l, c, c->y, 1, true));
    return c->lstm ? stack(l, c, c->state, 2, true) : SL_OK;
}

sl_err sl_onnx_map_lstm(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    return recurrent(l, &(struct cell){.op = row->ours,
                                       .gates = 4,
                                       .order = {0, 2, 3, 1},
                                       .functions = "Sigmoid Tanh Tanh",
                                       .lstm = true});
}

sl_err sl_onnx_map_gru(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    return recurrent(
        l, &(struct cell){
               .op = row->ours, .gates = 3, .order = {1, 0, 2}, .functions = "Sigmoid Tanh"});
}

sl_err sl_onnx_map_rnn(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    const struct sl_proto_attr *f = sl_proto_attr(l->node, "activations");
    bool relu = f && f->string_count && sl_str_is(f->strings[0], "Relu");
    return recurrent(
        l, &(struct cell){
               .op = row->ours, .gates = 1, .relu = relu, .functions = relu ? "Relu" : "Tanh"});
}
