/* Attention and RotaryEmbedding of operator sets 23 and later.
 *
 *   q [B,Hq,T,D]   k [B,Hk,S,D]   v [B,Hk,S,E]    the op `attention` if that can express it,
 *   else softmax(clip(cap(scale q k') + bias)) v, where bias is the sum of all masks as 0 and -inf
 */
#include "onnx/map.h"

#include <math.h>

enum { Q, K, V, MASK, PAST_K, PAST_V, LENGTHS };

#define LEAST (-3.4028234663852886e38)

struct attention {
    int q, k, v;
    int64_t t, s, past, hq, hk, left, right; /* left, right: bounds of the window; -1: none */
    double scale, cap;
    bool causal, flat;
    int lengths;     /* value int [B,1,1,1], or -1 */
    int bias;        /* sum of the masks so far, or -1 */
    bool whole_rows; /* every query sees some key */
};

/* Turns [B,T,H D] into [B,H,T,D]. */
static sl_err heads_of(struct sl_onnx_lower *l, int input, const char *heads, int *x) {
    static const int order[] = {0, 2, 1, 3};
    SL_TRY(sl_onnx_lower_float(l, input, x));
    struct sl_shape shape = *sl_onnx_lower_shape(l, *x);
    int64_t count = sl_proto_attr_int(l->node, heads, 0);
    if (shape.rank == 4 && (shape.batch & ~1u) == 0)
        return SL_OK;
    if (shape.rank != 3 || (shape.batch & ~1u) || count < 1 || shape.dim[2] % count)
        return sl_onnx_lower_refuse(l, "input %d is not [B,T,H D] with '%s' heads", input, heads);
    shape.rank = 4;
    sl_graph_shape_set(&shape, 3, (struct sl_dim){shape.dim[2] / count, false});
    sl_graph_shape_set(&shape, 2, (struct sl_dim){count, false});
    SL_TRY(sl_onnx_emit_reshape(l, *x, &shape, x));
    return sl_onnx_emit_transpose(l, *x, order, x);
}

static sl_err join_past(struct sl_onnx_lower *l, int past, int *x) {
    struct sl_onnx_emit e;
    int in[2] = {-1, *x};
    if (!sl_onnx_lower_has(l, past))
        return SL_OK;
    SL_TRY(sl_onnx_lower_in(l, past, &in[0]));
    SL_TRY(sl_onnx_emit_open(l, &e, "concat"));
    sl_onnx_emit_int(&e, "axis", 2);
    return sl_onnx_emit(l, &e, 2, in, x);
}

static sl_err open_attention(struct sl_onnx_lower *l, struct attention *a) {
    *a = (struct attention){.lengths = -1, .bias = -1, .whole_rows = true};
    SL_TRY(heads_of(l, Q, "q_num_heads", &a->q));
    SL_TRY(heads_of(l, K, "kv_num_heads", &a->k));
    SL_TRY(heads_of(l, V, "kv_num_heads", &a->v));
    a->flat = sl_onnx_lower_shape(l, a->q)->rank == 4 &&
              sl_graph_value(l->graph, sl_onnx_lower_val(l, Q)->id)->shape.rank == 3;
    int64_t own = sl_onnx_lower_shape(l, a->k)->dim[2];
    SL_TRY(join_past(l, PAST_K, &a->k));
    SL_TRY(join_past(l, PAST_V, &a->v));
    const struct sl_shape *q = sl_onnx_lower_shape(l, a->q), *k = sl_onnx_lower_shape(l, a->k);
    a->t = q->dim[2];
    a->s = k->dim[2];
    a->past = a->s - own;
    a->hq = q->dim[1];
    a->hk = k->dim[1];
    if (a->hk < 1 || a->hq % a->hk)
        return sl_onnx_lower_refuse(l, "%lld heads of queries for %lld of keys", (long long)a->hq,
                                    (long long)a->hk);
    a->scale = sl_proto_attr_float(l->node, "scale", 0);
    if (!sl_proto_attr(l->node, "scale"))
        a->scale = 1 / sqrt((double)q->dim[3]);
    a->cap = sl_proto_attr_float(l->node, "softcap", 0);
    a->causal = sl_proto_attr_int(l->node, "is_causal", 0) != 0;
    a->left = sl_proto_attr_int(l->node, "left_window_size", -1);
    a->right = sl_proto_attr_int(l->node, "right_window_size", -1);
    if (!sl_onnx_lower_has(l, LENGTHS))
        return SL_OK;
    struct sl_shape shape = {.rank = 4, .batch = q->batch, .dim = {q->dim[0], 1, 1, 1}};
    SL_TRY(sl_onnx_lower_in(l, LENGTHS, &a->lengths));
    return sl_onnx_emit_reshape(l, a->lengths, &shape, &a->lengths);
}

static sl_err add_bias(struct sl_onnx_lower *l, struct attention *a, int bias) {
    if (a->bias < 0) {
        a->bias = bias;
        return SL_OK;
    }
    return sl_onnx_emit_plain(l, "add", 2, (int[]){a->bias, bias}, &a->bias);
}

/* Adds -inf where `allowed` (int) is 0. */
static sl_err forbid(struct sl_onnx_lower *l, struct attention *a, int allowed) {
    int in[3] = {allowed, -1, -1}, y;
    SL_TRY(sl_onnx_emit_filled(l, &(struct sl_shape){0}, 0, &in[1]));
    SL_TRY(sl_onnx_emit_plain(l, "log", 1, &in[1], &in[2]));
    SL_TRY(sl_onnx_emit_plain(l, "where", 3, in, &y));
    a->whole_rows = false;
    return add_bias(l, a, y);
}

/* Compares i sign + add (i: query, j: key) with the lengths. */
static sl_err by_length(struct sl_onnx_lower *l, struct attention *a, const char *compare,
                        int64_t add) {
    struct sl_onnx_konst *konst;
    int in[2] = {-1, a->lengths}, y;
    const int64_t dim[2] = {a->t, a->s};
    SL_TRY(sl_onnx_konst_new(l->arena, SL_ONNX_INT64, 2, dim, &konst));
    for (int64_t i = 0; i < konst->count; i++)
        konst->i[i].n = i % a->s - i / a->s + a->t + add;
    struct sl_onnx_val val = {.name = "distance", .kind = SL_ONNX_KONST, .konst = konst, .id = -1};
    SL_TRY(sl_onnx_lower_id(l, &val, &in[0]));
    SL_TRY(sl_onnx_emit_plain(l, compare, 2, in, &y));
    return forbid(l, a, y);
}

static sl_err add_lengths(struct sl_onnx_lower *l, struct attention *a) {
    struct sl_onnx_konst *konst;
    int in[2] = {-1, a->lengths}, y;
    SL_TRY(sl_onnx_konst_new(l->arena, SL_ONNX_INT64, 1, &a->s, &konst));
    for (int64_t i = 0; i < a->s; i++)
        konst->i[i].n = i;
    struct sl_onnx_val val = {.name = "key", .kind = SL_ONNX_KONST, .konst = konst, .id = -1};
    SL_TRY(sl_onnx_lower_id(l, &val, &in[0]));
    SL_TRY(sl_onnx_emit_plain(l, "less", 2, in, &y));
    SL_TRY(forbid(l, a, y));
    if (a->causal) /* requires j <= i + length - T */
        SL_TRY(by_length(l, a, "less_equal", 0));
    if (a->left >= 0) /* requires i + length - T - j <= left */
        SL_TRY(by_length(l, a, "greater_equal", a->left));
    return a->right >= 0 ? by_length(l, a, "less_equal", -a->right) : SL_OK;
}

/* Adds the masks that depend only on positions. */
static sl_err add_places(struct sl_onnx_lower *l, struct attention *a) {
    const int64_t dim[2] = {a->t, a->s};
    int y;
    if (!a->causal && a->left < 0 && a->right < 0)
        return SL_OK;
    if (a->t > SL_ONNX_KONST_MAX / a->s)
        return sl_onnx_lower_refuse(l, "a mask of this size");
    double *mask = SL_NEW(l->arena, double, a->t * a->s);
    for (int64_t i = 0; i < a->t; i++) {
        bool any = false;
        for (int64_t j = 0; j < a->s; j++) {
            int64_t ahead = j - (i + a->past);
            bool allowed = (!a->causal || ahead <= 0) && (a->left < 0 || -ahead <= a->left) &&
                           (a->right < 0 || ahead <= a->right);
            mask[i * a->s + j] = allowed ? 0 : -INFINITY;
            any = any || allowed;
        }
        a->whole_rows = a->whole_rows && any;
    }
    SL_TRY(sl_onnx_emit_constant(l, 2, dim, mask, &y));
    return add_bias(l, a, y);
}

static sl_err add_mask(struct sl_onnx_lower *l, struct attention *a) {
    struct sl_onnx_emit e;
    int64_t before[SL_MAX_RANK] = {0}, after[SL_MAX_RANK] = {0};
    int mask;
    if (!sl_onnx_lower_has(l, MASK))
        return SL_OK;
    struct sl_onnx_val *val = sl_onnx_lower_val(l, MASK);
    val->is_param = false;
    bool is_bool = val->type == SL_ONNX_BOOL;
    SL_TRY(sl_onnx_lower_in(l, MASK, &mask));
    const struct sl_shape *shape = sl_onnx_lower_shape(l, mask);
    int rank = shape->rank;
    int64_t more = rank ? a->s - shape->dim[rank - 1] : 0;
    if (more > 0 && rank && shape->dim[rank - 1] > 1) {
        after[rank - 1] = more;
        if (is_bool)
            SL_TRY(sl_onnx_emit_plain(l, "to_float", 1, &mask, &mask));
        SL_TRY(sl_onnx_emit_open(l, &e, "pad"));
        sl_onnx_emit_ints(&e, "before", rank, before);
        sl_onnx_emit_ints(&e, "after", rank, after);
        sl_onnx_emit_float(&e, "value", is_bool ? 0 : LEAST);
        SL_TRY(sl_onnx_emit(l, &e, 1, &mask, &mask));
        if (is_bool)
            SL_TRY(sl_onnx_emit_plain(l, "to_int", 1, &mask, &mask));
    }
    a->whole_rows = false;
    return is_bool ? forbid(l, a, mask) : add_bias(l, a, mask);
}

/* Emits probabilities; a row whose keys are all forbidden becomes 0. */
static sl_err probabilities(struct sl_onnx_lower *l, const struct attention *a, int x, int *out) {
    struct sl_onnx_emit e;
    int in[3], least;
    if (a->bias < 0)
        return sl_onnx_emit_plain(l, "softmax", 1, &x, out);
    SL_TRY(sl_onnx_emit_open(l, &e, "clamp"));
    sl_onnx_emit_float(&e, "min", LEAST / 2);
    SL_TRY(sl_onnx_emit(l, &e, 1, &x, &x));
    SL_TRY(sl_onnx_emit_plain(l, "softmax", 1, &x, out));
    if (a->whole_rows)
        return SL_OK;
    SL_TRY(sl_onnx_emit_open(l, &e, "reduce_max"));
    sl_onnx_emit_ints(&e, "axes", 1, (int64_t[]){-1});
    sl_onnx_emit_int(&e, "keep", 1);
    SL_TRY(sl_onnx_emit(l, &e, 1, &a->bias, &in[0]));
    SL_TRY(sl_onnx_emit_filled(l, &(struct sl_shape){0}, LEAST / 2, &least));
    SL_TRY(sl_onnx_emit_plain(l, "greater", 2, (int[]){in[0], least}, &in[0]));
    SL_TRY(sl_onnx_emit_filled(l, &(struct sl_shape){0}, 0, &in[2]));
    in[1] = *out;
    return sl_onnx_emit_plain(l, "where", 3, in, out);
}

static sl_err cap_scores(struct sl_onnx_lower *l, double cap, int *x) {
    if (cap <= 0)
        return SL_OK;
    SL_TRY(sl_onnx_emit_scale(l, *x, 1 / cap, x));
    SL_TRY(sl_onnx_emit_plain(l, "tanh", 1, x, x));
    return sl_onnx_emit_scale(l, *x, cap, x);
}

/* Repeats key heads so that there is one per query head. */
static sl_err repeat_heads(struct sl_onnx_lower *l, const struct attention *a, int *x) {
    if (a->hq == a->hk)
        return SL_OK;
    int64_t *rows = SL_NEW(l->arena, int64_t, a->hq);
    for (int64_t i = 0; i < a->hq; i++)
        rows[i] = i / (a->hq / a->hk);
    return sl_onnx_emit_rows(l, *x, 1, a->hq, rows, x);
}

static sl_err composed(struct sl_onnx_lower *l, struct attention *a, int *y) {
    static const int turned[] = {0, 1, 3, 2};
    int64_t mode = sl_proto_attr_int(l->node, "qk_matmul_output_mode", 0);
    int k = a->k, v = a->v, stages[4];
    SL_TRY(add_mask(l, a));
    SL_TRY(a->lengths >= 0 ? add_lengths(l, a) : add_places(l, a));
    SL_TRY(repeat_heads(l, a, &k));
    SL_TRY(repeat_heads(l, a, &v));
    SL_TRY(sl_onnx_emit_transpose(l, k, turned, &k));
    SL_TRY(sl_onnx_emit_scale(l, a->q, a->scale, &stages[0]));
    SL_TRY(sl_onnx_emit_plain(l, "matmul", 2, (int[]){stages[0], k}, &stages[0]));
    stages[1] = stages[0];
    SL_TRY(cap_scores(l, a->cap, &stages[1]));
    stages[2] = stages[1];
    if (a->bias >= 0)
        SL_TRY(sl_onnx_emit_plain(l, "add", 2, (int[]){stages[1], a->bias}, &stages[2]));
    SL_TRY(probabilities(l, a, stages[2], &stages[3]));
    SL_TRY(sl_onnx_emit_plain(l, "matmul", 2, (int[]){stages[3], v}, y));
    if (mode < 0 || mode > 3)
        return sl_onnx_lower_refuse(l, "qk_matmul_output_mode %lld", (long long)mode);
    sl_onnx_lower_out(l, 3, stages[mode], SL_ONNX_FLOAT);
    return SL_OK;
}

/* Can the op `attention` express the node? It has no masks except the causal one, and no caps. */
static bool is_plain(struct sl_onnx_lower *l, const struct attention *a) {
    const struct sl_shape *v = sl_onnx_lower_shape(l, a->v), *k = sl_onnx_lower_shape(l, a->k);
    return !sl_onnx_lower_has(l, MASK) && a->lengths < 0 && a->left < 0 && a->right < 0 &&
           a->cap <= 0 && (l->node->out_count < 4 || !*l->node->out[3]) &&
           (!a->causal || a->past == a->s - a->t) && v->dim[3] == k->dim[3];
}

static sl_err as_op(struct sl_onnx_lower *l, const struct attention *a, int *y) {
    static const int order[] = {0, 2, 1, 3};
    struct sl_onnx_emit e;
    int in[3];
    SL_TRY(sl_onnx_emit_transpose(l, a->q, order, &in[0]));
    SL_TRY(sl_onnx_emit_transpose(l, a->k, order, &in[1]));
    SL_TRY(sl_onnx_emit_transpose(l, a->v, order, &in[2]));
    SL_TRY(sl_onnx_emit_open(l, &e, "attention"));
    sl_onnx_emit_int(&e, "causal", a->causal);
    sl_onnx_emit_float(&e, "scale", a->scale);
    SL_TRY(sl_onnx_emit(l, &e, 3, in, y));
    return sl_onnx_emit_transpose(l, *y, order, y);
}

sl_err sl_onnx_map_attention(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    static const int order[] = {0, 2, 1, 3};
    struct attention a;
    int y;
    (void)row;
    SL_TRY(open_attention(l, &a));
    sl_onnx_lower_out(l, 1, a.k, SL_ONNX_FLOAT);
    sl_onnx_lower_out(l, 2, a.v, SL_ONNX_FLOAT);
    SL_TRY(is_plain(l, &a) && a.scale != 0 ? as_op(l, &a, &y) : composed(l, &a, &y));
    if (a.flat) {
        SL_TRY(sl_onnx_emit_transpose(l, y, order, &y));
        struct sl_shape shape = *sl_onnx_lower_shape(l, y);
        shape.rank = 3;
        shape.dim[2] *= shape.dim[3];
        SL_TRY(sl_onnx_emit_reshape(l, y, &shape, &y));
    }
    sl_onnx_lower_out(l, 0, y, SL_ONNX_FLOAT);
    return SL_OK;
}

/* ---- RotaryEmbedding ---- */

/* Emits cos or sin as [...,T,1,half]: rows of the cache by position, or one row per place. */
static sl_err angles(struct sl_onnx_lower *l, int input, int *x) {
    struct sl_onnx_emit e;
    int in[2];
    sl_onnx_lower_val(l, input)->is_param = false;
    SL_TRY(sl_onnx_lower_in(l, input, x));
    if (sl_onnx_lower_has(l, 3)) {
        in[0] = *x;
        SL_TRY(sl_onnx_lower_in(l, 3, &in[1]));
        SL_TRY(sl_onnx_emit_open(l, &e, "index_select"));
        sl_onnx_emit_int(&e, "axis", 0);
        SL_TRY(sl_onnx_emit(l, &e, 2, in, x));
    }
    struct sl_shape shape = *sl_onnx_lower_shape(l, *x);
    if (shape.rank < 2 || shape.rank > 3)
        return sl_onnx_lower_refuse(l, "input %d must be [B,T,D/2] or [positions,D/2]", input);
    sl_graph_shape_set(&shape, shape.rank, sl_graph_shape_dim(&shape, -1));
    sl_graph_shape_set(&shape, shape.rank++ - 1, (struct sl_dim){1, false});
    return sl_onnx_emit_reshape(l, *x, &shape, x);
}

/* Splits into the two halves of pairs, [B,T,H,half] each. */
static sl_err halves(struct sl_onnx_lower *l, int x, int64_t half, bool pairs, int out[2]) {
    struct sl_shape shape = *sl_onnx_lower_shape(l, x), flat = shape;
    flat.dim[3] = half;
    for (int i = 0; i < 2 && !pairs; i++)
        SL_TRY(sl_onnx_emit_slice(l, x, 3, i * half, (i + 1) * half, &out[i]));
    if (!pairs)
        return SL_OK;
    SL_TRY(sl_onnx_emit_slice(l, x, 3, 0, 2 * half, &x));
    shape.rank = 5;
    shape.dim[3] = half;
    shape.dim[4] = 2;
    SL_TRY(sl_onnx_emit_reshape(l, x, &shape, &x));
    for (int i = 0; i < 2; i++) {
        SL_TRY(sl_onnx_emit_slice(l, x, 4, i, i + 1, &out[i]));
        SL_TRY(sl_onnx_emit_reshape(l, out[i], &flat, &out[i]));
    }
    return SL_OK;
}

static sl_err join_halves(struct sl_onnx_lower *l, int half[2], bool pairs, int *out) {
    struct sl_onnx_emit e;
    struct sl_shape shape = *sl_onnx_lower_shape(l, half[0]), flat = shape;
    flat.dim[3] *= 2;
    shape.rank = 5;
    shape.dim[4] = 1;
    for (int i = 0; i < 2 && pairs; i++)
        SL_TRY(sl_onnx_emit_reshape(l, half[i], &shape, &half[i]));
    SL_TRY(sl_onnx_emit_open(l, &e, "concat"));
    sl_onnx_emit_int(&e, "axis", pairs ? 4 : 3);
    SL_TRY(sl_onnx_emit(l, &e, 2, half, out));
    return sl_onnx_emit_reshape(l, *out, &flat, out);
}

static sl_err rotate(struct sl_onnx_lower *l, int x, int *out) {
    struct sl_onnx_emit e;
    int part[2], cs[2], term[4], turned[2];
    bool pairs = sl_proto_attr_int(l->node, "interleaved", 0) != 0;
    int64_t d = sl_onnx_lower_shape(l, x)->dim[3];
    int64_t width = sl_proto_attr_int(l->node, "rotary_embedding_dim", 0);
    width = width ? width : d;
    if (width < 2 || width % 2 || width > d)
        return sl_onnx_lower_refuse(l, "rotary_embedding_dim %lld of %lld", (long long)width,
                                    (long long)d);
    SL_TRY(halves(l, x, width / 2, pairs, part));
    for (int i = 0; i < 2; i++)
        SL_TRY(angles(l, 1 + i, &cs[i]));
    for (int i = 0; i < 4; i++) /* products c a, s b, s a, c b */
        SL_TRY(
            sl_onnx_emit_plain(l, "mul", 2, (int[]){part[i & 1], cs[i == 1 || i == 2]}, &term[i]));
    SL_TRY(sl_onnx_emit_plain(l, "sub", 2, (int[]){term[0], term[1]}, &turned[0]));
    SL_TRY(sl_onnx_emit_plain(l, "add", 2, (int[]){term[2], term[3]}, &turned[1]));
    SL_TRY(join_halves(l, turned, pairs, out));
    if (width == d)
        return SL_OK;
    turned[0] = *out;
    SL_TRY(sl_onnx_emit_slice(l, x, 3, width, d, &turned[1]));
    SL_TRY(sl_onnx_emit_open(l, &e, "concat"));
    sl_onnx_emit_int(&e, "axis", 3);
    return sl_onnx_emit(l, &e, 2, turned, out);
}

sl_err sl_onnx_map_rotary(struct sl_onnx_lower *l, const struct sl_onnx_row *row) {
    static const int order[] = {0, 2, 1, 3};
    int x;
    (void)row;
    SL_TRY(sl_onnx_lower_float(l, 0, &x));
    struct sl_shape whole = *sl_onnx_lower_shape(l, x), shape = whole;
    int64_t heads = sl_proto_attr_int(l->node, "num_heads", 0);
    if (whole.rank == 4) {
        SL_TRY(sl_onnx_emit_transpose(l, x, order, &x));
    } else {
        if (whole.rank != 3 || heads < 1 || (whole.batch & ~1u) || whole.dim[2] % heads)
            return sl_onnx_lower_refuse(l, "x must be [B,H,T,D], or [B,T,H D] with 'num_heads'");
        shape.rank = 4;
        shape.dim[3] = whole.dim[2] / heads;
        shape.dim[2] = heads;
        SL_TRY(sl_onnx_emit_reshape(l, x, &shape, &x));
    }
    SL_TRY(rotate(l, x, &x));
    if (whole.rank == 4)
        SL_TRY(sl_onnx_emit_transpose(l, x, order, &x));
    SL_TRY(sl_onnx_emit_reshape(l, x, &whole, &x));
    sl_onnx_lower_out(l, 0, x, SL_ONNX_FLOAT);
    return SL_OK;
}
