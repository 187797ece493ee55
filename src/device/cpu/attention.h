/* attention: one block of NR queries against blocks of keys, with a running maximum and sum.
 *
 * Everything is turned so that queries lie along the lanes and softmax needs no sum across lanes:
 *
 *   s [keys, NR] = k q'      k packed as slivers of MR keys, q packed [D, NR] and scaled
 *   p = exp(s - maximum)     per lane
 *   o [D, NR] = o correction + v' p      v read where it lies: D runs down the rows
 *
 * T x S is never kept, only KEYS x NR. A pair is a sample and a query head; the threads take
 * pairs, or pieces of them.
 */
#ifndef SL_DEVICE_CPU_ATTENTION_H
#define SL_DEVICE_CPU_ATTENTION_H

#include "device/cpu/attention_work.h"

/* Hide what padding and causality hide of s [keys, NR], keys from j0. */
static void hide_keys(const struct attend *w, int64_t j0, int64_t keys) {
    const struct attention *z = &w->z;
    const vf hidden = splat(-INFINITY);
    for (int64_t j = 0; j < keys; j++) {
        float *row = w->s + j * NR;
        bool padding = z->mask && !z->mask[w->b * z->s + j0 + j];
        /* The first query that sees the key. */
        int64_t from = z->causal ? j0 + j - (z->s - z->t) - w->t0 : 0;
        for (int64_t i = 0; i < (padding ? NR : least(from, NR)); i++)
            row[i] = hidden[0];
    }
}

/* s becomes p; returns through `fix` by what earlier sums shrink. */
static void soften(struct attend *w, int64_t keys, vf fix[NV]) {
    vf top[NV], safe[NV], sum[NV] = {{0}};
    memcpy(top, w->top, sizeof top);
    for (int64_t j = 0; j < keys; j++)
#pragma GCC unroll 2
        for (int v = 0; v < NV; v++)
            top[v] = vmax(load(w->s + j * NR + v * VL), top[v]);
    for (int v = 0; v < NV; v++)
        safe[v] = pick(top[v] == splat(-INFINITY), splat(0), top[v]);
    for (int64_t j = 0; j < keys; j++)
#pragma GCC unroll 2
        for (int v = 0; v < NV; v++) {
            vf p = vexp(load(w->s + j * NR + v * VL) - safe[v]);
            store(w->s + j * NR + v * VL, p);
            sum[v] += p;
        }
    for (int v = 0; v < NV; v++) {
        fix[v] = vexp(w->top[v] - safe[v]);
        w->sum[v] = w->sum[v] * fix[v] + sum[v];
        w->top[v] = top[v];
    }
}

static void attend_keys(struct attend *w, int64_t j0, int64_t keys) {
    const struct attention *z = &w->z;
    vf fix[NV];
    if (w->amx)
        amx_scores(z, &w->tiles, (int64_t[]){j0, keys, least(NR, z->t - w->t0)}, w->s);
    else
        attend_scores(w, j0, keys);
    if (z->mask || (z->causal && j0 + keys > keys_of(z, w->t0)))
        hide_keys(w, j0, keys);
    soften(w, keys, fix);
    for (int64_t k = 0; j0 > 0 && k < z->d; k++)
#pragma GCC unroll 2
        for (int v = 0; v < NV; v++)
            store(w->o + k * NR + v * VL, load(w->o + k * NR + v * VL) * fix[v]);
    if (w->amx)
        amx_values(z, &w->tiles, (int64_t[]){j0, keys, least(NR, z->t - w->t0)}, w->s, w->o);
    else
        attend_values(w, j0, keys);
}

static void attend_block(struct attend *w) {
    const struct attention *z = &w->z;
    int64_t rows = least(NR, z->t - w->t0), keys = keys_of(z, w->t0 + rows - 1);
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
        attend_keys(w, j, least(block, keys - j));
    for (int i = 0; i < NR; i++) {
        float sum = w->sum[i / VL][i % VL], part = sum > 0 ? 1 / sum : 0;
        if (i < rows)
            lse[i] = sum > 0 ? w->top[i / VL][i % VL] + logf(sum) : 0;
        w->sum[i / VL][i % VL] = part;
    }
    for (int64_t k = 0; k < z->d; k++)
        for (int v = 0; v < NV; v++)
            store(w->o + k * NR + v * VL, load(w->o + k * NR + v * VL) * w->sum[v]);
    unpack_turned(w->o, rows, z->d, 1, w->y + query_at(z, w->b, w->h, w->t0, z->y_step), z->y_step);
}

/* A pair in one piece, whose keys are packed once; in more where there are few pairs. Of causal
 * attention every piece has early blocks and late ones. */
static int64_t attend_pieces(const struct attention *z, int threads) {
    int64_t blocks = (z->t + NR - 1) / NR, pairs = z->b * z->hq;
    return threads == 1 ? 1 : least(blocks, (4 * threads + pairs - 1) / pairs);
}

static void attention_part(void *ctx, int thread, int threads) {
    const struct sl_cpu_call *call = ctx;
    const struct attention z = attention_of(call->instr, 0, call->in[3]);
    float *scratch = sl_pool_scratch(call->pool, call->scratch, 4 * attend_floats(&z), thread);
    struct attend w = {.z = z,
                       .q = call->in[0],
                       .k = call->in[1],
                       .v = call->in[2],
                       .y = call->out[0],
                       .lse = call->out[1],
                       .packed_q = scratch,
                       .o = scratch + z.d * NR,
                       .s = scratch + 2 * z.d * NR,
                       .packed_k = scratch + 2 * z.d * NR + MOST_KEYS * NR,
                       .amx = amx_attends(&z),
                       .packed_pair = -1};
    attend_tiles_open(&z, &w.tiles, w.packed_k);
    int64_t blocks = (z.t + NR - 1) / NR, pieces = attend_pieces(&z, threads);
    for (int64_t i; (i = sl_pool_take(call->pool, pieces * z.b * z.hq, thread)) >= 0;) {
        int64_t pair = i / pieces, piece = i % pieces;
        w.b = pair / z.hq;
        w.h = pair % z.hq;
        for (int64_t block = piece; block < blocks; block += pieces) {
            w.t0 = block * NR;
            attend_block(&w);
        }
    }
    attend_tiles_close(&z);
}

static void attention(const struct sl_cpu_call *call) {
    const struct attention z = attention_of(call->instr, 0, NULL);
    sl_pool_run_pieces(call->pool, 4 * attend_floats(&z), attention_part, (void *)call);
}

static int64_t attention_scratch(const struct sl_instr *instr, int threads) {
    const struct attention z = attention_of(instr, 0, NULL);
    return 4 * threads * attend_floats(&z);
}

#endif
