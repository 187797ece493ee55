#include "decode/ops.h"

#include "op/common.h"
#include "op/rope.h"

static const struct sl_attr_desc axis_attrs[] = {
    {"axis", SL_ATTR_INT, NULL, NULL}, {"length", SL_ATTR_INT, NULL, NULL}, {0}};

/* Shape inference: the result has the batch first, even if x has no batch. */
static sl_err infer_rows(struct sl_infer *c) {
    const struct sl_shape *x = &c->in[0];
    int64_t axis = c->attr[SL_DECODE_AXIS].i;
    struct sl_shape *y = &c->out[0];
    *y = *x;
    c->out_dtype[0] = c->in_dtype[0];
    if (!(x->batch & 1)) {
        if (x->rank == SL_MAX_RANK)
            return sl_graph_infer_fail(c, "too many axes");
        y->rank = x->rank + 1;
        y->batch = 1;
        y->dim[0] = 1;
        for (int k = 0; k < x->rank; k++)
            y->dim[k + 1] = x->dim[k];
        axis++;
    }
    y->dim[axis] = c->attr[SL_DECODE_LENGTH].i;
    return SL_OK;
}

const struct sl_op sl_decode_rows = {.name = "decode_rows",
                                     .brief = "rows of the tokens of this chunk",
                                     .inputs = "x past",
                                     .outputs = "y",
                                     .internal = true,
                                     .attrs = axis_attrs,
                                     .infer = infer_rows,
                                     .flops = sl_op_flops_none};

static sl_err infer_pick(struct sl_infer *c) {
    c->out[0] = c->in[0];
    c->out[0].dim[1] = 1;
    return SL_OK;
}

const struct sl_op sl_decode_pick = {.name = "decode_pick",
                                     .brief = "one row of each sequence",
                                     .inputs = "x last",
                                     .outputs = "y",
                                     .internal = true,
                                     .infer = infer_pick,
                                     .flops = sl_op_flops_none};

static sl_err infer_put(struct sl_infer *c) {
    c->out[0] = c->in[2];
    return SL_OK;
}

const struct sl_op sl_decode_put = {.name = "decode_put",
                                    .brief = "write rows into a cache",
                                    .inputs = "cache x past",
                                    .outputs = "done",
                                    .internal = true,
                                    .attrs = axis_attrs,
                                    .strided_in = 2,
                                    .infer = infer_put,
                                    .flops = sl_op_flops_none};

static sl_err infer_cache(struct sl_infer *c) {
    c->out[0] = c->attr[0].shape;
    return SL_OK;
}

static const struct sl_attr_desc cache_attrs[] = {{"shape", SL_ATTR_SHAPE, NULL, NULL}, {0}};

const struct sl_op sl_decode_cache = {.name = "decode_cache",
                                      .brief = "a cache after a write",
                                      .inputs = "cache done",
                                      .outputs = "y",
                                      .internal = true,
                                      .is_view = true,
                                      .attrs = cache_attrs,
                                      .infer = infer_cache,
                                      .flops = sl_op_flops_none};

/* ---- rope: the attributes of the op rope ---- */

static const struct sl_attr_desc rope_attrs[] = {
    {"base", SL_ATTR_FLOAT, "10000", NULL},
    {"offset", SL_ATTR_INT, "0", NULL},
    {"style", SL_ATTR_ENUM, "half", "half|interleaved"},
    {"scale", SL_ATTR_FLOAT, "1", NULL},
    {"inverse", SL_ATTR_BOOL, "0", NULL},
    {"ramp", SL_ATTR_ENUM, "none", "none|frequency|index"},
    {"low", SL_ATTR_FLOAT, "0", NULL},
    {"high", SL_ATTR_FLOAT, "1", NULL},
    {0},
};

static double rope_flops(const struct sl_op_view *v) {
    return 3.0 * (double)sl_op_numel(&v->out[0]);
}

const struct sl_op sl_decode_rope = {.name = "decode_rope",
                                     .brief = "rope at the positions of this chunk",
                                     .inputs = "x past",
                                     .outputs = "y",
                                     .internal = true,
                                     .attrs = rope_attrs,
                                     .infer = sl_op_infer_same,
                                     .flops = rope_flops};

/* ---- attention: the attributes of the op attention ---- */

static sl_err infer_attention(struct sl_infer *c) {
    const struct sl_shape *q = &c->in[0];
    c->out[0] = *q;
    c->out[1] = SL_SHAPE(3, q->batch, q->dim[0], q->dim[2], q->dim[1]);
    return SL_OK;
}

/* Counts flops as if every query saw half of the keys. */
static double attention_flops(const struct sl_op_view *v) {
    double pairs = (double)sl_op_numel(&v->out[1]) * (double)v->in[1].dim[1] / 2;
    return pairs * (4.0 * (double)v->in[0].dim[3] + 5);
}

static const struct sl_attr_desc attention_attrs[] = {
    {"causal", SL_ATTR_BOOL, "0", NULL}, {"scale", SL_ATTR_FLOAT, "0", NULL}, {0}};

const struct sl_op sl_decode_attention = {.name = "decode_attention",
                                          .brief = "attention to cached keys and values",
                                          .inputs = "q k v past",
                                          .outputs = "y lse",
                                          .internal = true,
                                          .layer = SL_LAYER_ATTENTION,
                                          .attrs = attention_attrs,
                                          .strided_in = 1,
                                          .infer = infer_attention,
                                          .flops = attention_flops};
