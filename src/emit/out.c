/* Writes nodes and constants of an ONNX file. */
#include "emit/out.h"

#include "emit/pb.h"

#include <stdarg.h>
#include <stdio.h>

/* Field numbers of the format's messages. */
enum { NODE_INPUT = 1, NODE_OUTPUT, NODE_NAME, NODE_OP, NODE_ATTR };
enum { ATTR_NAME = 1, ATTR_F, ATTR_I, ATTR_S, ATTR_T, ATTR_INTS = 8, ATTR_STRINGS, ATTR_TYPE = 20 };
enum { IS_FLOAT = 1, IS_INT, IS_STRING, IS_TENSOR, IS_INTS = 7, IS_STRINGS };
enum { TENSOR_DIM = 1, TENSOR_TYPE = 2, TENSOR_RAW = 9 };
enum { GRAPH_NODE = 1 };

enum { SHARED_BYTES = 4096 }; /* constants up to this size are written only once */

/* ---- the node that is being written ---- */

bool sl_emit_has(const struct sl_emit *o, int input) {
    return input < o->node->in_count && o->node->in[input] >= 0;
}

const char *sl_emit_in(const struct sl_emit *o, int input) {
    return sl_emit_has(o, input) ? o->names[o->node->in[input]] : "";
}

const struct sl_shape *sl_emit_shape(const struct sl_emit *o, int input) {
    return &sl_graph_value(o->graph, o->node->in[input])->shape;
}

const struct sl_shape *sl_emit_result(const struct sl_emit *o, int output) {
    return &sl_graph_value(o->graph, o->node->out[output])->shape;
}

const union sl_attr *sl_emit_attr(const struct sl_emit *o, const char *name) {
    int index = sl_graph_op_find_attr(o->node->op, sl_str(name));
    SL_ASSERT(index >= 0);
    return &o->node->attr[index];
}

bool sl_emit_is_read(const struct sl_emit *o, int output) {
    return o->needed[o->node->out[output]];
}

void sl_emit_set(struct sl_emit *o, int output, const char *name) {
    o->names[o->node->out[output]] = name;
}

void sl_emit_refuse(struct sl_emit *o, const char *fmt, ...) {
    char name[SL_NAME_TEXT], why[256];
    va_list args;
    if (o->err != SL_OK)
        return;
    va_start(args, fmt);
    vsnprintf(why, sizeof why, fmt, args);
    va_end(args);
    o->err = sl_fail(SL_ERR_REFUSED, "'%s' (%s) cannot be written as ONNX: %s",
                     sl_graph_value_name(o->graph, o->node->out[0], name), o->node->op->name, why);
}

/* ---- nodes ---- */

static const char *fresh_name(struct sl_emit *o, const char *op) {
    const char *name = sl_arena_printf(&o->arena, "%s/%s", o->scope, op);
    for (int64_t i = 1; sl_map_find(&o->used, sl_str(name)); i++)
        name = sl_arena_printf(&o->arena, "%s/%s_%lld", o->scope, op, (long long)i);
    sl_map_put(&o->used, sl_str(name), 1);
    return name;
}

static void put_attr(struct sl_emit *o, const char *name, int type, struct sl_text *value) {
    struct sl_text attr = {0};
    sl_emit_pb_string(&attr, ATTR_NAME, name);
    sl_text_put_bytes(&attr, value->at, value->length);
    sl_emit_pb_int(&attr, ATTR_TYPE, type);
    sl_emit_pb_message(&o->attrs, NODE_ATTR, &attr);
    sl_text_free(&attr);
    sl_text_free(value);
}

void sl_emit_with_int(struct sl_emit *o, const char *name, int64_t value) {
    struct sl_text text = {0};
    sl_emit_pb_int(&text, ATTR_I, value);
    put_attr(o, name, IS_INT, &text);
}

void sl_emit_with_float(struct sl_emit *o, const char *name, double value) {
    struct sl_text text = {0};
    sl_emit_pb_float(&text, ATTR_F, (float)value);
    put_attr(o, name, IS_FLOAT, &text);
}

void sl_emit_with_text(struct sl_emit *o, const char *name, const char *value) {
    struct sl_text text = {0};
    sl_emit_pb_string(&text, ATTR_S, value);
    put_attr(o, name, IS_STRING, &text);
}

void sl_emit_with_texts(struct sl_emit *o, const char *name, const char *value) {
    struct sl_text text = {0};
    sl_emit_pb_string(&text, ATTR_STRINGS, value);
    put_attr(o, name, IS_STRINGS, &text);
}

void sl_emit_with_ints(struct sl_emit *o, const char *name, int count, const int64_t *at) {
    struct sl_text text = {0};
    for (int i = 0; i < count; i++)
        sl_emit_pb_int(&text, ATTR_INTS, at[i]);
    put_attr(o, name, IS_INTS, &text);
}

void sl_emit_put_many(struct sl_emit *o, const char *op, struct sl_emit_names in,
                      struct sl_emit_names out) {
    struct sl_text node = {0};
    for (int i = 0; i < in.count; i++)
        sl_emit_pb_string(&node, NODE_INPUT, in.at[i]);
    for (int i = 0; i < out.count; i++) {
        if (!out.at[i])
            out.at[i] = fresh_name(o, op);
        sl_emit_pb_string(&node, NODE_OUTPUT, out.at[i]);
    }
    sl_emit_pb_string(&node, NODE_NAME, out.at[out.count - 1]);
    sl_emit_pb_string(&node, NODE_OP, op);
    sl_text_put_bytes(&node, o->attrs.at ? o->attrs.at : "", o->attrs.length);
    o->attrs.length = 0;
    o->node_count++;
    sl_emit_pb_message(&o->nodes, GRAPH_NODE, &node);
    sl_text_free(&node);
}

const char *sl_emit_put(struct sl_emit *o, const char *op, int in_count, const char *const *in) {
    const char *ins[SL_MAX_IN], *out[1] = {NULL};
    while (in_count && !*in[in_count - 1]) /* leaves out absent inputs at the end */
        in_count--;
    for (int i = 0; i < in_count; i++)
        ins[i] = in[i];
    sl_emit_put_many(o, op, (struct sl_emit_names){in_count, ins}, (struct sl_emit_names){1, out});
    return out[0];
}

/* ---- constants ---- */

static const char *put_constant(struct sl_emit *o, struct sl_text *tensor) {
    struct sl_text value = {0};
    struct sl_str key = {tensor->at, tensor->length};
    int64_t *found = tensor->length <= SHARED_BYTES ? sl_map_find(&o->constants, key) : NULL;
    if (found) {
        sl_text_free(tensor);
        return o->constant_names.at[*found];
    }
    if (tensor->length <= SHARED_BYTES) {
        key.at = sl_arena_dup(&o->arena, tensor->at, tensor->length);
        sl_map_put(&o->constants, key, o->constant_names.count);
    }
    sl_emit_pb_message(&value, ATTR_T, tensor);
    sl_text_free(tensor);
    struct sl_text attrs = o->attrs; /* keeps the attributes for the node after the constant */
    o->attrs = (struct sl_text){0};
    put_attr(o, "value", IS_TENSOR, &value);
    const char *name = sl_emit_put(o, "Constant", 0, NULL);
    sl_text_free(&o->attrs);
    o->attrs = attrs;
    SL_PUSH(&o->constant_names, name);
    return name;
}

static struct sl_text tensor_of(int rank, const int64_t *dim, int type) {
    struct sl_text tensor = {0};
    for (int i = 0; i < rank; i++)
        sl_emit_pb_int(&tensor, TENSOR_DIM, dim[i]);
    sl_emit_pb_int(&tensor, TENSOR_TYPE, type);
    return tensor;
}

static int64_t count_of(int rank, const int64_t *dim) {
    int64_t count = 1;
    for (int i = 0; i < rank; i++)
        count *= dim[i];
    return count;
}

const char *sl_emit_put_places(struct sl_emit *o, int rank, const int64_t *dim,
                               const int64_t *values) {
    struct sl_text tensor = tensor_of(rank, dim, SL_EMIT_TO_INT);
    sl_emit_pb_bytes(&tensor, TENSOR_RAW, values, sizeof *values * (size_t)count_of(rank, dim));
    return put_constant(o, &tensor);
}

const char *sl_emit_put_table(struct sl_emit *o, int rank, const int64_t *dim,
                              const float *values) {
    struct sl_text tensor = tensor_of(rank, dim, SL_EMIT_TO_FLOAT);
    sl_emit_pb_bytes(&tensor, TENSOR_RAW, values, sizeof *values * (size_t)count_of(rank, dim));
    return put_constant(o, &tensor);
}

const char *sl_emit_put_ints(struct sl_emit *o, int count, const int64_t *at) {
    return sl_emit_put_places(o, 1, &(int64_t){count}, at);
}

const char *sl_emit_put_int(struct sl_emit *o, int64_t value) {
    return sl_emit_put_ints(o, 1, &value);
}

const char *sl_emit_put_number(struct sl_emit *o, double value) {
    return sl_emit_put_table(o, 0, NULL, &(float){(float)value});
}

/* ---- common steps ---- */

const char *sl_emit_put_cast(struct sl_emit *o, const char *x, int type) {
    sl_emit_with_int(o, "to", type);
    return SL_EMIT_PUT(o, "Cast", x);
}

/* Reshapes; if one size contains the batch, it is written as "what is left" (-1). */
const char *sl_emit_put_shaped(struct sl_emit *o, const char *x, const struct sl_shape *shape) {
    int64_t dim[SL_MAX_RANK];
    for (int i = 0; i < shape->rank; i++)
        dim[i] = sl_graph_shape_dim(shape, i).batch ? -1 : shape->dim[i];
    return SL_EMIT_PUT(o, "Reshape", x, sl_emit_put_ints(o, shape->rank, dim));
}

const char *sl_emit_put_turned(struct sl_emit *o, const char *x, int count, const int64_t *perm) {
    sl_emit_with_ints(o, "perm", count, perm);
    return SL_EMIT_PUT(o, "Transpose", x);
}

const char *sl_emit_put_slice(struct sl_emit *o, const char *x, int64_t axis, int64_t from,
                              int64_t to) {
    return SL_EMIT_PUT(o, "Slice", x, sl_emit_put_int(o, from), sl_emit_put_int(o, to),
                       sl_emit_put_int(o, axis));
}

const char *sl_emit_put_reduce(struct sl_emit *o, const char *op, const char *x,
                               const struct sl_ints *axes, bool keep) {
    const char *list = sl_emit_put_ints(o, axes->count, axes->at);
    sl_emit_with_int(o, "keepdims", keep);
    return SL_EMIT_PUT(o, op, x, list);
}

/* Returns the number of samples, from the first input that has it. */
static const char *put_batch(struct sl_emit *o) {
    for (int64_t i = 0; !o->batch && i < o->graph->inputs.count; i++) {
        const struct sl_value *v = sl_graph_value(o->graph, o->graph->inputs.at[i].value);
        for (int axis = 0;
             !o->batch && o->names[o->graph->inputs.at[i].value] && axis < v->shape.rank; axis++) {
            struct sl_dim size = sl_graph_shape_dim(&v->shape, axis);
            if (!size.batch)
                continue;
            sl_emit_with_int(o, "start", axis);
            sl_emit_with_int(o, "end", axis + 1);
            o->batch = SL_EMIT_PUT(o, "Shape", o->names[o->graph->inputs.at[i].value]);
            if (size.n != 1)
                o->batch = SL_EMIT_PUT(o, "Div", o->batch, sl_emit_put_int(o, size.n));
        }
    }
    if (!o->batch) {
        sl_emit_refuse(o, "its size depends on the batch, which no input has");
        o->batch = "";
    }
    return o->batch;
}

const char *sl_emit_put_size(struct sl_emit *o, struct sl_dim size) {
    if (!size.batch)
        return sl_emit_put_int(o, size.n);
    const char *batch = put_batch(o);
    return size.n == 1 ? batch : SL_EMIT_PUT(o, "Mul", batch, sl_emit_put_int(o, size.n));
}

/* Broadcasts. Expand repeats in both directions: a size 1 keeps that of x, so the batch is needed
 * only where x does not have it. */
const char *sl_emit_put_wide(struct sl_emit *o, const char *x, const struct sl_shape *from,
                             const struct sl_shape *to) {
    const char *size[SL_MAX_RANK];
    if (sl_graph_shape_equal(from, to))
        return x;
    for (int i = 0; i < to->rank; i++) {
        struct sl_dim want = sl_graph_shape_dim(to, i), have = {1, false};
        if (i >= to->rank - from->rank)
            have = sl_graph_shape_dim(from, i - (to->rank - from->rank));
        if (sl_graph_dim_equal(want, have))
            want = (struct sl_dim){1, false};
        size[i] = sl_emit_put_size(o, want);
    }
    if (to->rank == 1)
        return SL_EMIT_PUT(o, "Expand", x, size[0]);
    sl_emit_with_int(o, "axis", 0);
    return SL_EMIT_PUT(o, "Expand", x, sl_emit_put(o, "Concat", to->rank, size));
}
