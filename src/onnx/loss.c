/* Adds a loss to a file that has none: --loss OP:INPUT,INPUT[,axis=N]. */
#include "onnx/lower.h"

#include "op/registry.h"

#include <stdlib.h>

struct spec {
    const char *op, *in[2];
    int64_t axis; /* axis of the classes; -1: the last */
};

static sl_err malformed(const char *text) {
    return sl_fail(SL_ERR_USAGE,
                   "--loss %s: write OP:OUTPUT,TARGETS, for example cross_entropy:logits,labels",
                   text);
}

static sl_err parse(struct sl_onnx_lower *l, const char *text, struct spec *out) {
    const char *colon = strchr(text, ':'), *comma = colon ? strchr(colon, ',') : NULL;
    const char *end = comma ? comma + 1 + strcspn(comma + 1, ",") : NULL;
    if (!comma || comma == colon + 1 || end == comma + 1)
        return malformed(text);
    out->op = sl_arena_dup(l->arena, text, (size_t)(colon - text));
    out->in[0] = sl_arena_dup(l->arena, colon + 1, (size_t)(comma - colon - 1));
    out->in[1] = sl_arena_dup(l->arena, comma + 1, (size_t)(end - comma - 1));
    out->axis = -1;
    if (*end && strncmp(end, ",axis=", 6) != 0)
        return malformed(text);
    return *end ? sl_parse_int(end + 6, "axis", &out->axis) : SL_OK;
}

static const char *val_name(const void *ctx, int i) {
    return ((const struct sl_onnx_lower *)ctx)->vals.at[i].name;
}

static sl_err find_output(struct sl_onnx_lower *l, const char *name, int *out) {
    struct sl_onnx_val *val = sl_onnx_lower_named(l, name);
    if (val) {
        sl_err err = sl_onnx_lower_id(l, val, out);
        return err == SL_OK ? err : sl_err_context(err, "%s", l->file->path);
    }
    int count = l->vals.count < 10000 ? (int)l->vals.count : 10000;
    const char *near = sl_nearest(name, count, val_name, l);
    return sl_fail(SL_ERR_INPUT, "%s: --loss reads '%s', which the file does not define%s%s%s",
                   l->file->path, name, near ? "; did you mean '" : "", near ? near : "",
                   near ? "'?" : "");
}

/* Moves the classes to the last axis, where the losses expect them. */
static sl_err classes_last(struct sl_onnx_lower *l, int64_t axis, int *x) {
    int perm[SL_MAX_RANK], at, count = 0, rank = sl_onnx_lower_shape(l, *x)->rank;
    SL_TRY(sl_onnx_lower_axis(l, axis, rank, &at));
    for (int i = 0; i < rank; i++)
        if (i != at)
            perm[count++] = i;
    perm[count] = at;
    return sl_onnx_emit_transpose(l, *x, perm, x);
}

sl_err sl_onnx_add_loss(struct sl_onnx_lower *l, const char *text) {
    struct spec spec;
    struct sl_onnx_emit e;
    int in[2], y;
    SL_TRY(parse(l, text, &spec));
    const struct sl_op *op = sl_op_find(sl_str(spec.op));
    if (!op || !op->is_loss)
        return sl_fail(SL_ERR_USAGE,
                       "--loss: '%s' is not a loss; there are cross_entropy, mse and "
                       "bce_with_logits",
                       spec.op);
    bool whole = op->count_input >= 0 && sl_graph_op_find_attr(op, SL_STR("ignore")) >= 0;
    SL_TRY(find_output(l, spec.in[0], &in[0]));
    SL_TRY(classes_last(l, spec.axis, &in[0]));
    struct sl_onnx_val *target = sl_onnx_lower_named(l, spec.in[1]);
    if (target) {
        SL_TRY(sl_onnx_lower_id(l, target, &in[1]));
    } else {
        struct sl_shape shape = *sl_onnx_lower_shape(l, in[0]);
        int64_t classes = shape.rank ? shape.dim[shape.rank - 1] : 0;
        if (whole && shape.rank < 2)
            return sl_fail(SL_ERR_INPUT, "--loss: '%s' needs an axis of classes", spec.in[0]);
        if (whole)
            shape.batch &= ~(1u << --shape.rank);
        SL_TRY(sl_graph_input(l->graph, sl_onnx_lower_name(l, spec.in[1]),
                              whole ? SL_INT : SL_FLOAT, shape, whole ? classes : 0, &in[1]));
    }
    SL_TRY(sl_onnx_emit_open(l, &e, spec.op));
    SL_TRY(sl_onnx_emit(l, &e, 2, in, &y));
    return sl_graph_loss(l->graph, "loss", y, 1);
}
