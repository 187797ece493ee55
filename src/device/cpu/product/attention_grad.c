/* attention_dqkv: one thread computes the gradients of one key head and its query heads.
 *
 * Recomputes the probabilities from lse, BACK queries by BACK keys at a time, with keys along
 * the lanes. q is scaled already; delta = dy . y for each query:
 *
 *   p = exp(q k' - lse)      dp = dy v'      ds = p (dp - delta)
 *   dv' [D, keys] += dy' p   dk' [D, keys] += q' ds   dq' [D, queries] += k' ds'
 *
 * In the second row of formulas dy, q and k are read in place: D runs down their rows. Only ds
 * is transposed. Sums run over heads, blocks of keys and blocks of queries in this order, for
 * any number of threads. */
#include "device/cpu/kernels.h"
#include "device/cpu/product/attention_heads.h"
#include "device/cpu/vec_math.h"
#include "device/cpu/vec_transpose.h"

enum { BACK = 64 }; /* a multiple of NR */

/* What one thread works on. */
struct attend_back {
    struct sl_attention z;
    const float *q, *k, *v, *dy, *y, *lse;
    float *dq, *dk, *dv;
    float *k_lanes, *v_lanes, *dk_lanes, *dv_lanes; /* [S / NR, D, NR] */
    float *q_slivers, *dy_slivers;                  /* [T, D] */
    float *dq_lanes;                                /* [T / NR, D, NR] */
    float *delta;                                   /* [T] */
    float *p, *ds, *turned;                         /* [BACK, BACK] */
    /* sample, head, first query, first key and sizes of this block */
    int64_t b, h, q0, k0, queries, keys;
};

static int64_t back_floats(const struct sl_attention *z) {
    int64_t s = round_up(z->s, BACK) * z->d, t = round_up(z->t, BACK) * z->d;
    return 4 * s + t + 2 * round_up(z->t * z->d + LANES, LANES) + round_up(z->t, LANES) +
           3 * BACK * BACK;
}

static void back_open(struct attend_back *w, float *scratch) {
    int64_t s = round_up(w->z.s, BACK) * w->z.d, t = round_up(w->z.t, BACK) * w->z.d;
    float **to[] = {&w->k_lanes,  &w->v_lanes,   &w->dk_lanes,   &w->dv_lanes,
                    &w->dq_lanes, &w->q_slivers, &w->dy_slivers, &w->delta,
                    &w->p,        &w->ds,        &w->turned};
    int64_t slivers = round_up(w->z.t * w->z.d + LANES, LANES), block = BACK * BACK;
    int64_t floats[] = {s,     s,     s,    s, t, slivers, slivers, round_up(w->z.t, LANES),
                        block, block, block};
    for (int i = 0; i < SL_COUNT(to); i++) {
        *to[i] = scratch;
        scratch += floats[i];
    }
}

/* Packs all queries of a head into slivers. A sliver never crosses the border of a block. */
static void back_slivers(const struct attend_back *w, const float *from, int64_t step, float *to) {
    const struct sl_attention *z = &w->z;
    from += query_at(z, w->b, w->h, 0, step);
    for (int64_t t = 0; t < z->t; t += BACK)
        heads_pack_slivers(from + t * step, step, min_i64(BACK, z->t - t), z->d, to + t * z->d);
}

/* delta = dy . y, summed in the same order as dp: if one key has probability 1, dp - delta is
 * exactly 0. */
static void back_delta(const struct attend_back *w, int64_t t, int64_t rows) {
    const float *dy = w->dy_slivers + t * w->z.d, *y = w->q_slivers + t * w->z.d;
    for (int64_t i = 0; i < rows; i += LANES) {
        vf sum = {0};
        for (int64_t k = 0; k < w->z.d; k++)
            sum += load_n(dy + k * rows + i, rows - i) * load_n(y + k * rows + i, rows - i);
        store_n(w->delta + t + i, sum, rows - i);
    }
}

/* turned = ds transposed */
static void back_turn(const struct attend_back *w) {
    for (int64_t i = 0; i < w->queries; i += LANES)
        for (int64_t j = 0; j < w->keys; j += LANES) {
            vf x[LANES];
#pragma GCC unroll 16
            for (int r = 0; r < LANES; r++)
                x[r] = load(w->ds + (i + r) * BACK + j);
            transpose(x);
#pragma GCC unroll 16
            for (int r = 0; r < LANES; r++)
                store(w->turned + (j + r) * BACK + i, x[r]);
        }
}

/* Returns the first query of the block that sees a key from j on. Causality hides these keys from
 * earlier queries. */
static INLINE int64_t first_query(const struct attend_back *w, int64_t j) {
    const struct sl_attention *z = &w->z;
    return z->causal ? max_i64(0, min_i64(w->queries, w->k0 + j - (z->s - z->t) - w->q0)) : 0;
}

/* c [queries, keys] = slivers lanes', summed over D. Skips tiles that causality hides. */
static void back_scores(const struct attend_back *w, const float *slivers, const float *lanes,
                        float *c) {
    int64_t d = w->z.d;
    for (int64_t j = 0; j < w->keys; j += NR)
        for (int64_t i = first_query(w, j) / MR * MR; i < w->queries; i += MR) {
            int64_t rows = min_i64(MR, w->queries - i);
            struct sl_gemm_tile t = {.kc = d,
                                     .a = slivers + (w->q0 + i) * d,
                                     .a_step = rows,
                                     .b = lanes + (w->k0 + j) * d,
                                     .b_step = NR,
                                     .ldc = BACK,
                                     .c_next = LANES};
            t.c = c + i * BACK + j;
            gemm_tiles[rows - 1][NV - 1](&t);
        }
}

/* out [D, lanes] += rows' c. The rows are `step` apart; c is [count, lanes]. */
static void back_product(const struct attend_back *w, const float *rows, int64_t step,
                         const float *c, int64_t count, float *out) {
    for (int64_t k = 0; k < w->z.d; k += MR) {
        struct sl_gemm_tile t = {.kc = count,
                                 .a = rows + k,
                                 .a_step = step,
                                 .b = c,
                                 .b_step = BACK,
                                 .ldc = NR,
                                 .c_next = LANES,
                                 .start_step = NR};
        t.start = t.c = out + k * NR;
        gemm_tiles[min_i64(MR, w->z.d - k) - 1][NV - 1](&t);
    }
}

/* Sets the scores of hidden keys to -inf, because scores that causality hides may not have been
 * computed. */
static void back_hide(const struct attend_back *w) {
    const struct sl_attention *z = &w->z;
    for (int64_t i = 0; i < w->queries; i++) {
        float *row = w->p + i * BACK, *ds = w->ds + i * BACK;
        for (int64_t j = max_i64(0, keys_of(z, w->q0 + i) - w->k0); j < w->keys; j++) {
            row[j] = -INFINITY;
            ds[j] = 0;
        }
        for (int64_t j = 0; z->mask && j < w->keys; j++)
            if (!z->mask[w->b * z->s + w->k0 + j])
                row[j] = -INFINITY;
    }
}

/* Turns scores into probabilities p, and dp into ds, in whole vectors. */
static void back_soften(const struct attend_back *w) {
    const float *lse = w->lse + (w->b * w->z.hq + w->h) * w->z.t + w->q0;
    for (int64_t i = 0; i < w->queries; i++)
        for (int64_t j = 0; j < w->keys; j += LANES) {
            float *p = w->p + i * BACK + j, *ds = w->ds + i * BACK + j;
            vf probability = vexp(load(p) - lse[i]);
            store(p, probability);
            store(ds, probability * (load(ds) - w->delta[w->q0 + i]));
        }
}

static void back_block(struct attend_back *w) {
    const struct sl_attention *z = &w->z;
    const float *q = w->q + query_at(z, w->b, w->h, w->q0, z->q_step);
    const float *dy = w->dy + query_at(z, w->b, w->h, w->q0, z->y_step);
    back_scores(w, w->q_slivers, w->k_lanes, w->p);
    back_scores(w, w->dy_slivers, w->v_lanes, w->ds);
    if (z->mask || keys_of(z, w->q0) < w->k0 + w->keys)
        back_hide(w);
    back_soften(w);
    back_turn(w);
    for (int64_t j = 0; j < w->keys; j += NR) {
        int64_t at = (w->k0 + j) * z->d, i = first_query(w, j), count = w->queries - i;
        back_product(w, dy + i * z->y_step, z->y_step, w->p + i * BACK + j, count,
                     w->dv_lanes + at);
        back_product(w, q + i * z->q_step, z->q_step, w->ds + i * BACK + j, count,
                     w->dk_lanes + at);
    }
    const float *k = w->k + key_at(z, w->b, w->h / z->group, w->k0, z->k_step);
    for (int64_t i = 0; i < w->queries; i += NR) {
        int64_t last = min_i64(w->queries, i + NR) - 1, seen = keys_of(z, w->q0 + last) - w->k0;
        back_product(w, k, z->k_step, w->turned + i, max_i64(0, min_i64(w->keys, seen)),
                     w->dq_lanes + (w->q0 + i) * z->d);
    }
}

static void back_prepare_head(const struct attend_back *w) {
    const struct sl_attention *z = &w->z;
    back_slivers(w, w->dy, z->y_step, w->dy_slivers);
    back_slivers(w, w->y, z->y_step, w->q_slivers);
    for (int64_t t = 0, rows; t < z->t; t += rows) {
        rows = min_i64(MR, min_i64(z->t - t, BACK - t % BACK));
        back_delta(w, t, rows);
    }
    back_slivers(w, w->q, z->q_step, w->q_slivers);
    heads_scale(w->q_slivers, z->t * z->d, z->scale);
    memset(w->dq_lanes, 0, sizeof(float) * (size_t)(round_up(z->t, BACK) * z->d));
}

static void back_head(struct attend_back *w) {
    const struct sl_attention *z = &w->z;
    back_prepare_head(w);
    for (w->k0 = 0; w->k0 < z->s; w->k0 += BACK)
        for (w->q0 = 0; w->q0 < z->t; w->q0 += BACK) {
            w->keys = min_i64(BACK, z->s - w->k0);
            w->queries = min_i64(BACK, z->t - w->q0);
            if (keys_of(z, w->q0 + w->queries - 1) > w->k0)
                back_block(w);
        }
    for (int64_t t = 0; t < z->t; t += NR)
        heads_unpack(w->dq_lanes + t * z->d, min_i64(NR, z->t - t), z->d, z->scale,
                     w->dq + query_at(z, w->b, w->h, t, z->dq_step), z->dq_step);
}

static void back_pair(struct attend_back *w, int64_t b, int64_t hk) {
    const struct sl_attention *z = &w->z;
    size_t size = sizeof(float) * (size_t)(round_up(z->s, BACK) * z->d);
    memset(w->dk_lanes, 0, size);
    memset(w->dv_lanes, 0, size);
    for (int64_t s = 0; s < z->s; s += NR) {
        int64_t rows = min_i64(NR, z->s - s);
        heads_pack_lanes(w->k + key_at(z, b, hk, s, z->k_step), z->k_step, rows, z->d,
                         w->k_lanes + s * z->d);
        heads_pack_lanes(w->v + key_at(z, b, hk, s, z->v_step), z->v_step, rows, z->d,
                         w->v_lanes + s * z->d);
    }
    w->b = b;
    for (w->h = hk * z->group; w->h < (hk + 1) * z->group; w->h++)
        back_head(w);
    for (int64_t s = 0; s < z->s; s += NR) {
        int64_t rows = min_i64(NR, z->s - s);
        heads_unpack(w->dk_lanes + s * z->d, rows, z->d, z->scale,
                     w->dk + key_at(z, b, hk, s, z->dk_step), z->dk_step);
        heads_unpack(w->dv_lanes + s * z->d, rows, z->d, 1, w->dv + key_at(z, b, hk, s, z->dv_step),
                     z->dv_step);
    }
}

static void attention_dqkv_part(void *ctx, int thread, int threads) {
    const struct sl_device_cpu_call *call = ctx;
    struct attend_back w = {.z = attention_of(call->instr, 1, call->in[6]),
                            .dy = call->in[0],
                            .q = call->in[1],
                            .k = call->in[2],
                            .v = call->in[3],
                            .y = call->in[4],
                            .lse = call->in[5],
                            .dq = call->out[0],
                            .dk = call->out[1],
                            .dv = call->out[2]};
    (void)threads;
    back_open(&w, sl_device_pool_scratch(call->pool, call->scratch, 4 * back_floats(&w.z), thread));
    for (int64_t pair; (pair = sl_device_pool_take(call->pool, w.z.b * w.z.hk, thread)) >= 0;)
        back_pair(&w, pair / w.z.hk, pair % w.z.hk);
}

static void attention_dqkv(const struct sl_device_cpu_call *call) {
    const struct sl_attention z = attention_of(call->instr, 1, NULL);
    sl_device_pool_run_pieces(call->pool, 4 * back_floats(&z), attention_dqkv_part, (void *)call);
}

static int64_t attention_dqkv_scratch(const struct sl_instr *instr, int threads) {
    const struct sl_attention z = attention_of(instr, 1, NULL);
    return 4 * threads * back_floats(&z);
}

const struct sl_device_cpu_kernel SL_ISA_NAME(attention_grad_kernels)[] = {
    {"attention_dqkv", attention_dqkv, attention_dqkv_scratch},
    {0},
};
