/* c = a b by all threads of a worker: both sides are packed once, however many pieces there are.
 *
 *   for columns by `wide`, for k by `deep`
 *     pieces: columns of the first rows of c; their panels of B are packed, for all
 *     pieces: columns of the rows of c below; who comes to other rows packs their A: L2
 *
 * Both are one loop: who finds all columns begun goes on, and waits for panels where it must.
 *
 * B comes from far away, most often; so tiles of a panel ask for the next one. Blocks of k are
 * those of gemm.h, and so are the bits.
 */
#ifndef SL_DEVICE_CPU_GEMM_JOINT_H
#define SL_DEVICE_CPU_GEMM_JOINT_H

#include "device/cpu/gemm_joint_sizes.h"

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

/* Panels of B in a piece of the first rows: all of one part. */
INLINE int64_t joint_group(int64_t panels, int threads) {
    int64_t most_panels = panels / ((int64_t)4 * threads);
    return most_panels >= JOINT_PANELS ? JOINT_PANELS : most_panels >= 2 ? 2 : 1;
}

/* Pieces are columns and never k: sums over b grow upwards. */
static void joint_columns(const struct joint *job, struct gemm_at *at, int thread, int threads) {
    const int64_t columns = job->n1 - job->n0, panels = (columns + NR - 1) / NR;
    const int64_t group = joint_group(panels, threads), groups = (panels + group - 1) / group;
    bool packed = false;
    joint_rows_of(job, 0, at);
    for (int64_t i; (i = sl_pool_take_before(job->pool, groups, thread)) >= 0;) {
        int64_t from = i * group, to = least(from + group, panels);
        at->jc = job->n0;
        at->sum_a = job->gemm->a_sums && i == 0 && job->n0 == 0;
        if (!packed || at->sum_a)
            joint_pack_a(job, at);
        packed = true;
        joint_strip(job, at, job->n0 + from * NR, least(job->n0 + to * NR, job->n1));
        atomic_fetch_add_explicit(&job->packed[from / JOINT_PANELS], (int)(to - from),
                                  memory_order_release);
    }
    at->next_b.at = NULL;
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
static void joint_rows(const struct joint *job, struct gemm_at *at, int thread) {
    const int64_t parts = joint_parts(job->n1 - job->n0), count = (job->sizes.pieces - 1) * parts;
    int64_t packed = 0;
    for (int64_t i; (i = sl_pool_take(job->pool, count, thread)) >= 0;) {
        int64_t row = 1 + i / parts, part = i % parts;
        int64_t from = job->n0 + part * NR * JOINT_PANELS;
        at->sum_a = job->gemm->a_sums && from == 0;
        if (row != packed || at->sum_a) {
            at->jc = job->n0;
            joint_rows_of(job, row, at);
            joint_pack_a(job, at);
            joint_ahead(job, at);
        }
        packed = row;
        joint_await(job, part);
        joint_panels(job, at, from, least(from + (int64_t)NR * JOINT_PANELS, job->n1));
    }
}

/* All columns are begun before the first rows below: nobody waits for what nobody does. */
static void joint_part(void *ctx, int thread, int threads) {
    const struct joint *job = ctx;
    struct gemm_at at = {.gemm = job->gemm};
    at.pack_a = sl_pool_scratch(job->pool, job->pack_a, 4 * job->sizes.a_floats, thread);
    joint_columns(job, &at, thread, threads);
    joint_rows(job, &at, thread);
}

static void joint_run(struct joint *job) {
    for (int64_t i = 0; i < joint_parts(job->n1 - job->n0); i++)
        atomic_init(&job->packed[i], 0);
    sl_pool_run_pieces(job->pool, 4 * job->sizes.a_floats, joint_part, job);
}

static void joint_product(const struct gemm *g, struct sl_pool *pool, float *scratch) {
    struct joint job = {
        .gemm = g,
        .pool = pool,
        .sizes = joint_sizes(g->m, g->n, g->k, sl_pool_threads(pool)),
        .pack_b = scratch,
    };
    job.pack_a = scratch + job.sizes.b_floats;
    job.packed = (atomic_int *)(job.pack_a - up_to(joint_parts(job.sizes.wide), LINE));
    for (job.n0 = 0; job.n0 < g->n; job.n0 = job.n1) {
        job.n1 = least(g->n, job.n0 + job.sizes.wide);
        for (job.k0 = 0; job.k0 < g->k; job.k0 = job.k1) {
            job.k1 = least(g->k, job.k0 + job.sizes.deep);
            joint_run(&job);
        }
    }
}

#endif
