/* The values and nodes of an import; see lower.h. */
#include "onnx/lower.h"

#include "op/registry.h"

#include <math.h>
#include <stdio.h>

sl_err sl_onnx_lower_refuse(const struct sl_onnx_lower *l, const char *fmt, ...) {
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    (void)l;
    return sl_fail(SL_ERR_REFUSED, "%s", text);
}

/* ---- values ---- */

void sl_onnx_lower_add(struct sl_onnx_lower *l, struct sl_onnx_val val) {
    int64_t *found = sl_map_find(&l->names, sl_str(val.name));
    if (found) {
        val.readers = l->vals.at[*found].readers;
        l->vals.at[*found] = val;
        return;
    }
    sl_map_put(&l->names, sl_str(val.name), l->vals.count);
    SL_PUSH(&l->vals, val);
}

struct sl_onnx_val *sl_onnx_lower_named(struct sl_onnx_lower *l, const char *name) {
    int64_t *found = sl_map_find(&l->names, sl_str(name));
    return found ? &l->vals.at[*found] : NULL;
}

bool sl_onnx_lower_has(const struct sl_onnx_lower *l, int input) {
    return input < l->node->in_count && *l->node->in[input];
}

struct sl_onnx_val *sl_onnx_lower_val(struct sl_onnx_lower *l, int input) {
    return sl_onnx_lower_has(l, input) ? sl_onnx_lower_named(l, l->node->in[input]) : NULL;
}

/* Makes a unique name of the graph's language: letters, digits, '_' and '.'. */
const char *sl_onnx_lower_name(struct sl_onnx_lower *l, const char *name) {
    char *out = sl_arena_printf(l->arena, "%s%s", *name >= '0' && *name <= '9' ? "p" : "", name);
    for (char *at = out; *at; at++)
        if (!(*at >= '0' && *at <= '9') && !(*at >= 'a' && *at <= 'z') &&
            !(*at >= 'A' && *at <= 'Z') && *at != '.' && *at != '_')
            *at = '_';
    if (!*out || *out == '.' || *out == '_')
        out = sl_arena_printf(l->arena, "v%s", out);
    const char *stem = out;
    for (int i = 2; sl_map_find(&l->used_names, sl_str(out)) || strcmp(out, "B") == 0; i++)
        out = sl_arena_printf(l->arena, "%s_%d", stem, i);
    sl_map_put(&l->used_names, sl_str(out), 1);
    return out;
}

static sl_err shape_of_konst(const struct sl_onnx_lower *l, const struct sl_onnx_konst *konst,
                             struct sl_shape *out) {
    *out = (struct sl_shape){.rank = konst->rank};
    if (konst->rank > SL_MAX_RANK)
        return sl_onnx_lower_refuse(l, "a tensor of %d axes; the limit is %d", konst->rank,
                                    SL_MAX_RANK);
    for (int i = 0; i < konst->rank; i++)
        out->dim[i] = konst->dim[i];
    return SL_OK;
}

/* Checks integers, which become floats in the graph and are converted by a node: exact up to 2^24.
 * Larger ones are refused, except bounds that stand for "no limit". */
static sl_err check_whole(struct sl_onnx_lower *l, struct sl_onnx_val *val) {
    enum { EXACT = 1 << 24 };
    SL_TRY(sl_onnx_konst_load(l->arena, l->file, val->konst));
    const struct sl_onnx_konst *konst = val->konst;
    for (int64_t i = 0; i < konst->count; i++) {
        if (sl_onnx_konst_per_sample(konst, i))
            return sl_onnx_lower_refuse(l, "'%s' depends on the number of the sample", val->name);
        if (konst->i[i].batch || konst->i[i].n > EXACT || konst->i[i].n < -EXACT)
            return sl_onnx_lower_refuse(l, "the constant '%s' has a whole number that is %s",
                                        val->name,
                                        konst->i[i].batch ? "the batch size" : "beyond 2^24");
    }
    return SL_OK;
}

/* Makes a tensor from another tensor of the file, whose transpose it is. */
static sl_err place_twin(struct sl_onnx_lower *l, struct sl_onnx_val *val) {
    int id;
    SL_TRY(sl_onnx_lower_id(l, sl_onnx_lower_named(l, val->twin), &id));
    return sl_onnx_emit_transpose(l, id, (const int[]){1, 0}, &val->id);
}

/* Makes a constant a parameter or state of the graph. */
static sl_err place_konst(struct sl_onnx_lower *l, struct sl_onnx_val *val) {
    struct sl_shape shape;
    struct sl_init init = {.kind = SL_INIT_STORED};
    double value;
    SL_TRY(shape_of_konst(l, val->konst, &shape));
    if (val->twin)
        return place_twin(l, val);
    if (!sl_proto_type_is_float(val->konst->type))
        SL_TRY(check_whole(l, val));
    const char *name = sl_onnx_lower_name(l, val->title ? val->title : val->name);
    if (val->turned) {
        int64_t rows = shape.dim[0];
        shape.dim[0] = shape.dim[1];
        shape.dim[1] = rows;
        SL_TRY(sl_graph_param(l->graph, name, shape, init, &val->id));
        SL_PUSH(&l->stored, ((struct sl_onnx_stored){name, val->konst, true}));
        return sl_onnx_emit_transpose(l, val->id, (const int[]){1, 0}, &val->id);
    }
    if (val->is_param) {
        SL_TRY(sl_graph_param(l->graph, name, shape, init, &val->id));
    } else {
        if (val->konst->count <= SL_ONNX_KONST_MAX)
            SL_TRY(sl_onnx_konst_load(l->arena, l->file, val->konst));
        if (sl_onnx_konst_uniform(val->konst, &value) && isfinite(value))
            init = (struct sl_init){.kind = SL_INIT_CONST, .a = value};
        SL_TRY(sl_graph_state(l->graph, name, shape, init, &val->id));
    }
    if (init.kind == SL_INIT_STORED)
        SL_PUSH(&l->stored, ((struct sl_onnx_stored){name, val->konst, false}));
    for (int i = 0; i < shape.rank; i++)
        sl_graph_shape_set(&shape, i, sl_onnx_konst_dim(val->konst, i));
    SL_TRY(sl_onnx_emit_broadcast(l, val->id, &shape, &val->id));
    return val->konst->i ? sl_onnx_emit_plain(l, "to_int", 1, &val->id, &val->id) : SL_OK;
}

sl_err sl_onnx_lower_id(struct sl_onnx_lower *l, struct sl_onnx_val *val, int *out) {
    if (val->kind == SL_ONNX_FAILED)
        return sl_fail(SL_ERR_REFUSED, "%s", val->why);
    if (val->id < 0 && val->same)
        SL_TRY(sl_onnx_lower_id(l, sl_onnx_lower_named(l, val->same), &val->id));
    if (val->id < 0)
        SL_TRY(place_konst(l, val));
    *out = val->id;
    return SL_OK;
}

sl_err sl_onnx_lower_in(struct sl_onnx_lower *l, int input, int *out) {
    struct sl_onnx_val *val = sl_onnx_lower_val(l, input);
    *out = -1;
    if (!val)
        return sl_onnx_lower_refuse(l, "input %d is missing", input);
    return sl_onnx_lower_id(l, val, out);
}

sl_err sl_onnx_lower_float(struct sl_onnx_lower *l, int input, int *out) {
    SL_TRY(sl_onnx_lower_in(l, input, out));
    return sl_onnx_lower_is_int(l, *out) ? sl_onnx_emit_plain(l, "to_float", 1, out, out) : SL_OK;
}

const struct sl_onnx_konst *sl_onnx_lower_known(struct sl_onnx_lower *l, struct sl_onnx_val *val) {
    if (!val || val->kind != SL_ONNX_KONST || val->is_param)
        return NULL;
    return sl_onnx_konst_load(l->arena, l->file, val->konst) == SL_OK ? val->konst : NULL;
}

const struct sl_onnx_konst *sl_onnx_lower_maybe(struct sl_onnx_lower *l, int input) {
    return sl_onnx_lower_known(l, sl_onnx_lower_val(l, input));
}

sl_err sl_onnx_lower_konst(struct sl_onnx_lower *l, int input, const struct sl_onnx_konst **out) {
    struct sl_onnx_val *val = sl_onnx_lower_val(l, input);
    *out = NULL;
    if (!val)
        return SL_OK;
    if (val->kind == SL_ONNX_FAILED)
        return sl_fail(SL_ERR_REFUSED, "%s", val->why);
    if (val->kind != SL_ONNX_KONST)
        return sl_onnx_lower_refuse(l,
                                    "input %d ('%s') is computed from the data; only a constant is "
                                    "supported here",
                                    input, val->name);
    SL_TRY(sl_onnx_konst_load(l->arena, l->file, val->konst));
    *out = val->konst;
    return SL_OK;
}

sl_err sl_onnx_lower_number(struct sl_onnx_lower *l, int input, double *out) {
    const struct sl_onnx_konst *konst;
    SL_TRY(sl_onnx_lower_konst(l, input, &konst));
    if (!konst || konst->count != 1 || sl_onnx_konst_has_batch(konst))
        return sl_onnx_lower_refuse(l, "input %d must be one number", input);
    *out = sl_onnx_konst_number(konst, 0);
    return SL_OK;
}

const struct sl_shape *sl_onnx_lower_shape(const struct sl_onnx_lower *l, int id) {
    return &sl_graph_value(l->graph, id)->shape;
}

bool sl_onnx_lower_is_int(const struct sl_onnx_lower *l, int id) {
    return sl_graph_value(l->graph, id)->dtype == SL_INT;
}

sl_err sl_onnx_lower_axis(const struct sl_onnx_lower *l, int64_t axis, int rank, int *out) {
    if (axis < -rank || axis >= rank)
        return sl_onnx_lower_refuse(l, "axis %lld of a tensor of %d axes", (long long)axis, rank);
    *out = (int)(axis < 0 ? axis + rank : axis);
    return SL_OK;
}

sl_err sl_onnx_lower_axes(struct sl_onnx_lower *l, int input, int rank, struct sl_ints *out) {
    const struct sl_onnx_konst *list;
    const struct sl_proto_attr *attr = sl_proto_attr(l->node, "axes");
    SL_TRY(sl_onnx_lower_konst(l, input, &list));
    int64_t count = list ? list->count : attr ? attr->int_count : 0;
    *out = (struct sl_ints){0};
    if (count > SL_MAX_RANK)
        return sl_onnx_lower_refuse(l, "%lld axes", (long long)count);
    for (int64_t i = 0; i < count; i++) {
        int64_t axis = attr ? attr->ints[i] : 0;
        int at;
        if (list)
            SL_TRY(sl_onnx_konst_int(list, i, &axis));
        SL_TRY(sl_onnx_lower_axis(l, axis, rank, &at));
        out->at[out->count++] = at;
    }
    return SL_OK;
}

void sl_onnx_lower_out(struct sl_onnx_lower *l, int output, int id, int type) {
    sl_err err = SL_OK;
    if (output >= l->node->out_count || !*l->node->out[output])
        return;
    if (sl_proto_type_is_float(type) && sl_onnx_lower_is_int(l, id))
        err = sl_onnx_emit_plain(l, "to_float", 1, &id, &id);
    else if (sl_proto_type_is_int(type) && !sl_onnx_lower_is_int(l, id))
        err = sl_onnx_emit_plain(l, "to_int", 1, &id, &id);
    struct sl_onnx_val val = {.name = l->node->out[output],
                              .kind = err == SL_OK ? SL_ONNX_TENSOR : SL_ONNX_FAILED,
                              .id = id,
                              .type = type,
                              .node = l->node};
    if (err != SL_OK)
        val.why = sl_arena_dup(l->arena, sl_err_message(), strlen(sl_err_message()));
    sl_onnx_lower_add(l, val);
}

void sl_onnx_lower_out_konst(struct sl_onnx_lower *l, int output, struct sl_onnx_konst *konst) {
    if (output < l->node->out_count && *l->node->out[output])
        sl_onnx_lower_add(l, (struct sl_onnx_val){.name = l->node->out[output],
                                                  .kind = SL_ONNX_KONST,
                                                  .konst = konst,
                                                  .id = -1,
                                                  .type = konst->type,
                                                  .node = l->node});
}

/* ---- nodes ---- */

static const char *row_name(const void *ctx, int i) {
    (void)ctx;
    return sl_onnx_row_at(i)->op;
}

static sl_err unknown_op(const struct sl_onnx_lower *l) {
    int count = 0;
    while (sl_onnx_row_at(count))
        count++;
    const char *near = sl_nearest(l->node->op, count, row_name, NULL);
    if (!near) /* no near name: takes the one with the longest common beginning */
        for (int i = 0, best = 0; i < count; i++) {
            int same = 0;
            const char *name = sl_onnx_row_at(i)->op;
            while (name[same] && name[same] == l->node->op[same])
                same++;
            near = same > best || !near ? name : near;
            best = same > best ? same : best;
        }
    return sl_onnx_lower_refuse(l,
                                "this operator is not supported; the nearest supported one is %s",
                                near ? near : "Identity");
}

/* Sets *done if all inputs are constants and the node is computed here. */
static sl_err try_fold(struct sl_onnx_lower *l, bool *done) {
    enum { MAX = 64 };
    const struct sl_onnx_konst *in[MAX] = {0};
    struct sl_onnx_konst *out[MAX] = {0};
    *done = false;
    if (l->node->in_count > MAX || l->node->out_count > MAX)
        return SL_OK;
    for (int i = 0; i < l->node->in_count; i++) {
        struct sl_onnx_val *val = sl_onnx_lower_val(l, i);
        if (val && (val->kind != SL_ONNX_KONST || val->is_param || val->konst->count > 1 << 22))
            return SL_OK;
        if (val) {
            SL_TRY(sl_onnx_konst_load(l->arena, l->file, val->konst));
            in[i] = val->konst;
        }
    }
    if (l->folded > l->folded_max)
        return sl_onnx_lower_refuse(l, "the limit of computed constants is reached");
    SL_TRY(sl_onnx_konst_fold(l->arena, l->node, in, out, done));
    for (int i = 0; i < l->node->out_count; i++)
        if (!out[i])
            *done = false;
    for (int i = 0; *done && i < l->node->out_count; i++) {
        l->folded += out[i]->count;
        sl_onnx_lower_out_konst(l, i, out[i]);
    }
    if (l->folded > l->folded_max)
        return sl_onnx_lower_refuse(l, "the constants of this graph have more than %lld elements",
                                    (long long)l->folded_max);
    return SL_OK;
}

static sl_err lower_node(struct sl_onnx_lower *l) {
    const struct sl_onnx_row *row = sl_onnx_row_find(l->node->op);
    bool done = false;
    for (int i = 0; i < l->node->in_count; i++) {
        struct sl_onnx_val *val = sl_onnx_lower_val(l, i);
        if (!val && *l->node->in[i])
            return sl_onnx_lower_refuse(l, "reads '%s', which nothing defines", l->node->in[i]);
        if (val && val->kind == SL_ONNX_FAILED && !(row && row->failed_inputs))
            return sl_fail(SL_ERR_REFUSED, "%s", val->why);
    }
    if (*l->node->domain)
        return sl_onnx_lower_refuse(l, "operators of the domain '%s' are not supported",
                                    l->node->domain);
    SL_TRY(try_fold(l, &done));
    if (done)
        return SL_OK;
    if (!row)
        return unknown_op(l);
    if (row->ours && !sl_op_find(sl_str(row->ours)))
        return unknown_op(l);
    return row->lower(l, row);
}

/* Returns the message of a refused node; nodes that need its result repeat the message. */
static const char *reason(struct sl_onnx_lower *l) {
    const char *text = sl_err_message();
    if (strstr(text, ": node ") || strncmp(text, "node ", 5) == 0)
        return sl_arena_dup(l->arena, text, strlen(text));
    return sl_arena_printf(l->arena, "node '%s' (%s): %s",
                           *l->node->name ? l->node->name
                                          : (l->node->out_count ? l->node->out[0] : ""),
                           l->node->op, text);
}

sl_err sl_onnx_lower_graph(struct sl_onnx_lower *l, const struct sl_proto_graph *graph) {
    const struct sl_proto_node *outer = l->node;
    for (int64_t n = 0; n < graph->node_count; n++)
        for (int i = 0; i < graph->nodes[n].in_count; i++) {
            const char *name = graph->nodes[n].in[i];
            if (!*name)
                continue;
            if (!sl_onnx_lower_named(l, name)) {
                sl_map_put(&l->names, sl_str(name), l->vals.count);
                SL_PUSH(&l->vals,
                        ((struct sl_onnx_val){.name = name, .id = -1, .why = "it is not defined"}));
            }
            sl_onnx_lower_named(l, name)->readers++;
        }
    for (int64_t n = 0; n < graph->node_count; n++) {
        l->node = &graph->nodes[n];
        sl_err err = lower_node(l);
        if (err != SL_OK && err != SL_ERR_REFUSED && err != SL_ERR_INPUT)
            return err;
        const char *why = err == SL_OK ? NULL : reason(l);
        for (int i = 0; err != SL_OK && i < l->node->out_count; i++)
            if (*l->node->out[i])
                sl_onnx_lower_add(
                    l, (struct sl_onnx_val){
                           .name = l->node->out[i], .id = -1, .why = why, .node = l->node});
    }
    l->node = outer;
    return SL_OK;
}
