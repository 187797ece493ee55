/* Makes the chunk of an op's output from its inputs, for each kind of op. */
#include "decode/chunk_make.h"
#include "decode/ops.h"

#include <stdio.h>
#include <string.h>

/* ---- places ---- */

static int64_t behind(const struct sl_shape *shape, int axis) {
    int64_t product = 1;
    for (int k = axis + 1; k < shape->rank; k++)
        product *= shape->dim[k];
    return product;
}

static bool find_place(const struct sl_decode_maker *m, const struct sl_shape *shape, int64_t inner,
                       struct sl_decode_place *out) {
    for (int k = shape->rank - 1; k >= 0; k--) {
        int64_t rest = behind(shape, k), t = m->sizes.context;
        if (inner < rest || inner >= rest * shape->dim[k])
            continue;
        *out = (struct sl_decode_place){.axis = k, .after = inner / rest};
        if (inner % rest || shape->dim[k] % (t * out->after))
            return false;
        out->before = shape->dim[k] / (t * out->after);
        return true;
    }
    return false;
}

static struct sl_shape cut_shape(const struct sl_decode_maker *m, const struct sl_shape *shape,
                                 const struct sl_decode_place *place) {
    struct sl_shape out = *shape;
    out.dim[place->axis] = out.dim[place->axis] / m->sizes.context * m->length;
    return out;
}

/* ---- nodes of the chunk ---- */

int sl_decode_add_node(struct sl_decode_maker *m, const struct sl_op *op, int count, const int *in,
                       const union sl_attr *attr, const char *scope) {
    int out = 0;
    if (m->dry)
        return 0;
    struct sl_node_spec spec = {
        .op = op, .in_count = count, .in = in, .attr = attr, .scope = scope};
    m->err = sl_graph_node(m->to, &spec, &out);
    return m->err == SL_OK ? out : SL_DECODE_FAILED;
}

/* Adds the same node with these inputs; returns its output `slot`. */
static int copy_node(struct sl_decode_maker *m, const struct sl_node *node, const int *in,
                     const union sl_attr *attr, int slot) {
    int first = sl_decode_add_node(m, node->op, node->in_count, in, attr, node->scope);
    return first == SL_DECODE_FAILED || m->dry ? first : first + slot;
}

static int refuse(struct sl_decode_maker *m, const struct sl_node *node) {
    m->blocked = node;
    return SL_DECODE_FAILED;
}

/* ---- rows of values that do not change, or that are cheap to compute whole ---- */

int sl_decode_take_rows(struct sl_decode_maker *m, int value, int64_t inner) {
    const struct sl_shape *shape = sl_decode_shape_of(m, value);
    union sl_attr attr[SL_DECODE_COUNT];
    struct sl_decode_place place;
    int whole = sl_decode_make(m, value, SL_DECODE_NONE);
    if (whole == SL_DECODE_FAILED || !find_place(m, shape, inner, &place) || place.before != 1 ||
        place.after != 1 || (place.axis == 0 && (shape->batch & 1)))
        return SL_DECODE_FAILED;
    attr[SL_DECODE_AXIS].i = place.axis;
    attr[SL_DECODE_LENGTH].i = m->length;
    return sl_decode_add_node(m, &sl_decode_rows, 2, (int[]){whole, m->past}, attr, "");
}

/* ---- caches ---- */

static int put_cache(struct sl_decode_maker *m, int value, int64_t inner) {
    const struct sl_shape *shape = sl_decode_shape_of(m, value);
    union sl_attr attr[SL_DECODE_COUNT], whole = {.shape = *shape};
    struct sl_decode_place place;
    char name[32];
    int state = 0, chunk = sl_decode_make(m, value, inner);
    if (chunk == SL_DECODE_FAILED || !find_place(m, shape, inner, &place) || place.before != 1 ||
        place.after != 1 || place.axis == 0 || shape->batch != 1)
        return SL_DECODE_FAILED;
    if (m->dry)
        return 0;
    struct sl_shape flat = {.rank = 1, .dim = {m->batch * sl_graph_shape_numel(shape, 1)}};
    snprintf(name, sizeof name, "cache.%d", m->caches++);
    if (sl_graph_state(m->to, name, flat, (struct sl_init){.kind = SL_INIT_CONST}, &state) != SL_OK)
        return SL_DECODE_FAILED;
    attr[SL_DECODE_AXIS].i = place.axis;
    attr[SL_DECODE_LENGTH].i = m->sizes.context;
    int done = sl_decode_add_node(m, &sl_decode_put, 3, (int[]){state, chunk, m->past}, attr, "");
    return done == SL_DECODE_FAILED
               ? SL_DECODE_FAILED
               : sl_decode_add_node(m, &sl_decode_cache, 2, (int[]){state, done}, &whole, "");
}

/* Can the chunk of this value be made? Makes nothing. */
static bool can_make(struct sl_decode_maker *m, int value, int64_t inner) {
    bool dry = m->dry;
    m->dry = true;
    bool can = sl_decode_make(m, value, inner) != SL_DECODE_FAILED;
    m->dry = dry;
    return can;
}

int sl_decode_cache_value(struct sl_decode_maker *m, int value) {
    const struct sl_shape *shape = sl_decode_shape_of(m, value);
    for (int k = 1; k < shape->rank; k++)
        if (shape->dim[k] == m->sizes.context && can_make(m, value, behind(shape, k)))
            return put_cache(m, value, behind(shape, k));
    return SL_DECODE_FAILED;
}

/* ---- rules ---- */

int sl_decode_copy_whole(struct sl_decode_maker *m, const struct sl_node *node, int slot) {
    int in[SL_MAX_IN];
    for (int i = 0; i < node->in_count; i++) {
        in[i] = node->in[i] < 0 ? -1 : sl_decode_make(m, node->in[i], SL_DECODE_NONE);
        if (node->in[i] >= 0 && in[i] == SL_DECODE_FAILED)
            return SL_DECODE_FAILED;
    }
    return copy_node(m, node, in, node->attr, slot);
}

/* Finds the tokens of an operand that is broadcast to `wide`; SL_DECODE_NONE if one row serves all
 * of them. */
static bool aligned(const struct sl_decode_maker *m, const struct sl_shape *narrow,
                    const struct sl_shape *wide, const struct sl_decode_place *place,
                    int64_t *inner) {
    int axis = place->axis - (wide->rank - narrow->rank);
    *inner = SL_DECODE_NONE;
    if (axis < 0 || (narrow->dim[axis] == 1 && wide->dim[place->axis] != 1))
        return true;
    if (narrow->dim[axis] != wide->dim[place->axis] || m->sizes.context == 1)
        return false;
    *inner = behind(narrow, axis) * place->after;
    return true;
}

static int make_each(struct sl_decode_maker *m, const struct sl_node *node,
                     const struct sl_decode_place *place, int slot) {
    const struct sl_shape *wide = sl_decode_shape_of(m, node->out[slot]);
    int in[SL_MAX_IN];
    for (int i = 0; i < node->in_count; i++) {
        const struct sl_shape *narrow = node->in[i] < 0 ? NULL : sl_decode_shape_of(m, node->in[i]);
        int64_t inner;
        in[i] = -1;
        if (!narrow)
            continue;
        if (!aligned(m, narrow, wide, place, &inner))
            return refuse(m, node);
        /* a value without batch gets a batch axis in front */
        if (inner && !m->moves[node->in[i]] && narrow->rank + 1 != wide->rank)
            return refuse(m, node);
        in[i] = sl_decode_make(m, node->in[i], inner);
        if (in[i] == SL_DECODE_FAILED)
            return SL_DECODE_FAILED;
    }
    return copy_node(m, node, in, node->attr, slot);
}

/* Makes a node whose input 0 has its tokens at `inner`; the other inputs are whole. */
static int make_first(struct sl_decode_maker *m, const struct sl_node *node, int64_t inner,
                      const union sl_attr *attr, int slot) {
    int in[SL_MAX_IN];
    for (int i = 0; i < node->in_count; i++) {
        in[i] = node->in[i] < 0 ? -1 : sl_decode_make(m, node->in[i], i ? SL_DECODE_NONE : inner);
        if (node->in[i] >= 0 && in[i] == SL_DECODE_FAILED)
            return SL_DECODE_FAILED;
    }
    return copy_node(m, node, in, attr, slot);
}

static int make_reshape(struct sl_decode_maker *m, const struct sl_node *node,
                        const struct sl_decode_place *place, int64_t inner) {
    union sl_attr attr = {.shape = cut_shape(m, sl_decode_shape_of(m, node->out[0]), place)};
    return make_first(m, node, inner, &attr, 0);
}

static int make_transpose(struct sl_decode_maker *m, const struct sl_node *node,
                          const struct sl_decode_place *place) {
    int axis = (int)node->attr[0].ints.at[place->axis];
    int64_t inner = behind(sl_decode_shape_of(m, node->in[0]), axis) * place->after;
    return make_first(m, node, inner, node->attr, 0);
}

/* split, slice and concat along an axis without tokens: all inputs are treated equally. */
static int make_axis(struct sl_decode_maker *m, const struct sl_node *node,
                     const struct sl_decode_place *place, int slot) {
    int in[SL_MAX_IN];
    if (node->attr[0].i == place->axis)
        return refuse(m, node);
    for (int i = 0; i < node->in_count; i++) {
        in[i] = sl_decode_make(
            m, node->in[i], behind(sl_decode_shape_of(m, node->in[i]), place->axis) * place->after);
        if (in[i] == SL_DECODE_FAILED)
            return SL_DECODE_FAILED;
    }
    return copy_node(m, node, in, node->attr, slot);
}

/* A product: its rows are those of its first factor. */
static int make_product(struct sl_decode_maker *m, const struct sl_node *node,
                        const struct sl_decode_place *place) {
    const struct sl_shape *y = sl_decode_shape_of(m, node->out[0]),
                          *a = sl_decode_shape_of(m, node->in[0]),
                          *b = sl_decode_shape_of(m, node->in[1]);
    bool row = b->rank == 2 ? place->axis < y->rank - 1 : place->axis == y->rank - 2;
    if (!row || node->attr[0].i)
        return refuse(m, node);
    return make_first(m, node, behind(a, place->axis) * place->after, node->attr, 0);
}

static int make_attention(struct sl_decode_maker *m, const struct sl_node *node,
                          const struct sl_decode_place *place, int slot) {
    int in[4];
    bool plain = node->in_count < 4 || node->in[3] < 0;
    if (place->axis != 1 || slot != 0 || !plain || !node->attr[0].i ||
        sl_decode_shape_of(m, node->in[1])->dim[1] != m->sizes.context)
        return refuse(m, node);
    in[0] = sl_decode_make(m, node->in[0], behind(sl_decode_shape_of(m, node->in[0]), 1));
    in[1] = sl_decode_make(m, node->in[1], SL_DECODE_NONE);
    in[2] = sl_decode_make(m, node->in[2], SL_DECODE_NONE);
    in[3] = m->past;
    if (in[0] == SL_DECODE_FAILED || in[1] == SL_DECODE_FAILED || in[2] == SL_DECODE_FAILED)
        return SL_DECODE_FAILED;
    return sl_decode_add_node(m, &sl_decode_attention, 4, in, node->attr, node->scope);
}

static int make_rope(struct sl_decode_maker *m, const struct sl_node *node,
                     const struct sl_decode_place *place) {
    if (place->axis != 1)
        return refuse(m, node);
    int x = sl_decode_make(m, node->in[0], behind(sl_decode_shape_of(m, node->in[0]), 1));
    if (x == SL_DECODE_FAILED)
        return SL_DECODE_FAILED;
    return sl_decode_add_node(m, &sl_decode_rope, 2, (int[]){x, m->past}, node->attr, node->scope);
}

static int make_lookup(struct sl_decode_maker *m, const struct sl_node *node,
                       const struct sl_decode_place *place, int64_t inner) {
    const struct sl_shape *y = sl_decode_shape_of(m, node->out[0]);
    int in[2];
    if (place->axis == y->rank - 1)
        return refuse(m, node);
    in[0] = sl_decode_make(m, node->in[0], SL_DECODE_NONE);
    in[1] = sl_decode_make(m, node->in[1], inner / y->dim[y->rank - 1]);
    if (in[0] == SL_DECODE_FAILED || in[1] == SL_DECODE_FAILED)
        return SL_DECODE_FAILED;
    return copy_node(m, node, in, node->attr, 0);
}

/* For ops whose `divide` does not tell: along which axes a position of the outputs depends only on
 * the same position of the inputs. */
enum alone { MIXES, ALONE_BUT_LAST, ALONE_BUT_AXIS /* attribute 0 */ };

extern const struct sl_op sl_op_concat, sl_op_layernorm, sl_op_rmsnorm, sl_op_slice;

static const struct {
    const struct sl_op *op;
    enum alone alone;
} alone_ops[] = {
    {&sl_op_concat, ALONE_BUT_AXIS},
    {&sl_op_layernorm, ALONE_BUT_LAST},
    {&sl_op_rmsnorm, ALONE_BUT_LAST},
    {&sl_op_slice, ALONE_BUT_AXIS},
};

static enum alone alone_of(const struct sl_op *op) {
    for (int i = 0; i < SL_COUNT(alone_ops); i++)
        if (alone_ops[i].op == op)
            return alone_ops[i].alone;
    return op->divide == SL_DIVIDE_ROWS    ? ALONE_BUT_LAST
           : op->divide == SL_DIVIDE_SPLIT ? ALONE_BUT_AXIS
                                           : MIXES;
}

int sl_decode_make_node(struct sl_decode_maker *m, int value, const struct sl_node *node,
                        int64_t inner) {
    int slot = sl_graph_value(m->from, value)->slot;
    struct sl_decode_place place;
    if (!find_place(m, sl_decode_shape_of(m, value), inner, &place))
        return refuse(m, node);
    bool last = place.axis == sl_decode_shape_of(m, value)->rank - 1;
    if (node->op->layer == SL_LAYER_ATTENTION)
        return make_attention(m, node, &place, slot);
    if (node->op->layer == SL_LAYER_EMBED && node->in_count == 2)
        return make_lookup(m, node, &place, inner);
    if (alone_of(node->op) == ALONE_BUT_AXIS)
        return make_axis(m, node, &place, slot);
    if (alone_of(node->op) == ALONE_BUT_LAST)
        return last || slot ? refuse(m, node) : make_first(m, node, inner, node->attr, slot);
    switch (node->op->divide) {
    case SL_DIVIDE_EACH: return make_each(m, node, &place, slot);
    case SL_DIVIDE_RESHAPE: return make_reshape(m, node, &place, inner);
    case SL_DIVIDE_TRANSPOSE: return make_transpose(m, node, &place);
    case SL_DIVIDE_PRODUCT: return make_product(m, node, &place);
    case SL_DIVIDE_HEADS: return make_rope(m, node, &place);
    default: break;
    }
    return m->cheap[value] ? sl_decode_take_rows(m, value, inner) : refuse(m, node);
}
