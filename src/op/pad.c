/* Moving elements along axes: pad, roll, flip.
 *
 *   pad    before=[0,1] after=[0,2]   one amount per axis; mode: constant (value), reflect, edge
 *   roll   shift=[1] axes=[0]         y[i] = x[i - shift], around the end
 *   flip   axes=[0]                   y[i] = x[n - 1 - i]
 *
 * All three are one map from places of y to places of x, axis by axis; the gradient of pad adds dy
 * back through the map. The axis of the micro-batch stays as it is.
 */
#include "op/common.h"

#include <string.h>

enum { BEFORE, AFTER, MODE, VALUE, SHAPE };
enum { CONSTANT, REFLECT, EDGE };
enum { SHIFT, ROLL_AXES };

/* Returns the place in [0, size) whose element is at place `at` of the padded axis; -1: none, so
 * the constant. */
static int64_t reflected(int64_t at, int64_t size, int64_t mode) {
    if (at >= 0 && at < size)
        return at;
    if (mode == CONSTANT)
        return -1;
    if (mode == EDGE)
        return at < 0 ? 0 : size - 1;
    return at < 0 ? -at : 2 * (size - 1) - at;
}

static sl_err need_amounts(struct sl_infer *c, const struct sl_ints *amounts) {
    char text[SL_SHAPE_TEXT];
    if (amounts->count != c->in[0].rank)
        return sl_graph_infer_fail(c, "%d amounts for the %d axes of %s", amounts->count,
                                   c->in[0].rank, sl_graph_shape_text(&c->in[0], text));
    return SL_OK;
}

static sl_err infer_pad(struct sl_infer *c) {
    char text[SL_SHAPE_TEXT];
    SL_TRY(sl_op_need_float(c, 0));
    SL_TRY(need_amounts(c, &c->attr[BEFORE].ints));
    SL_TRY(need_amounts(c, &c->attr[AFTER].ints));
    c->out[0] = c->in[0];
    for (int i = 0; i < c->in[0].rank; i++) {
        int64_t before = c->attr[BEFORE].ints.at[i], after = c->attr[AFTER].ints.at[i];
        int64_t size = c->in[0].dim[i];
        int64_t most = c->attr[MODE].i == REFLECT ? size - 1 : SL_MAX_NUMEL;
        bool batch = sl_graph_shape_dim(&c->in[0], i).batch;
        if (before < 0 || after < 0 || before > most || after > most || (batch && before + after))
            return sl_graph_infer_fail(c, "cannot pad axis %d of %s by %lld and %lld", i,
                                       sl_graph_shape_text(&c->in[0], text), (long long)before,
                                       (long long)after);
        c->out[0].dim[i] = size + before + after;
    }
    return SL_OK;
}

static int grad_pad(struct sl_grad *g, int input) {
    union sl_attr attr[5];
    memcpy(attr, g->attr, sizeof attr[0] * SHAPE);
    attr[SHAPE].shape = *sl_graph_grad_shape(g, g->in[input]);
    return sl_graph_grad_emit(g, "pad_dx", 1, &g->dout[0], attr);
}

/* Returns the offset in x of element i of the padded tensor; -1: the constant. */
static int64_t pad_place(const union sl_attr *attr, const struct sl_shape *x,
                         const struct sl_shape *y, int64_t i) {
    int64_t at = 0, stride = 1;
    for (int axis = y->rank - 1; axis >= 0; axis--) {
        int64_t k =
            reflected(i % y->dim[axis] - attr[BEFORE].ints.at[axis], x->dim[axis], attr[MODE].i);
        if (k < 0)
            return -1;
        i /= y->dim[axis];
        at += k * stride;
        stride *= x->dim[axis];
    }
    return at;
}

static void ref_pad(const struct sl_ref *r) {
    for (int64_t i = 0; i < sl_op_numel(&r->out[0].shape); i++) {
        int64_t at = pad_place(r->attr, &r->in[0].shape, &r->out[0].shape, i);
        r->out[0].f[i] = at < 0 ? r->attr[VALUE].f : r->in[0].f[at];
    }
}

static void ref_pad_dx(const struct sl_ref *r) {
    memset(r->out[0].f, 0, (size_t)sl_op_numel(&r->out[0].shape) * sizeof(double));
    for (int64_t i = 0; i < sl_op_numel(&r->in[0].shape); i++) {
        int64_t at = pad_place(r->attr, &r->out[0].shape, &r->in[0].shape, i);
        if (at >= 0)
            r->out[0].f[at] += r->in[0].f[i];
    }
}

#define PAD_ATTRS                                                                                  \
    {"before", SL_ATTR_INTS, NULL, NULL}, {"after", SL_ATTR_INTS, NULL, NULL},                     \
        {"mode", SL_ATTR_ENUM, "constant", "constant|reflect|edge"}, {                             \
        "value", SL_ATTR_FLOAT, "0", NULL                                                          \
    }

static const struct sl_attr_desc attrs_pad[] = {PAD_ATTRS, {0}};
static const struct sl_attr_desc attrs_dx[] = {
    PAD_ATTRS, {"shape", SL_ATTR_SHAPE, NULL, NULL}, {0}};

SL_OP_ROW(pad, "x with a margin: constant, reflected or its edge", "x", "y", .attrs = attrs_pad,
          .infer = infer_pad, .flops = sl_op_flops_none, .grad = grad_pad, .ref = ref_pad)

static sl_err infer_dx(struct sl_infer *c) {
    c->out[0] = c->attr[SHAPE].shape;
    return SL_OK;
}

SL_OP_ROW(pad_dx, "gradient of pad", "dy", "dx", .attrs = attrs_dx, .internal = true,
          .infer = infer_dx, .flops = sl_op_flops_none, .ref = ref_pad_dx)

/* ---- roll and flip ---- */

static sl_err need_axes(struct sl_infer *c, struct sl_ints *axes) {
    char text[SL_SHAPE_TEXT];
    for (int i = 0; i < axes->count; i++) {
        SL_TRY(sl_op_need_axis(c, c->in[0].rank, &axes->at[i]));
        if (sl_graph_shape_dim(&c->in[0], (int)axes->at[i]).batch)
            return sl_graph_infer_fail(c, "axis %lld of %s holds the micro-batch",
                                       (long long)axes->at[i],
                                       sl_graph_shape_text(&c->in[0], text));
    }
    return sl_op_infer_same(c);
}

static sl_err infer_roll(struct sl_infer *c) {
    struct sl_ints *shift = &c->attr[SHIFT].ints, *axes = &c->attr[ROLL_AXES].ints;
    char text[SL_SHAPE_TEXT];
    if (shift->count != axes->count)
        return sl_graph_infer_fail(c, "%d shifts for %d axes of %s", shift->count, axes->count,
                                   sl_graph_shape_text(&c->in[0], text));
    SL_TRY(need_axes(c, axes));
    for (int i = 0; i < axes->count; i++) {
        int64_t size = c->in[0].dim[axes->at[i]];
        shift->at[i] = (shift->at[i] % size + size) % size;
    }
    return SL_OK;
}

static sl_err infer_flip(struct sl_infer *c) { return need_axes(c, &c->attr[0].ints); }

static int grad_roll(struct sl_grad *g, int input) {
    (void)input;
    union sl_attr attr[2] = {g->attr[SHIFT], g->attr[ROLL_AXES]};
    for (int i = 0; i < attr[SHIFT].ints.count; i++)
        attr[SHIFT].ints.at[i] = -attr[SHIFT].ints.at[i];
    return sl_graph_grad_emit(g, "roll", 1, &g->dout[0], attr);
}

static int grad_flip(struct sl_grad *g, int input) {
    (void)input;
    return sl_graph_grad_emit(g, "flip", 1, &g->dout[0], g->attr);
}

/* Moves the elements; shift NULL: flip. */
static void ref_move(const struct sl_ref *r, const struct sl_ints *shift,
                     const struct sl_ints *axes) {
    const struct sl_shape *x = &r->in[0].shape;
    for (int64_t i = 0; i < sl_op_numel(x); i++) {
        int64_t at = 0, stride = 1, rest = i;
        for (int axis = x->rank - 1; axis >= 0; axis--) {
            int64_t size = x->dim[axis], k = rest % size;
            for (int a = 0; a < axes->count; a++)
                if (axes->at[a] == axis)
                    k = shift ? (k - shift->at[a] + size) % size : size - 1 - k;
            rest /= size;
            at += k * stride;
            stride *= size;
        }
        r->out[0].f[i] = r->in[0].f[at];
    }
}

static void ref_roll(const struct sl_ref *r) {
    ref_move(r, &r->attr[SHIFT].ints, &r->attr[ROLL_AXES].ints);
}
static void ref_flip(const struct sl_ref *r) { ref_move(r, NULL, &r->attr[0].ints); }

static const struct sl_attr_desc attrs_roll[] = {
    {"shift", SL_ATTR_INTS, NULL, NULL}, {"axes", SL_ATTR_INTS, NULL, NULL}, {0}};
static const struct sl_attr_desc attrs_flip[] = {{"axes", SL_ATTR_INTS, NULL, NULL}, {0}};

SL_OP_ROW(roll, "shifts along axes, around the end", "x", "y", .attrs = attrs_roll,
          .infer = infer_roll, .flops = sl_op_flops_none, .grad = grad_roll, .ref = ref_roll)

SL_OP_ROW(flip, "turns axes around", "x", "y", .attrs = attrs_flip, .infer = infer_flip,
          .flops = sl_op_flops_none, .grad = grad_flip, .ref = ref_flip)
