/* Exports attention and position encodings. */
#include "emit/ops.h"

#include "op/relative.h"
#include "op/rope.h"

#include <stdlib.h>

enum { Q, K, V, MASK };

static const int64_t heads_first[4] = {0, 2, 1, 3}; /* permutes [B,T,H,D] to [B,H,T,D] and back */

/* Returns keys or values as [B,H,S,D], with each head repeated for the queries that share it. */
static const char *put_heads(struct sl_emit *o, int input) {
    const struct sl_shape *x = sl_emit_shape(o, input);
    int64_t heads = sl_emit_shape(o, Q)->dim[2], group = heads / x->dim[2];
    const char *y = sl_emit_put_turned(o, sl_emit_in(o, input), 4, heads_first);
    const struct sl_shape all = SL_SHAPE(4, x->batch & 1u, x->dim[0], heads, x->dim[1], x->dim[3]);
    if (group == 1)
        return y;
    y = SL_EMIT_PUT(o, "Unsqueeze", y, sl_emit_put_int(o, 2));
    y = SL_EMIT_PUT(o, "Expand", y, sl_emit_put_ints(o, 5, (int64_t[]){1, 1, group, 1, 1}));
    return sl_emit_put_shaped(o, y, &all);
}

/* Returns a mask [T,S]: 0 if the query sees the key, else -inf. */
static const char *put_causal(struct sl_emit *o, int64_t queries, int64_t keys) {
    float *mask = sl_realloc(NULL, sizeof *mask * (size_t)(queries * keys));
    for (int64_t i = 0; i < queries * keys; i++)
        mask[i] = i % keys <= i / keys + keys - queries ? 0 : -INFINITY;
    const char *name = sl_emit_put_table(o, 2, (int64_t[]){queries, keys}, mask);
    free(mask);
    return name;
}

/* Returns the mask [B,S] of integers as [B,1,1,S], to be added. */
static const char *put_padding(struct sl_emit *o) {
    const struct sl_shape *k = sl_emit_shape(o, MASK);
    const struct sl_shape wide = SL_SHAPE(4, k->batch & 1u, k->dim[0], 1, 1, k->dim[1]);
    const char *seen = sl_emit_put_shaped(o, sl_emit_in(o, MASK), &wide);
    seen = sl_emit_put_cast(o, seen, SL_EMIT_TO_BOOL);
    const char *zero = sl_emit_put_number(o, 0), *never = sl_emit_put_number(o, -INFINITY);
    return SL_EMIT_PUT(o, "Where", seen, zero, never);
}

/* Makes the result of a query that sees no key 0, instead of the 0 / 0 of a softmax. */
static const char *put_safe(struct sl_emit *o, const char *share) {
    const char *zero = sl_emit_put_number(o, 0);
    return SL_EMIT_PUT(o, "Where", SL_EMIT_PUT(o, "IsNaN", share), zero, share);
}

void sl_emit_op_attention(struct sl_emit *o, const char *onnx) {
    int64_t queries = sl_emit_shape(o, Q)->dim[1], keys = sl_emit_shape(o, K)->dim[1];
    bool causal = sl_emit_attr(o, "causal")->i != 0, masked = sl_emit_has(o, MASK);
    (void)onnx;
    if (sl_emit_is_read(o, 1))
        sl_emit_refuse(o, "its sums are read");
    const char *q = sl_emit_put_turned(o, sl_emit_in(o, Q), 4, heads_first);
    const char *k = put_heads(o, K), *v = put_heads(o, V);
    k = sl_emit_put_turned(o, k, 4, (int64_t[]){0, 1, 3, 2});
    const char *score = SL_EMIT_PUT(o, "MatMul", q, k);
    score = SL_EMIT_PUT(o, "Mul", score, sl_emit_put_number(o, sl_emit_attr(o, "scale")->f));
    if (causal)
        score = SL_EMIT_PUT(o, "Add", score, put_causal(o, queries, keys));
    if (masked)
        score = SL_EMIT_PUT(o, "Add", score, put_padding(o));
    sl_emit_with_int(o, "axis", -1);
    const char *share = SL_EMIT_PUT(o, "Softmax", score);
    if (masked || (causal && keys < queries))
        share = put_safe(o, share);
    const char *y = SL_EMIT_PUT(o, "MatMul", share, v);
    sl_emit_set(o, 0, sl_emit_put_turned(o, y, 4, heads_first));
}

/* Returns cos or sin of all angles, for every feature: [T,D]. */
static const char *put_angles(struct sl_emit *o, bool sine) {
    const union sl_attr *attr = o->node->attr;
    const struct sl_shape *x = sl_emit_shape(o, 0);
    int64_t t = x->dim[1], d = x->dim[3];
    bool half = attr[SL_ROPE_STYLE].i == SL_ROPE_HALF;
    float *table = sl_realloc(NULL, sizeof *table * (size_t)(t * d));
    for (int64_t i = 0; i < t * d; i++) {
        int64_t pair = half ? i % d % (d / 2) : i % d / 2;
        int64_t position = attr[SL_ROPE_OFFSET].i + i / d;
        double angle = (double)position * sl_op_rope_rate(attr, pair, d);
        double turned = attr[SL_ROPE_INVERSE].i ? -angle : angle;
        table[i] = (float)(sine ? sin(turned) : cos(turned));
    }
    const char *name = sl_emit_put_table(o, 2, (int64_t[]){t, d}, table);
    free(table);
    return name;
}

/* Exchanges the two members of each pair, and negates the second one. */
static const char *put_pairs(struct sl_emit *o, const char *x) {
    const struct sl_shape *in = sl_emit_shape(o, 0);
    bool half = o->node->attr[SL_ROPE_STYLE].i == SL_ROPE_HALF;
    int64_t d = in->dim[3], axis = half ? 3 : 4, size = half ? d / 2 : 1;
    const struct sl_shape turned =
        SL_SHAPE(4, in->batch & 1u, in->dim[0], in->dim[2], in->dim[1], d);
    struct sl_shape pairs = turned;
    pairs.rank = 5;
    pairs.dim[3] = d / 2;
    pairs.dim[4] = 2;
    if (!half)
        x = sl_emit_put_shaped(o, x, &pairs);
    const char *first = sl_emit_put_slice(o, x, axis, 0, size);
    const char *second = SL_EMIT_PUT(o, "Neg", sl_emit_put_slice(o, x, axis, size, 2 * size));
    sl_emit_with_int(o, "axis", axis);
    const char *y = SL_EMIT_PUT(o, "Concat", second, first);
    return half ? y : sl_emit_put_shaped(o, y, &turned);
}

void sl_emit_op_rope(struct sl_emit *o, const char *onnx) {
    const char *x = sl_emit_put_turned(o, sl_emit_in(o, 0), 4, heads_first);
    const char *cosine = put_angles(o, false), *sine = put_angles(o, true);
    const char *straight = SL_EMIT_PUT(o, "Mul", x, cosine);
    const char *across = SL_EMIT_PUT(o, "Mul", put_pairs(o, x), sine);
    const char *y = SL_EMIT_PUT(o, "Add", straight, across);
    (void)onnx;
    sl_emit_set(o, 0, sl_emit_put_turned(o, y, 4, heads_first));
}

void sl_emit_op_relative_bias(struct sl_emit *o, const char *onnx) {
    const struct sl_shape *y = sl_emit_result(o, 0);
    struct sl_relative rule = {sl_emit_shape(o, 0)->dim[0], sl_emit_attr(o, "max_distance")->i,
                               sl_emit_attr(o, "both_sides")->i != 0};
    int64_t count = y->dim[1] * y->dim[2];
    int64_t *bucket = sl_realloc(NULL, sizeof *bucket * (size_t)count);
    (void)onnx;
    for (int64_t i = 0; i < count; i++)
        bucket[i] = sl_op_relative_bucket(&rule, i % y->dim[2] - i / y->dim[2]);
    const char *places = sl_emit_put_places(o, 2, &y->dim[1], bucket);
    free(bucket);
    sl_emit_with_int(o, "axis", 0);
    const char *rows = SL_EMIT_PUT(o, "Gather", sl_emit_in(o, 0), places);
    sl_emit_set(o, 0, sl_emit_put_turned(o, rows, 3, (int64_t[]){2, 0, 1}));
}

/* Computes products of all pairs, and takes the lower triangle. */
void sl_emit_op_interaction(struct sl_emit *o, const char *onnx) {
    const struct sl_shape *x = sl_emit_shape(o, 0), *y = sl_emit_result(o, 0);
    int64_t n = x->dim[1], self = sl_emit_attr(o, "self")->i, at = 0;
    int64_t *place = sl_realloc(NULL, sizeof *place * (size_t)y->dim[1]);
    (void)onnx;
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < i + self; k++)
            place[at++] = i * n + k;
    const char *places = sl_emit_put_places(o, 1, &y->dim[1], place);
    free(place);
    const char *turned = sl_emit_put_turned(o, sl_emit_in(o, 0), 3, (int64_t[]){0, 2, 1});
    const char *all = SL_EMIT_PUT(o, "MatMul", sl_emit_in(o, 0), turned);
    const struct sl_shape flat = SL_SHAPE(2, x->batch & 1u, x->dim[0], n * n);
    all = sl_emit_put_shaped(o, all, &flat);
    sl_emit_with_int(o, "axis", 1);
    sl_emit_set(o, 0, SL_EMIT_PUT(o, "Gather", all, places));
}
