/* attention as graphs of cuDNN operations, in the form that its fused engines recognise:
 *
 *   forward    s = scale q k'      hidden keys get -inf      lse = max + log sum exp(s - max)
 *              p = softmax(s)      y = p v
 *   backward   dots = sum dy y     p = exp(s - lse)       dv = p' dy
 *              ds = p (dy v' - dots) scale                dk = ds' q      dq = ds k
 *
 * dq is one product with the stored ds, which makes it deterministic; blocks that add to dq in
 * any order would not be. This needs a workspace of batch x heads x T x S 16-bit elements. */
#include "device/cuda/attention_dnn.h"

#include "device/cuda/dnn_graph.h"

#include <math.h>

enum { Q = 1, K, V, Y, LSE, DY, DQ, DK, DV, DOTS, SCALE, LOWEST, ONE, QUERIES, KEYS };

static const cudnnDataType_t full = CUDNN_DATA_FLOAT;

/* ---- tensors: [batch, heads, positions, width] and [batch, heads, queries, keys] ---- */

static sl_dnn_tensor turned(sl_dnn_tensor t) {
    sl_dnn_tensor other = t;
    other.dim[2] = t.dim[3];
    other.dim[3] = t.dim[2];
    other.stride[2] = t.stride[3];
    other.stride[3] = t.stride[2];
    return other;
}

static sl_dnn_tensor rows(const struct sl_dnn_attention *z, int64_t positions, int64_t row) {
    return (sl_dnn_tensor){NULL,
                           sl_half_dnn(z->half),
                           {z->batch, z->heads, positions, z->width},
                           {positions * row, z->width, row, 1}};
}

static sl_dnn_tensor scores(const struct sl_dnn_attention *z, cudnnDataType_t type) {
    int64_t plane = z->queries * z->keys;
    return (sl_dnn_tensor){NULL,
                           type,
                           {z->batch, z->heads, z->queries, z->keys},
                           {z->heads * plane, plane, z->keys, 1}};
}

static sl_dnn_tensor column(const struct sl_dnn_attention *z) {
    return (sl_dnn_tensor){
        NULL, full, {z->batch, z->heads, z->queries, 1}, {z->heads * z->queries, z->queries, 1, 1}};
}

static sl_dnn_tensor memory(struct sl_dnn_graph *g, int64_t id, sl_dnn_tensor like) {
    return sl_cuda_dnn_memory(g, id, &like);
}
static sl_dnn_tensor inner(struct sl_dnn_graph *g, sl_dnn_tensor like) {
    return sl_cuda_dnn_inner(g, &like);
}

/* ---- graphs ---- */

static void combine(struct sl_dnn_graph *g, cudnnPointwiseMode_t mode, sl_dnn_tensor x,
                    sl_dnn_tensor b, sl_dnn_tensor y) {
    struct sl_cuda_dnn_map map = {.mode = mode, .x = &x, .b = &b, .math = full};
    sl_cuda_dnn_map(g, &map, y);
}

/* Returns for each score the index of its row (axis 2) or column (axis 3). */
static sl_dnn_tensor places(struct sl_dnn_graph *g, sl_dnn_tensor s, int64_t axis,
                            cudnnDataType_t math) {
    struct sl_cuda_dnn_map map = {
        .mode = CUDNN_POINTWISE_GEN_INDEX, .x = &s, .math = math, .axis = axis};
    sl_dnn_tensor like = s;
    like.type = CUDNN_DATA_INT32;
    sl_dnn_tensor y = sl_cuda_dnn_inner(g, &like);
    sl_cuda_dnn_map(g, &map, y);
    return y;
}

static sl_dnn_tensor decide(struct sl_dnn_graph *g, cudnnPointwiseMode_t mode, sl_dnn_tensor x,
                            sl_dnn_tensor b) {
    struct sl_cuda_dnn_map map = {.mode = mode, .x = &x, .b = &b, .math = CUDNN_DATA_BOOLEAN};
    sl_dnn_tensor like = x;
    like.type = CUDNN_DATA_BOOLEAN;
    sl_dnn_tensor y = sl_cuda_dnn_inner(g, &like);
    sl_cuda_dnn_map(g, &map, y);
    return y;
}

/* How many queries and keys of each sample are not padding. Without a mask there are no such
 * counts. */
struct counts {
    sl_dnn_tensor queries, keys;
    const sl_dnn_tensor *q, *k; /* NULL without a mask */
};

static void make_counts(struct sl_dnn_graph *g, const struct sl_dnn_attention *z,
                        struct counts *c) {
    sl_dnn_tensor like = {NULL, CUDNN_DATA_INT32, {z->batch, 1, 1, 1}, {1, 1, 1, 1}};
    *c = (struct counts){.q = NULL};
    if (!z->masked)
        return;
    c->queries = memory(g, QUERIES, like);
    c->keys = memory(g, KEYS, like);
    c->q = &c->queries;
    c->k = &c->keys;
}

/* Sets the scores of later keys (causal) or of padding to -inf. */
static sl_dnn_tensor hide(struct sl_dnn_graph *g, const struct sl_dnn_attention *z,
                          const struct counts *c, sl_dnn_tensor s) {
    if (!z->causal && !z->masked)
        return s;
    cudnnDataType_t math = z->masked ? CUDNN_DATA_INT32 : full;
    sl_dnn_tensor lowest = sl_cuda_dnn_number(g, LOWEST);
    sl_dnn_tensor query = places(g, s, 2, math), key = places(g, s, 3, math), sees;
    if (z->masked)
        sees = decide(g, CUDNN_POINTWISE_LOGICAL_AND,
                      decide(g, CUDNN_POINTWISE_CMP_LT, query, c->queries),
                      decide(g, CUDNN_POINTWISE_CMP_LT, key, c->keys));
    else
        sees = decide(g, CUDNN_POINTWISE_CMP_GE, query, key);
    sl_dnn_tensor y = sl_cuda_dnn_inner(g, &s);
    struct sl_cuda_dnn_map select = {
        .mode = CUDNN_POINTWISE_BINARY_SELECT, .x = &s, .b = &lowest, .t = &sees, .math = full};
    sl_cuda_dnn_map(g, &select, y);
    return y;
}

static void make_forward(struct sl_dnn_graph *g, const struct sl_dnn_attention *z) {
    sl_dnn_tensor q = memory(g, Q, rows(z, z->queries, z->q_row));
    sl_dnn_tensor k = memory(g, K, turned(rows(z, z->keys, z->k_row)));
    sl_dnn_tensor v = memory(g, V, rows(z, z->keys, z->v_row));
    sl_dnn_tensor y = memory(g, Y, rows(z, z->queries, z->heads * z->width));
    sl_dnn_tensor lse = memory(g, LSE, column(z));
    sl_dnn_tensor s = inner(g, scores(z, full)), max = inner(g, column(z));
    sl_dnn_tensor sum = inner(g, column(z)), p = inner(g, scores(z, sl_half_dnn(z->half)));
    sl_dnn_tensor scale = sl_cuda_dnn_number(g, SCALE);
    struct counts c;
    make_counts(g, z, &c);
    sl_cuda_dnn_matmul_upto(g, q, k, s, (struct sl_dnn_upto){.m = c.q, .n = c.k});
    s = hide(g, z, &c, sl_cuda_dnn_mapped(g, CUDNN_POINTWISE_MUL, s, &scale));
    sl_cuda_dnn_reduce(g, CUDNN_REDUCE_TENSOR_MAX, s, max);
    s = sl_cuda_dnn_mapped(g, CUDNN_POINTWISE_SUB, s, &max);
    s = sl_cuda_dnn_mapped(g, CUDNN_POINTWISE_EXP, s, NULL);
    sl_cuda_dnn_reduce(g, CUDNN_REDUCE_TENSOR_ADD, s, sum);
    combine(g, CUDNN_POINTWISE_ADD, max, sl_cuda_dnn_mapped(g, CUDNN_POINTWISE_LOG, sum, NULL),
            lse);
    combine(g, CUDNN_POINTWISE_DIV, s, sum, p);
    sl_cuda_dnn_matmul_upto(g, p, v, y, (struct sl_dnn_upto){.m = c.q, .k = c.k});
}

/* dots = 1 * the sum of dy y over the features of a head. The engines recognise only the form with
 * the factor 1. */
static sl_dnn_tensor make_dots(struct sl_dnn_graph *g, const struct sl_dnn_attention *z,
                               sl_dnn_tensor dy) {
    int64_t row = z->heads * z->width;
    sl_dnn_tensor y = memory(g, Y, rows(z, z->queries, row)), one = sl_cuda_dnn_number(g, ONE);
    sl_dnn_tensor like = rows(z, z->queries, row), sum = inner(g, column(z));
    like.type = full;
    /* the value is never stored, but the engines expect these strides */
    like.stride[1] = z->queries * z->width;
    sl_dnn_tensor product = sl_cuda_dnn_inner(g, &like), dots = memory(g, DOTS, column(z));
    combine(g, CUDNN_POINTWISE_MUL, dy, y, product);
    sl_cuda_dnn_reduce(g, CUDNN_REDUCE_TENSOR_ADD, product, sum);
    combine(g, CUDNN_POINTWISE_MUL, sum, one, dots);
    return dots;
}

static void make_backward(struct sl_dnn_graph *g, const struct sl_dnn_attention *z) {
    sl_dnn_tensor q = memory(g, Q, rows(z, z->queries, z->q_row));
    sl_dnn_tensor k = memory(g, K, turned(rows(z, z->keys, z->k_row)));
    sl_dnn_tensor v = memory(g, V, turned(rows(z, z->keys, z->v_row)));
    sl_dnn_tensor dy = memory(g, DY, rows(z, z->queries, z->heads * z->width));
    sl_dnn_tensor dq = memory(g, DQ, rows(z, z->queries, z->dq_row));
    sl_dnn_tensor dk = memory(g, DK, rows(z, z->keys, z->dk_row));
    sl_dnn_tensor dv = memory(g, DV, rows(z, z->keys, z->dv_row));
    sl_dnn_tensor scale = sl_cuda_dnn_number(g, SCALE), lse = memory(g, LSE, column(z));
    sl_dnn_tensor dots = make_dots(g, z, dy);
    sl_dnn_tensor s = inner(g, scores(z, full)), dp = inner(g, scores(z, full));
    sl_dnn_tensor p_turned = inner(g, turned(scores(z, sl_half_dnn(z->half))));
    sl_dnn_tensor ds_turned = inner(g, turned(scores(z, sl_half_dnn(z->half))));
    sl_dnn_tensor k_rows = inner(g, rows(z, z->keys, z->k_row));
    struct counts c;
    make_counts(g, z, &c);
    struct sl_dnn_upto of_scores = {.m = c.q, .n = c.k}, of_keys = {.m = c.k, .k = c.q};
    sl_cuda_dnn_matmul_upto(g, q, k, s, of_scores);
    s = sl_cuda_dnn_mapped(g, CUDNN_POINTWISE_MUL, s, &scale);
    s = hide(g, z, &c, sl_cuda_dnn_mapped(g, CUDNN_POINTWISE_SUB, s, &lse));
    sl_dnn_tensor p = sl_cuda_dnn_mapped(g, CUDNN_POINTWISE_EXP, s, NULL);
    sl_cuda_dnn_reshape(g, p, p_turned);
    sl_cuda_dnn_matmul_upto(g, p_turned, dy, dv, of_keys);
    sl_cuda_dnn_matmul_upto(g, dy, v, dp, of_scores);
    dp = sl_cuda_dnn_mapped(g, CUDNN_POINTWISE_SUB, dp, &dots);
    dp = sl_cuda_dnn_mapped(g, CUDNN_POINTWISE_MUL, dp, &p);
    sl_dnn_tensor ds = sl_cuda_dnn_mapped(g, CUDNN_POINTWISE_MUL, dp, &scale);
    sl_cuda_dnn_reshape(g, ds, ds_turned);
    sl_cuda_dnn_matmul_upto(g, ds_turned, q, dk, of_keys);
    sl_cuda_dnn_reshape(g, k, k_rows);
    sl_cuda_dnn_matmul_upto(g, ds, k_rows, dq, (struct sl_dnn_upto){.m = c.q, .k = c.k});
}

/* ---- plans ---- */

static void make_graph(struct sl_dnn_graph *g, const void *key) {
    const struct sl_dnn_attention *z = key;
    (z->backward ? make_backward : make_forward)(g, z);
}

static struct sl_dnn_graph *find(struct sl_cuda_device *cuda, const struct sl_dnn_attention *key) {
    return sl_cuda_dnn_find(cuda, key, sizeof *key, make_graph);
}

int64_t sl_cuda_dnn_attention_bytes(struct sl_cuda_device *cuda,
                                    const struct sl_dnn_attention *key) {
    struct sl_dnn_graph *g = find(cuda, key);
    return g ? g->workspace_bytes : -1;
}

sl_err sl_cuda_dnn_attention_run(struct sl_cuda_device *cuda, const struct sl_dnn_attention *key,
                                 const struct sl_dnn_attention_io *io) {
    static const float one = 1, lowest = -INFINITY;
    struct sl_dnn_graph *g = find(cuda, key);
    struct sl_dnn_binding b = {.workspace = io->workspace};
    if (!g)
        return sl_fail(SL_ERR_REFUSED, "cuDNN has no attention of this shape");
    sl_cuda_dnn_bind(&b, Q, io->q);
    sl_cuda_dnn_bind(&b, K, io->k);
    sl_cuda_dnn_bind(&b, V, io->v);
    sl_cuda_dnn_bind(&b, Y, io->y);
    sl_cuda_dnn_bind(&b, LSE, io->lse);
    sl_cuda_dnn_bind(&b, SCALE, &io->scale);
    if (key->causal || key->masked)
        sl_cuda_dnn_bind(&b, LOWEST, &lowest);
    if (key->masked) {
        sl_cuda_dnn_bind(&b, QUERIES, io->query_counts);
        sl_cuda_dnn_bind(&b, KEYS, io->key_counts);
    }
    if (key->backward) {
        sl_cuda_dnn_bind(&b, DY, io->dy);
        sl_cuda_dnn_bind(&b, DQ, io->dq);
        sl_cuda_dnn_bind(&b, DK, io->dk);
        sl_cuda_dnn_bind(&b, DV, io->dv);
        sl_cuda_dnn_bind(&b, DOTS, io->dots);
        sl_cuda_dnn_bind(&b, ONE, &one);
    }
    SL_TRY(SL_CUDNN(cudnnSetStream(cuda->dnn, io->stream)));
    return sl_cuda_dnn_run(g, cuda->dnn, &b);
}
