/* attention: one block of NR queries against blocks of keys, with a running maximum and sum.
 *
 * Everything is transposed: queries lie along the lanes, so softmax needs no sum across lanes.
 *
 *   s [keys, NR] = k q'      k packed as slivers of MR keys, q packed [D, NR] and scaled
 *   p = exp(s - maximum)     per lane
 *   o [D, NR] = o correction + v' p      v is read in place: D runs down its rows
 *
 * Of the T x S scores only KEYS x NR are stored at a time. A pair is a sample and a query head;
 * threads take pairs, or pieces of them. */
#include "device/cpu/kernels.h"
#include "device/cpu/product/attention_amx.h"
#include "device/cpu/vec_math.h"

enum { KEYS = 8 * MR, MAX_KEYS = KEYS > AMX_KEYS ? KEYS : AMX_KEYS };

/* What one thread works on. */
struct attend {
    struct sl_attention z;
    const float *q, *k, *v;
    float *y, *lse;
    float *packed_k, *packed_q, *s, *o; /* [S, D] slivers, [D, NR], [KEYS, NR], [D, NR] */
    struct sl_attend_tiles tiles;       /* used instead of packed_k and packed_q on AMX */
    bool amx;
    int64_t packed_pair; /* number of the pair of sample and key head in packed_k; -1: none */
    int64_t b, h, t0;    /* sample, query head and first query of this block */
    vf top[NV], sum[NV]; /* running maximum and running sum of exponentials */
};

static bool amx_suits(const struct sl_attention *z) {
    return attention_amx && attention_amx->suits(z);
}

static int64_t attend_floats(const struct sl_attention *z) {
    int64_t packed_k =
        amx_suits(z) ? attention_amx->floats(z) : round_up(z->s * z->d + LANES, LANES);
    return packed_k + 2 * z->d * NR + MAX_KEYS * NR;
}

/* s [keys, NR] = k q' */
static void attend_scores(const struct attend *w, int64_t j0, int64_t keys) {
    const struct sl_attention *z = &w->z;
    for (int64_t i = 0; i < keys; i += MR) {
        int64_t rows = min_i64(MR, keys - i), high = min_i64(MR, z->s - j0 - i);
        struct sl_gemm_tile t = {.kc = z->d,
                                 .a = w->packed_k + (j0 + i) * z->d,
                                 .a_step = high,
                                 .b = w->packed_q,
                                 .b_step = NR,
                                 .c = w->s + i * NR,
                                 .ldc = NR,
                                 .c_next = LANES};
        gemm_tiles[rows - 1][NV - 1](&t);
    }
}

/* o (+)= v' p */
static void attend_values(const struct attend *w, int64_t j0, int64_t keys) {
    const struct sl_attention *z = &w->z;
    const float *value = w->v + key_at(z, w->b, w->h / z->group, j0, z->v_step);
    for (int64_t k = 0; k < z->d; k += MR) {
        struct sl_gemm_tile t = {.kc = keys,
                                 .a = value + k,
                                 .a_step = z->v_step,
                                 .b = w->s,
                                 .b_step = NR,
                                 .c = w->o + k * NR,
                                 .ldc = NR,
                                 .c_next = LANES,
                                 .start = j0 ? w->o + k * NR : NULL,
                                 .start_step = NR};
        gemm_tiles[min_i64(MR, z->d - k) - 1][NV - 1](&t);
    }
}

/* Packs keys and values once per pair, and the queries of this block, scaled. */
static void attend_pack(struct attend *w, int64_t rows) {
    const struct sl_attention *z = &w->z;
    int64_t hk = w->h / z->group, pair = w->b * z->hk + hk;
    const float *k = w->k + key_at(z, w->b, hk, 0, z->k_step);
    const float *q = w->q + query_at(z, w->b, w->h, w->t0, z->q_step);
    if (pair != w->packed_pair && w->amx)
        attention_amx->pack_keys(z, &w->tiles, k, w->v + key_at(z, w->b, hk, 0, z->v_step));
    else if (pair != w->packed_pair)
        heads_pack_slivers(k, z->k_step, z->s, z->d, w->packed_k);
    w->packed_pair = pair;
    heads_pack_lanes(q, z->q_step, rows, z->d, w->packed_q);
    heads_scale(w->packed_q, z->d * NR, z->scale);
    if (w->amx)
        attention_amx->pack_queries(z, &w->tiles, w->packed_q, rows);
}

/* Sets scores s [keys, NR] to -inf for the keys that padding or causality hides. The keys begin at
 * j0. */
static void hide_keys(const struct attend *w, int64_t j0, int64_t keys) {
    const struct sl_attention *z = &w->z;
    const vf hidden = splat(-INFINITY);
    for (int64_t j = 0; j < keys; j++) {
        float *row = w->s + j * NR;
        bool padding = z->mask && !z->mask[w->b * z->s + j0 + j];
        /* first query that sees the key */
        int64_t from = z->causal ? j0 + j - (z->s - z->t) - w->t0 : 0;
        for (int64_t i = 0; i < (padding ? NR : min_i64(from, NR)); i++)
            row[i] = hidden[0];
    }
}

/* Turns scores s into p = exp(s - maximum). `fix` is the factor that rescales earlier sums. */
static void soften(struct attend *w, int64_t keys, vf fix[NV]) {
    vf top[NV], safe[NV], sum[NV] = {{0}};
    memcpy(top, w->top, sizeof top);
    for (int64_t j = 0; j < keys; j++)
#pragma GCC unroll 2
        for (int v = 0; v < NV; v++)
            top[v] = vmax(load(w->s + j * NR + v * LANES), top[v]);
    for (int v = 0; v < NV; v++)
        safe[v] = pick(top[v] == splat(-INFINITY), splat(0), top[v]);
    for (int64_t j = 0; j < keys; j++)
#pragma GCC unroll 2
        for (int v = 0; v < NV; v++) {
            vf p = vexp(load(w->s + j * NR + v * LANES) - safe[v]);
            store(w->s + j * NR + v * LANES, p);
            sum[v] += p;
        }
    for (int v = 0; v < NV; v++) {
        fix[v] = vexp(w->top[v] - safe[v]);
        w->sum[v] = w->sum[v] * fix[v] + sum[v];
        w->top[v] = top[v];
    }
}

static void attend_keys(struct attend *w, int64_t j0, int64_t keys) {
    const struct sl_attention *z = &w->z;
    vf fix[NV];
    if (w->amx)
        attention_amx->scores(z, &w->tiles, (int64_t[]){j0, keys, min_i64(NR, z->t - w->t0)}, w->s);
    else
        attend_scores(w, j0, keys);
    if (z->mask || (z->causal && j0 + keys > keys_of(z, w->t0)))
        hide_keys(w, j0, keys);
    soften(w, keys, fix);
    for (int64_t k = 0; j0 > 0 && k < z->d; k++)
#pragma GCC unroll 2
        for (int v = 0; v < NV; v++)
            store(w->o + k * NR + v * LANES, load(w->o + k * NR + v * LANES) * fix[v]);
    if (w->amx)
        attention_amx->values(z, &w->tiles, (int64_t[]){j0, keys, min_i64(NR, z->t - w->t0)}, w->s,
                              w->o);
    else
        attend_values(w, j0, keys);
}

static void attend_block(struct attend *w) {
    const struct sl_attention *z = &w->z;
    int64_t rows = min_i64(NR, z->t - w->t0), keys = keys_of(z, w->t0 + rows - 1);
    int64_t block = w->amx ? AMX_KEYS : KEYS;
    float *lse = w->lse + (w->b * z->hq + w->h) * z->t + w->t0;
    attend_pack(w, rows);
    for (int v = 0; v < NV; v++) {
        w->top[v] = splat(-INFINITY);
        w->sum[v] = splat(0);
    }
    if (keys == 0)
        memset(w->o, 0, sizeof(float) * (size_t)(z->d * NR));
    for (int64_t j = 0; j < keys; j += block)
        attend_keys(w, j, min_i64(block, keys - j));
    for (int i = 0; i < NR; i++) {
        float sum = w->sum[i / LANES][i % LANES], part = sum > 0 ? 1 / sum : 0;
        if (i < rows)
            lse[i] = sum > 0 ? w->top[i / LANES][i % LANES] + logf(sum) : 0;
        w->sum[i / LANES][i % LANES] = part;
    }
    for (int64_t k = 0; k < z->d; k++)
        for (int v = 0; v < NV; v++)
            store(w->o + k * NR + v * LANES, load(w->o + k * NR + v * LANES) * w->sum[v]);
    heads_unpack(w->o, rows, z->d, 1, w->y + query_at(z, w->b, w->h, w->t0, z->y_step), z->y_step);
}

/* ---- decode_attention: sample b has its own number of keys, which lie in a cache ---- */

static void decode_attention_pair(struct attend *w, const struct sl_device_cpu_call *call,
                                  int64_t b) {
    const struct sl_operand *in = call->instr->in;
    const int32_t *past = call->in[3];
    int64_t n = in[0].shape.dim[1], length = in[1].shape.dim[1];
    struct sl_attention *z = &w->z;
    z->t = min_i64(n, length - past[b]); /* rows behind the end of the cache stay as they are */
    z->s = past[b] + z->t;
    w->q = (const float *)call->in[0] + b * n * z->q_step;
    w->k = (const float *)call->in[1] + b * length * z->k_step;
    w->v = (const float *)call->in[2] + b * length * z->v_step;
    w->y = (float *)call->out[0] + b * n * z->y_step;
    w->lse = (float *)call->out[1] + b * z->hq * n;
    w->packed_pair = -1;
    for (w->t0 = 0; w->t0 < z->t; w->t0 += NR)
        attend_block(w);
}

static void decode_attention_part(void *ctx, int thread, int threads) {
    const struct sl_device_cpu_call *call = ctx;
    const struct sl_attention z = attention_of(call->instr, 0, NULL);
    float *scratch =
        sl_device_pool_scratch(call->pool, call->scratch, 4 * attend_floats(&z), thread);
    struct attend w = {.z = z,
                       .packed_q = scratch,
                       .o = scratch + z.d * NR,
                       .s = scratch + 2 * z.d * NR,
                       .packed_k = scratch + 2 * z.d * NR + MAX_KEYS * NR};
    (void)threads;
    w.z.causal = true;
    w.z.b = 1;
    for (int64_t i; (i = sl_device_pool_take(call->pool, z.b * z.hq, thread)) >= 0;) {
        w.h = i % z.hq;
        decode_attention_pair(&w, call, i / z.hq);
    }
}

static void decode_attention(const struct sl_device_cpu_call *call) {
    const struct sl_attention z = attention_of(call->instr, 0, NULL);
    sl_device_pool_run_pieces(call->pool, 4 * attend_floats(&z), decode_attention_part,
                              (void *)call);
}

/* Number of pieces of a pair: 1, so that its keys are packed once, or more if there are few pairs.
 * Blocks are dealt to the pieces in turn, because late blocks of causal attention cost more. */
static int64_t attend_pieces(const struct sl_attention *z, int threads) {
    int64_t blocks = (z->t + NR - 1) / NR, pairs = z->b * z->hq;
    return threads == 1 ? 1 : min_i64(blocks, (4 * threads + pairs - 1) / pairs);
}

static void attention_part(void *ctx, int thread, int threads) {
    const struct sl_device_cpu_call *call = ctx;
    const struct sl_attention z = attention_of(call->instr, 0, call->in[3]);
    float *scratch =
        sl_device_pool_scratch(call->pool, call->scratch, 4 * attend_floats(&z), thread);
    struct attend w = {.z = z,
                       .q = call->in[0],
                       .k = call->in[1],
                       .v = call->in[2],
                       .y = call->out[0],
                       .lse = call->out[1],
                       .packed_q = scratch,
                       .o = scratch + z.d * NR,
                       .s = scratch + 2 * z.d * NR,
                       .packed_k = scratch + 2 * z.d * NR + MAX_KEYS * NR,
                       .amx = amx_suits(&z),
                       .packed_pair = -1};
    if (w.amx)
        attention_amx->open(&z, &w.tiles, w.packed_k);
    int64_t blocks = (z.t + NR - 1) / NR, pieces = attend_pieces(&z, threads);
    for (int64_t i; (i = sl_device_pool_take(call->pool, pieces * z.b * z.hq, thread)) >= 0;) {
        int64_t pair = i / pieces, piece = i % pieces;
        w.b = pair / z.hq;
        w.h = pair % z.hq;
        for (int64_t block = piece; block < blocks; block += pieces) {
            w.t0 = block * NR;
            attend_block(&w);
        }
    }
    if (w.amx)
        attention_amx->close();
}

static void attention(const struct sl_device_cpu_call *call) {
    const struct sl_attention z = attention_of(call->instr, 0, NULL);
    sl_device_pool_run_pieces(call->pool, 4 * attend_floats(&z), attention_part, (void *)call);
}

static int64_t attention_scratch(const struct sl_instr *instr, int threads) {
    const struct sl_attention z = attention_of(instr, 0, NULL);
    return 4 * threads * attend_floats(&z);
}

const struct sl_device_cpu_kernel SL_ISA_NAME(attention_kernels)[] = {
    {"attention", attention, attention_scratch},
    {"decode_attention", decode_attention, attention_scratch},
    {0},
};
