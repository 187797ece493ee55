/* Sides of the blocks of a product on AMX, and the memory that they are packed into. */
#ifndef SL_DEVICE_CPU_GEMM_AMX_SIZES_H
#define SL_DEVICE_CPU_GEMM_AMX_SIZES_H

#include "device/cpu/amx.h"

enum {
    AMX_KC = 384,
    AMX_KC_ALONE = 448,
    AMX_FAR = 800 * 1024, /* elements of far blocks */
    AMX_NEAR = 96 * 1024, /* of a near block */
    AMX_PIECES = 4,       /* that a thread of several has, at least */
};

/* Sums shorter or matrices lower than this are not worth it. Only what no thread changes may decide
 * here. */
INLINE bool amx_suits(int64_t m, int64_t k) { return m >= 8 && k >= 16; }

INLINE int64_t amx_kc(int64_t k) {
    int64_t blocks = k <= AMX_KC_ALONE ? 1 : (k + AMX_KC - 1) / AMX_KC;
    return up_to((k + blocks - 1) / blocks, AMX_SIDE);
}

/* Rows or columns of a block: whole panels. */
INLINE int64_t amx_side(int64_t count, int64_t kc, int64_t elements) {
    return least(up_to(count, AMX_SIDE), most(1, elements / kc / AMX_SIDE) * AMX_SIDE);
}

/* Rows or columns of a piece that leaves no thread with much more to do than another. */
INLINE int64_t amx_piece(int64_t count, int threads) {
    int64_t pieces = threads > 1 ? AMX_PIECES * threads : 1;
    return up_to(most(1, count / pieces), 3 * AMX_SIDE);
}

struct amx_sizes {
    int64_t kc, near, far; /* sides of blocks */
    int64_t depth;         /* blocks of k whose far sides are packed at once */
};

/* Several threads take near blocks as pieces, and meet seldom. */
static struct amx_sizes amx_sizes(int64_t m, int64_t n, int64_t k, int threads) {
    int64_t kc = amx_kc(k);
    struct amx_sizes s = {.kc = kc,
                          .near = amx_side(most(m, n), kc, AMX_NEAR),
                          .far = amx_side(least(m, n), kc, AMX_FAR),
                          .depth = 1};
    if (threads > 1) {
        s.near = least(s.near, amx_piece(most(m, n), threads));
        s.depth = least((k + kc - 1) / kc, most(1, AMX_FAR / (s.far * kc)));
    }
    return s;
}

INLINE int64_t amx_packed_floats(int64_t elements) {
    return elements * AMX_STEP / (AMX_SIDE * AMX_SIDE) / 4;
}

/* Floats of scratch for a product by several threads. */
static int64_t amx_floats(int64_t m, int64_t n, int64_t k, int threads) {
    struct amx_sizes s = amx_sizes(m, n, k, threads);
    return amx_packed_floats(s.kc * (s.depth * s.far + threads * s.near));
}

/* By one thread; also for parts of this size and any smaller one, whose kc may be larger. */
static int64_t amx_part_floats(int64_t m, int64_t n, int64_t k) {
    int64_t kc = least(up_to(k, AMX_SIDE), AMX_KC_ALONE), total = 0;
    int64_t count[2] = {most(m, n), least(m, n)}, elements[2] = {AMX_NEAR, AMX_FAR};
    for (int i = 0; i < 2; i++)
        total += least(up_to(count[i], AMX_SIDE) * kc, most(elements[i], AMX_SIDE * kc));
    return amx_packed_floats(total);
}

#endif
