/* attention: softmax(scale q k' + mask) v per head, with grouped queries.
 *
 *   q [B,T,Hq,D]   k, v [B,S,Hk,D]   mask int [B,S], 0 = the key is padding
 *   y [B,T,Hq,D]   lse [B,Hq,T] = log of the sum of exponentials, kept for the backward pass
 *
 * Query head h reads key head h / (Hq / Hk). Causal: query i sees key j if j <= i + S - T, so that
 * the last query sees the last key when T != S. A query that sees no key gives y = 0 and lse = 0;
 * lse stays finite, so exp(score - lse) of a masked key (score -inf) is 0 in any kernel. The
 * backward pass recomputes the probabilities from lse; the T x S matrix is never kept.
 */
#include "op/common.h"

#include <math.h>
#include <string.h>

enum { CAUSAL, SCALE };

struct sizes {
    int64_t b, t, s, hq, hk, d;
    double scale;
    bool causal;
};

static struct sizes sizes_of(const struct sl_shape *q, const struct sl_shape *k,
                             const union sl_attr *attr) {
    return (struct sizes){
        .b = q->dim[0],
        .t = q->dim[1],
        .s = k->dim[1],
        .hq = q->dim[2],
        .hk = k->dim[2],
        .d = q->dim[3],
        .scale = attr[SCALE].f,
        .causal = attr[CAUSAL].i != 0,
    };
}

static sl_err check_shapes(const struct sl_infer *c) {
    char q[SL_SHAPE_TEXT], k[SL_SHAPE_TEXT], v[SL_SHAPE_TEXT], mask[SL_SHAPE_TEXT];
    const struct sl_shape *in = c->in;
    sl_graph_shape_text(&in[0], q);
    sl_graph_shape_text(&in[1], k);
    if (in[0].rank != 4 || in[1].rank != 4 || ((in[0].batch | in[1].batch) & ~1u))
        return sl_graph_infer_fail(c, "q must be [B,T,Hq,D] and k [B,S,Hk,D], they are %s and %s",
                                   q, k);
    if (!sl_graph_shape_equal(&in[1], &in[2]))
        return sl_graph_infer_fail(c, "k %s and v %s differ", k, sl_graph_shape_text(&in[2], v));
    if (!sl_graph_dim_equal(sl_graph_shape_dim(&in[0], 0), sl_graph_shape_dim(&in[1], 0)) ||
        in[0].dim[3] != in[1].dim[3])
        return sl_graph_infer_fail(c, "q %s and k %s differ in samples or head size", q, k);
    if (in[0].dim[2] % in[1].dim[2])
        return sl_graph_infer_fail(c,
                                   "the %lld heads of q %s are not a multiple of the %lld of k %s",
                                   (long long)in[0].dim[2], q, (long long)in[1].dim[2], k);
    const struct sl_shape want = SL_SHAPE(2, in[1].batch, in[1].dim[0], in[1].dim[1]);
    if (c->present[3] && !sl_graph_shape_equal(&in[3], &want))
        return sl_graph_infer_fail(c, "mask %s does not match k %s: it must be [B,S]",
                                   sl_graph_shape_text(&in[3], mask), k);
    return SL_OK;
}

static sl_err infer(struct sl_infer *c) {
    for (int i = 0; i < 3; i++)
        SL_TRY(sl_op_need_float(c, i));
    SL_TRY(sl_op_need_int(c, 3));
    SL_TRY(check_shapes(c));
    const struct sl_shape *q = &c->in[0];
    if (!isfinite(c->attr[SCALE].f))
        return sl_graph_infer_fail(c, "'scale' must be finite");
    if (c->attr[SCALE].f == 0)
        c->attr[SCALE].f = 1 / sqrt((double)q->dim[3]);
    c->out[0] = *q;
    c->out[1] = SL_SHAPE(3, q->batch, q->dim[0], q->dim[2], q->dim[1]);
    return SL_OK;
}

/* Returns the number of (query, visible key) pairs; counts padding as visible. */
static double visible_pairs(const struct sizes *z) {
    double t = (double)z->t, s = (double)z->s, per_head = t * s;
    if (z->causal)
        per_head = s >= t ? t * (s - t) + t * (t + 1) / 2 : s * (s + 1) / 2;
    return (double)z->b * (double)z->hq * per_head;
}

/* Per pair two products, then scale, maximum, difference, exponential and sum. */
static double flops(const struct sl_op_view *v) {
    struct sizes z = sizes_of(&v->in[0], &v->in[1], v->attr);
    return visible_pairs(&z) * (4.0 * (double)z.d + 5);
}

static int grad(struct sl_grad *g, int input) {
    if (!sl_op_grad_flows(g, 1))
        return -1;
    int in[7] = {g->dout[0], g->in[0], g->in[1], g->in[2], g->out[0], g->out[1]};
    in[6] = sl_graph_grad_input(g, 3);
    int first = sl_graph_grad_emit(g, "attention_dqkv", 7, in, g->attr);
    return sl_graph_grad_output(g, first, input);
}

/* One query of one head, with the keys and values of that head. */
struct row {
    const double *q, *k, *v; /* k, v: [S] rows that are `stride` apart */
    const int32_t *mask;     /* [S] or NULL */
    int64_t keys;            /* number of keys that the causal mask admits, from the first on */
    int64_t stride;
};

static struct row row_at(const struct sizes *z, const struct sl_array *q,
                         const struct sl_array *mask, int64_t b, int64_t h, int64_t t) {
    int64_t keys = z->causal ? t + z->s - z->t + 1 : z->s;
    return (struct row){
        .q = q[0].f + ((b * z->t + t) * z->hq + h) * z->d,
        .k = q[1].f + (b * z->s * z->hk + h / (z->hq / z->hk)) * z->d,
        .v = q[2].f + (b * z->s * z->hk + h / (z->hq / z->hk)) * z->d,
        .mask = mask->i ? mask->i + b * z->s : NULL,
        .keys = keys > 0 ? keys : 0,
        .stride = z->hk * z->d,
    };
}

static double dot(const double *a, const double *b, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

/* Returns the score of key j; -inf if it is masked. */
static double score(const struct sizes *z, const struct row *row, int64_t j) {
    if (row->mask && !row->mask[j])
        return -INFINITY;
    return z->scale * dot(row->q, row->k + j * row->stride, z->d);
}

static void attend(const struct sizes *z, const struct row *row, double *y, double *lse) {
    double max = -INFINITY, sum = 0;
    memset(y, 0, sizeof *y * (size_t)z->d);
    *lse = 0;
    for (int64_t j = 0; j < row->keys; j++)
        max = fmax(max, score(z, row, j));
    if (max == -INFINITY)
        return;
    for (int64_t j = 0; j < row->keys; j++) {
        double p = exp(score(z, row, j) - max);
        sum += p;
        for (int64_t i = 0; i < z->d; i++)
            y[i] += p * row->v[j * row->stride + i];
    }
    for (int64_t i = 0; i < z->d; i++)
        y[i] /= sum;
    *lse = max + log(sum);
}

static void ref(const struct sl_ref *r) {
    struct sizes z = sizes_of(&r->in[0].shape, &r->in[1].shape, r->attr);
    for (int64_t b = 0; b < z.b; b++)
        for (int64_t h = 0; h < z.hq; h++)
            for (int64_t t = 0; t < z.t; t++) {
                struct row row = row_at(&z, r->in, &r->in[3], b, h, t);
                attend(&z, &row, r->out[0].f + ((b * z.t + t) * z.hq + h) * z.d,
                       r->out[1].f + (b * z.hq + h) * z.t + t);
            }
}

static const struct sl_attr_desc attrs[] = {
    {"causal", SL_ATTR_BOOL, "0", NULL},
    {"scale", SL_ATTR_FLOAT, "0", NULL}, /* 0: 1 / sqrt(D) */
    {0},
};

SL_OP_ROW(attention, "scaled dot-product attention: causal, cross, padding mask, grouped queries",
          "q k v mask?", "y lse", .divide = SL_DIVIDE_HEADS, .attrs = attrs,
          .layer = SL_LAYER_ATTENTION, .exact_out = 2, .strided_in = 7, .infer = infer,
          .flops = flops, .grad = grad, .ref = ref)

static sl_err infer_grad(struct sl_infer *c) {
    for (int i = 0; i < 3; i++)
        c->out[i] = c->in[1 + i];
    return SL_OK;
}

/* Per pair five products (scores, dp, dq, dk, dv), then exponential, difference and two factors. */
static double flops_grad(const struct sl_op_view *v) {
    struct sizes z = sizes_of(&v->in[1], &v->in[2], v->attr);
    return visible_pairs(&z) * (10.0 * (double)z.d + 5);
}

struct row_grad {
    const double *y, *dy;
    double lse;
    double *dq, *dk, *dv; /* dk, dv: [S] rows like k and v */
};

/*  dv_j += p_j dy   ds_j = p_j (dy v_j - dy y) scale   dq += ds_j k_j   dk_j += ds_j q */
static void attend_back(const struct sizes *z, const struct row *row, const struct row_grad *g) {
    double delta = dot(g->dy, g->y, z->d);
    for (int64_t j = 0; j < row->keys; j++) {
        int64_t at = j * row->stride;
        double p = exp(score(z, row, j) - g->lse);
        double ds = p * (dot(g->dy, row->v + at, z->d) - delta) * z->scale;
        for (int64_t i = 0; i < z->d; i++) {
            g->dv[at + i] += p * g->dy[i];
            g->dq[i] += ds * row->k[at + i];
            g->dk[at + i] += ds * row->q[i];
        }
    }
}

static void ref_grad(const struct sl_ref *r) {
    struct sizes z = sizes_of(&r->in[1].shape, &r->in[2].shape, r->attr);
    for (int i = 0; i < 3; i++)
        memset(r->out[i].f, 0, sizeof(double) * (size_t)sl_op_numel(&r->out[i].shape));
    for (int64_t b = 0; b < z.b; b++)
        for (int64_t h = 0; h < z.hq; h++)
            for (int64_t t = 0; t < z.t; t++) {
                struct row row = row_at(&z, r->in + 1, &r->in[6], b, h, t);
                int64_t query = row.q - r->in[1].f, key = row.k - r->in[2].f;
                attend_back(&z, &row,
                            &(struct row_grad){
                                .y = r->in[4].f + query,
                                .dy = r->in[0].f + query,
                                .lse = r->in[5].f[(b * z.hq + h) * z.t + t],
                                .dq = r->out[0].f + query,
                                .dk = r->out[1].f + key,
                                .dv = r->out[2].f + key,
                            });
            }
}

SL_OP_ROW(attention_dqkv, "gradients of attention with respect to q, k and v",
          "dy q k v y lse mask?", "dq dk dv", .attrs = attrs, .internal = true,
          .layer = SL_LAYER_ATTENTION, .strided_in = 14, .strided_out = 7, .infer = infer_grad,
          .flops = flops_grad, .ref = ref_grad)
