/* Ops at the border of a tensor-parallel region (shard/shard.h). Inside a region, each of t
 * shards computes a part of the tensors; outside, all compute the same.
 *
 *   shard_enter   x -> y           into the region, one shard: y is x; backward: shard_sum
 *   shard_fan     x -> y0 y1 ...   the same for all shards of one worker: each y is a copy of x
 *   shard_sum     x0 x1 ... -> y   out of it: y = (x0 + x1) + ..., in this order; backward: dy to each
 *
 * shard_sum with fewer inputs than its attribute `of` is a collective: the other terms belong to other
 * workers. The op then returns its own term, and the runner adds the terms of all shards in
 * place (pipe/shards.c). So a graph with all shards on one worker and t graphs with one shard
 * each compute the same bits. In the backward pass the gradient of a shard_sum goes to every
 * shard. All shards compute the ops around the region, and only one of them counts its loss
 * (sl_loss.echo). */
#include "op/common.h"

static int grad_enter(struct sl_grad *g, int input) {
    (void)input;
    return sl_graph_grad_emit(g, "shard_sum", 1, &g->dout[0], g->attr);
}

static void ref_copy(const struct sl_ref *r) {
    for (int o = 0; o < r->out_count; o++)
        for (int64_t i = 0, count = sl_op_numel(&r->out[o].shape); i < count; i++)
            sl_op_array_copy(&r->out[o], i, &r->in[0], i);
}

static const struct sl_attr_desc attrs_of[] = {{"of", SL_ATTR_INT, "1", NULL}, {0}};

SL_OP_ROW(shard_enter, "a tensor that enters a tensor-parallel region, for one shard", "x", "y",
          .attrs = attrs_of, .internal = true, .is_view = true, .infer = sl_op_infer_same,
          .flops = sl_op_flops_none, .grad = grad_enter, .ref = ref_copy)

static sl_err infer_fan(struct sl_infer *c) {
    if (c->attr[0].i < 2 || c->attr[0].i > SL_MAX_OUT)
        return sl_graph_infer_fail(c, "of = %lld must be in 2..%d", (long long)c->attr[0].i,
                                   SL_MAX_OUT);
    c->out_count = (int)c->attr[0].i;
    for (int i = 0; i < c->out_count; i++)
        c->out[i] = c->in[0];
    return sl_op_need_float(c, 0);
}

static int grad_fan(struct sl_grad *g, int input) {
    int of = (int)g->attr[0].i;
    (void)input;
    for (int i = 0; i < of; i++)
        if (g->dout[i] < 0)
            return -1; /* all shards are equal: no gradient reaches any of them */
    return sl_graph_grad_emit(g, "shard_sum", of, g->dout, g->attr);
}

SL_OP_ROW(shard_fan, "a tensor that enters a tensor-parallel region, for all shards", "x",
          "y0 y1 y2 y3 y4 y5 y6 y7", .grad_outputs = SL_MAX_OUT, .attrs = attrs_of,
          .internal = true, .infer = infer_fan, .flops = sl_op_flops_none, .grad = grad_fan,
          .ref = ref_copy)

static sl_err infer_sum(struct sl_infer *c) {
    char first[SL_SHAPE_TEXT], other[SL_SHAPE_TEXT];
    if (c->attr[0].i < c->in_count || (c->in_count > 1 && c->attr[0].i != c->in_count))
        return sl_graph_infer_fail(c, "of = %lld with %d inputs: expected all terms, or one",
                                   (long long)c->attr[0].i, c->in_count);
    for (int i = 0; i < c->in_count; i++) {
        SL_TRY(sl_op_need_float(c, i));
        if (!sl_graph_shape_equal(&c->in[0], &c->in[i]))
            return sl_graph_infer_fail(c, "terms have shapes %s and %s",
                                       sl_graph_shape_text(&c->in[0], first),
                                       sl_graph_shape_text(&c->in[i], other));
    }
    c->out[0] = c->in[0];
    return SL_OK;
}

static double flops_sum(const struct sl_op_view *v) {
    return (double)(v->in_count - 1) * (double)sl_op_numel(&v->out[0]);
}

static int grad_sum(struct sl_grad *g, int input) {
    (void)input;
    return g->dout[0];
}

static void ref_sum(const struct sl_ref *r) {
    for (int64_t i = 0, count = sl_op_numel(&r->out[0].shape); i < count; i++) {
        r->out[0].f[i] = r->in[0].f[i];
        for (int k = 1; k < r->in_count; k++)
            r->out[0].f[i] += r->in[k].f[i];
    }
}

SL_OP_ROW(shard_sum, "the sum of the terms of all shards, in order", "xs*", "y", .attrs = attrs_of,
          .internal = true, .collective = true, .infer = infer_sum, .flops = flops_sum,
          .grad = grad_sum, .ref = ref_sum)
