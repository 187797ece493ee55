/* Sizes of a product by all threads, and what they share. */
#ifndef SL_DEVICE_CPU_GEMM_JOINT_SIZES_H
#define SL_DEVICE_CPU_GEMM_JOINT_SIZES_H

#include "device/cpu/gemm.h"

#include <sched.h>
#include <stdatomic.h>

/* Pieces of the rows that a thread has, at least; panels of B in a piece. */
enum { JOINT_PIECES = 4, JOINT_PANELS = 4 };

struct joint_sizes {
    int64_t kc, wide, deep, pieces; /* deep: whole blocks of kc; pieces: of the rows */
    int64_t a_floats, b_floats;     /* of a thread; of all: B, then a count for every part of it */
};

/* Rows for every thread, which are worth a panel of B. */
INLINE bool gemm_joins(int64_t m, int64_t count, int threads) {
    return count < (threads > 1 ? threads : 4) && m >= (int64_t)128 * threads;
}

/* Of that many columns. */
INLINE int64_t joint_parts(int64_t columns) {
    const int64_t wide = (int64_t)NR * JOINT_PANELS;
    return (columns + wide - 1) / wide;
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
    s.b_floats = up_to(s.wide * s.deep, LINE) + up_to(joint_parts(s.wide), LINE);
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
    atomic_int *packed;     /* panels of B, in every part */
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

/* Wait until all panels of the part are packed: whoever does that has begun. */
INLINE void joint_await(const struct joint *job, int64_t part) {
    enum { SPINS = 20000 };
    int64_t panels = (job->n1 - job->n0 + NR - 1) / NR - part * JOINT_PANELS;
    int all = (int)least(JOINT_PANELS, panels);
    for (int i = 0; atomic_load_explicit(&job->packed[part], memory_order_acquire) < all; i++) {
        if (i < SPINS)
            __builtin_ia32_pause();
        else
            sched_yield();
    }
}

#endif
