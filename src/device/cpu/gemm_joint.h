/* c = a b by all threads of a worker: both sides are packed once, however many pieces there are.
 *
 *   for columns by `wide`, for k by `deep`
 *     pieces: columns of the first rows of c; their panels of B are packed, for all
 *     pieces: columns of the rows of c below; who comes to other rows packs their A: L2
 *
 * B comes from far away, most often; so tiles of a panel ask for the next one. Blocks of k are
 * those of gemm.h, and so are the bits.
 */
#ifndef SL_DEVICE_CPU_GEMM_JOINT_H
#define SL_DEVICE_CPU_GEMM_JOINT_H

#include "device/cpu/gemm.h"

/* Pieces of the rows that a thread has, at least; panels of B in a piece. */
enum { JOINT_PIECES = 4, JOINT_PANELS = 4 };

struct joint_sizes {
    int64_t kc, wide, deep, pieces; /* deep: whole blocks of kc; pieces: of the rows */
    int64_t a_floats, b_floats;     /* of a thread; of all */
};

/* Rows for every thread, which are worth a panel of B. */
INLINE bool gemm_joins(int64_t m, int64_t count, int threads) {
    return count < (threads > 1 ? threads : 4) && m >= (int64_t)128 * threads;
}

static struct joint_sizes joint_sizes(int64_t m, int64_t n, int64_t k, int threads) {
    struct joint_sizes s = {.kc = gemm_kc(k)};
    int64_t room = most(NR, threads * (int64_t)GEMM_B_FLOATS / s.kc);
    int64_t strips = most(1, (n + room - 1) / room);
    s.wide = up_to((n + strips - 1) / strips, NR);
    s.pieces = 1 + up_to((m + GEMM_MC - 1) / GEMM_MC, (int64_t)JOINT_PIECES * threads);
    int64_t slivers = ((m + MR - 1) / MR + s.pieces - 1) / s.pieces;
    /* Few columns would take all of k: the A of the first rows is no larger than a block of B. */
    int64_t blocks = least(room / s.wide, GEMM_B_FLOATS / (slivers * MR * s.kc));
    s.deep = s.kc * least((k + s.kc - 1) / s.kc, most(1, blocks));
    s.a_floats = up_to(slivers * MR * s.deep + VL, LINE);
    s.b_floats = up_to(s.wide * s.deep, LINE);
    return s;
}

/* Floats of scratch per thread. */
static int64_t joint_floats(int64_t m, int64_t n, int64_t k, int threads) {
    struct joint_sizes s = joint_sizes(m, n, k, threads);
    return s.a_floats + up_to((s.b_floats + threads - 1) / threads, LINE);
}

struct joint {
    const struct gemm *gemm;
    struct sl_pool *pool;
    struct joint_sizes sizes;
    float *pack_a, *pack_b;
    int64_t n0, n1, k0, k1; /* at hand */
};

/* The block of k that starts at pc; false: there is none. */
INLINE bool joint_block(const struct joint *job, struct gemm_at *at) {
    at->kc = least(job->sizes.kc, job->k1 - at->pc);
    at->pack_b = job->pack_b + (at->pc - job->k0) * job->sizes.wide + (at->jc - job->n0) * at->kc;
    return at->pc < job->k1;
}

/* Piece `index` of the rows, in tiles of which none is much lower than others. */
INLINE void joint_rows_of(const struct joint *job, int64_t index, struct gemm_at *at) {
    int64_t end;
    sl_pool_range(job->gemm->m, MR, (int)index, (int)job->sizes.pieces, &at->ic, &end);
    at->mc = end - at->ic;
    int64_t count = (at->mc + MR - 1) / MR;
    at->mr = (at->mc + count - 1) / count;
}

/* After this panel of [from, to) the next one, then the next block of k, then the next columns. */
INLINE void joint_next_b(const struct joint *job, struct gemm_at *at, int64_t from, int64_t to) {
    const struct matrix *b = &job->gemm->b;
    int64_t j = at->jc + NR, p = at->pc;
    if (j >= to) {
        j = from;
        p += at->kc;
    }
    if (p >= job->k1) {
        j = to;
        p = job->k0;
    }
    at->next_b = *b;
    at->next_b.at = j < job->n1 ? b->at + (b->transposed ? j * b->ld + p : p * b->ld + j) : NULL;
}

/* Columns [from, to) of the first rows, whose A is packed. */
static void joint_strip(const struct joint *job, struct gemm_at *at, int64_t from, int64_t to) {
    float *pack_a = at->pack_a;
    at->jc = from;
    for (at->pc = job->k0; joint_block(job, at); at->pc += at->kc) {
        at->pack_a = pack_a + (at->pc - job->k0) * at->mc;
        for (at->jc = from; at->jc < to; at->jc += NR) {
            at->nc = least(NR, to - at->jc);
            joint_block(job, at);
            gemm_pack_b(at);
            joint_next_b(job, at, from, to);
            gemm_block(at);
        }
        at->jc = from;
    }
    at->pack_a = pack_a;
}

/* All k at hand. */
static void joint_pack_a(const struct joint *job, struct gemm_at *at) {
    float *pack_a = at->pack_a;
    for (at->pc = job->k0; joint_block(job, at); at->pc += at->kc) {
        gemm_pack_a(at);
        at->pack_a += at->mc * at->kc;
    }
    at->pack_a = pack_a;
}

/* Pieces are columns and never k: sums over b grow upwards. */
static void joint_columns(void *ctx, int thread, int threads) {
    const struct joint *job = ctx;
    const struct gemm *g = job->gemm;
    struct gemm_at at = {.gemm = g, .jc = job->n0};
    int64_t panels = (job->n1 - job->n0 + NR - 1) / NR;
    int64_t group = NR * most(1, least(JOINT_PANELS, panels / ((int64_t)4 * threads)));
    int64_t groups = (job->n1 - job->n0 + group - 1) / group;
    bool packed = false;
    joint_rows_of(job, 0, &at);
    at.pack_a = sl_pool_scratch(job->pool, job->pack_a, 4 * job->sizes.a_floats, thread);
    for (int64_t i; (i = sl_pool_take(job->pool, groups, thread)) >= 0;) {
        at.sum_a = g->a_sums && i == 0 && job->n0 == 0;
        if (!packed || at.sum_a)
            joint_pack_a(job, &at);
        packed = true;
        joint_strip(job, &at, job->n0 + i * group, least(job->n0 + (i + 1) * group, job->n1));
    }
}

/* The rows that are likely to come next. */
INLINE void joint_ahead(const struct joint *job, struct gemm_at *at) {
    int64_t i = at->ic + at->mc;
    gemm_look_ahead(at, i, job->k0, least(at->mc, job->gemm->m - i), job->k1 - job->k0);
}

/* Rows at hand, whose A is packed, times columns [from, to). */
static void joint_panels(const struct joint *job, struct gemm_at *at, int64_t from, int64_t to) {
    float *pack_a = at->pack_a;
    at->jc = from;
    at->nc = to - from;
    for (at->pc = job->k0; joint_block(job, at); at->pc += at->kc) {
        at->pack_a = pack_a + (at->pc - job->k0) * at->mc;
        gemm_block(at);
    }
    at->pack_a = pack_a;
}

/* Pieces are some columns of a few rows: who waits for the last ones does not wait for long. A
 * thread that has the next columns of the same rows has their A. */
static void joint_rows(void *ctx, int thread, int threads) {
    const struct joint *job = ctx;
    const struct gemm *g = job->gemm;
    const int64_t wide = (int64_t)NR * JOINT_PANELS, parts = (job->n1 - job->n0 + wide - 1) / wide;
    struct gemm_at at = {.gemm = g, .jc = job->n0};
    int64_t packed = 0;
    (void)threads;
    at.pack_a = sl_pool_scratch(job->pool, job->pack_a, 4 * job->sizes.a_floats, thread);
    for (int64_t i; (i = sl_pool_take(job->pool, (job->sizes.pieces - 1) * parts, thread)) >= 0;) {
        int64_t row = 1 + i / parts, from = job->n0 + i % parts * wide;
        at.sum_a = g->a_sums && from == 0;
        if (row != packed || at.sum_a) {
            at.jc = job->n0;
            joint_rows_of(job, row, &at);
            joint_pack_a(job, &at);
            joint_ahead(job, &at);
        }
        packed = row;
        joint_panels(job, &at, from, least(from + wide, job->n1));
    }
}

static void joint_product(const struct gemm *g, struct sl_pool *pool, float *scratch) {
    struct joint job = {
        .gemm = g,
        .pool = pool,
        .sizes = joint_sizes(g->m, g->n, g->k, sl_pool_threads(pool)),
        .pack_b = scratch,
    };
    job.pack_a = scratch + job.sizes.b_floats;
    for (job.n0 = 0; job.n0 < g->n; job.n0 = job.n1) {
        job.n1 = least(g->n, job.n0 + job.sizes.wide);
        for (job.k0 = 0; job.k0 < g->k; job.k0 = job.k1) {
            job.k1 = least(g->k, job.k0 + job.sizes.deep);
            sl_pool_run_pieces(pool, 4 * job.sizes.a_floats, joint_columns, &job);
            sl_pool_run_pieces(pool, 4 * job.sizes.a_floats, joint_rows, &job);
        }
    }
}

#endif
