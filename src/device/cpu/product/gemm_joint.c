/* c = a b, computed by all threads of a worker together: B is packed once for all.
 *
 *   for columns by `wide`, for k by `deep`
 *     groups of columns x the first piece of rows    packs their panels of B, for all threads
 *     parts of columns x the other pieces of rows    packs A (L2) when the thread changes rows
 *
 * No barrier lies between the two: a thread that finds all groups begun goes on with the parts,
 * and waits for panels only where it needs them. B usually comes from memory, so the tiles of a
 * panel prefetch the next one. Blocks of k are those of gemm_block.h, and so are the bits. */
#include "device/cpu/product/gemm_joint.h"

#include "device/cpu/product/gemm_block.h"

#include <sched.h>
#include <stdatomic.h>

/* JOINT_PIECES: pieces of the rows per thread, at least. JOINT_PANELS: panels of B in a part of the
 * columns. */
enum { JOINT_PIECES = 4, JOINT_PANELS = 4 };

struct joint_sizes {
    int64_t kc;
    /* columns and k of B that are packed together; `deep` is a multiple of kc */
    int64_t wide, deep;
    int64_t pieces;   /* number of pieces of the rows */
    int64_t a_floats; /* floats of the packed A of a thread */
    /* floats of the packed B of all threads, with a counter per part of the columns */
    int64_t b_floats;
};

/* Returns the number of parts of so many columns. */
static INLINE int64_t joint_parts(int64_t columns) {
    const int64_t wide = (int64_t)NR * JOINT_PANELS;
    return (columns + wide - 1) / wide;
}

static struct joint_sizes joint_sizes(int64_t m, int64_t n, int64_t k, int threads) {
    struct joint_sizes s = {.kc = gemm_kc(k)};
    int64_t room = max_i64(NR, threads * (int64_t)GEMM_B_FLOATS / s.kc);
    int64_t strips = max_i64(1, (n + room - 1) / room);
    s.wide = round_up((n + strips - 1) / strips, NR);
    s.pieces = 1 + round_up((m + GEMM_MC - 1) / GEMM_MC, (int64_t)JOINT_PIECES * threads);
    int64_t slivers = ((m + MR - 1) / MR + s.pieces - 1) / s.pieces;
    /* With few columns, all of k would fit. But the packed A must not exceed a block of B. */
    int64_t blocks = min_i64(room / s.wide, GEMM_B_FLOATS / (slivers * MR * s.kc));
    s.deep = s.kc * min_i64((k + s.kc - 1) / s.kc, max_i64(1, blocks));
    s.a_floats = round_up(slivers * MR * s.deep + LANES, LINE);
    s.b_floats = round_up(s.wide * s.deep, LINE) + round_up(joint_parts(s.wide), LINE);
    return s;
}

struct joint {
    const struct sl_gemm_spec *gemm;
    struct sl_device_pool *pool;
    struct joint_sizes sizes;
    float *pack_a, *pack_b;
    atomic_int *packed;     /* [part]: how many panels of B are packed */
    int64_t n0, n1, k0, k1; /* the columns and k that are being computed */
};

/* Sets the block of k that starts at pc. Returns false at the end. */
static INLINE bool joint_block(const struct joint *job, struct sl_gemm_block *at) {
    at->kc = min_i64(job->sizes.kc, job->k1 - at->pc);
    at->pack_b = job->pack_b + (at->pc - job->k0) * job->sizes.wide + (at->jc - job->n0) * at->kc;
    return at->pc < job->k1;
}

/* Sets the rows of piece `index`. Pieces consist of tiles of about equal height. */
static INLINE void joint_rows_of(const struct joint *job, int64_t index, struct sl_gemm_block *at) {
    int64_t end;
    sl_device_pool_range(job->gemm->m, MR, (int)index, (int)job->sizes.pieces, &at->ic, &end);
    at->mc = end - at->ic;
    int64_t count = (at->mc + MR - 1) / MR;
    at->mr = (at->mc + count - 1) / count;
}

/* Waits until all panels of the part are packed. Each of them was begun by some thread before. */
static INLINE void joint_await(const struct joint *job, int64_t part) {
    enum { SPINS = 20000 };
    int64_t panels = (job->n1 - job->n0 + NR - 1) / NR - part * JOINT_PANELS;
    int all = (int)min_i64(JOINT_PANELS, panels);
    for (int i = 0; atomic_load_explicit(&job->packed[part], memory_order_acquire) < all; i++) {
        if (i < SPINS)
            __builtin_ia32_pause();
        else
            sched_yield();
    }
}

bool joint_joins(int64_t m, int64_t count, int threads) {
    return count < (threads > 1 ? threads : 4) && m >= (int64_t)128 * threads;
}

int64_t joint_floats(int64_t m, int64_t n, int64_t k, int threads) {
    struct joint_sizes s = joint_sizes(m, n, k, threads);
    return s.a_floats + round_up((s.b_floats + threads - 1) / threads, LINE);
}

/* Sets the panel that follows this one: in [from, to), else that of the next block of k, else that
 * of the next columns. */
static INLINE void joint_next_b(const struct joint *job, struct sl_gemm_block *at, int64_t from,
                                int64_t to) {
    const struct sl_gemm_matrix *b = &job->gemm->b;
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

/* Computes columns [from, to) of the first piece of rows, whose A is packed. Packs their B. */
static void joint_strip(const struct joint *job, struct sl_gemm_block *at, int64_t from,
                        int64_t to) {
    float *pack_a = at->pack_a;
    at->jc = from;
    for (at->pc = job->k0; joint_block(job, at); at->pc += at->kc) {
        at->pack_a = pack_a + (at->pc - job->k0) * at->mc;
        for (at->jc = from; at->jc < to; at->jc += NR) {
            at->nc = min_i64(NR, to - at->jc);
            joint_block(job, at);
            gemm_block_pack_b(at);
            joint_next_b(job, at, from, to);
            gemm_block_multiply(at);
        }
        at->jc = from;
    }
    at->pack_a = pack_a;
}

/* Packs the A of the current rows, for k in [k0, k1). */
static void joint_pack_a(const struct joint *job, struct sl_gemm_block *at) {
    float *pack_a = at->pack_a;
    for (at->pc = job->k0; joint_block(job, at); at->pc += at->kc) {
        gemm_block_pack_a(at);
        at->pack_a += at->mc * at->kc;
    }
    at->pack_a = pack_a;
}

/* Returns the number of panels of B in a group. A group never crosses the border of a part. */
static INLINE int64_t joint_group(int64_t panels, int threads) {
    int64_t max_panels = panels / ((int64_t)4 * threads);
    return max_panels >= JOINT_PANELS ? JOINT_PANELS : max_panels >= 2 ? 2 : 1;
}

/* Computes the first piece of rows. Threads take groups of columns, never of k, so that the sums
 * over b have a fixed order. */
static void joint_columns(const struct joint *job, struct sl_gemm_block *at, int thread,
                          int threads) {
    const int64_t columns = job->n1 - job->n0, panels = (columns + NR - 1) / NR;
    const int64_t group = joint_group(panels, threads), groups = (panels + group - 1) / group;
    bool packed = false;
    joint_rows_of(job, 0, at);
    for (int64_t i; (i = sl_device_pool_take_before(job->pool, groups, thread)) >= 0;) {
        int64_t from = i * group, to = min_i64(from + group, panels);
        at->jc = job->n0;
        at->sum_a = job->gemm->a_sums && i == 0 && job->n0 == 0;
        if (!packed || at->sum_a)
            joint_pack_a(job, at);
        packed = true;
        joint_strip(job, at, job->n0 + from * NR, min_i64(job->n0 + to * NR, job->n1));
        atomic_fetch_add_explicit(&job->packed[from / JOINT_PANELS], (int)(to - from),
                                  memory_order_release);
    }
    at->next_b.at = NULL;
}

/* Plans prefetching of the rows that likely come next. */
static INLINE void joint_ahead(const struct joint *job, struct sl_gemm_block *at) {
    int64_t i = at->ic + at->mc;
    gemm_block_look_ahead(at, i, job->k0, min_i64(at->mc, job->gemm->m - i), job->k1 - job->k0);
}

/* Multiplies the current rows, whose A is packed, with columns [from, to). */
static void joint_panels(const struct joint *job, struct sl_gemm_block *at, int64_t from,
                         int64_t to) {
    float *pack_a = at->pack_a;
    at->jc = from;
    at->nc = to - from;
    for (at->pc = job->k0; joint_block(job, at); at->pc += at->kc) {
        at->pack_a = pack_a + (at->pc - job->k0) * at->mc;
        gemm_block_multiply(at);
    }
    at->pack_a = pack_a;
}

/* Computes the other pieces of rows. Threads take small pieces, so that all threads end at about
 * the same time. A piece is one part of the columns of a few rows. The packed A is reused for the
 * next part of the same rows. */
static void joint_rows(const struct joint *job, struct sl_gemm_block *at, int thread) {
    const int64_t parts = joint_parts(job->n1 - job->n0), count = (job->sizes.pieces - 1) * parts;
    int64_t packed = 0;
    for (int64_t i; (i = sl_device_pool_take(job->pool, count, thread)) >= 0;) {
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
        joint_panels(job, at, from, min_i64(from + (int64_t)NR * JOINT_PANELS, job->n1));
    }
}

/* Every group of columns is begun before any other rows, so no thread waits for work that nobody
 * has taken. */
static void joint_part(void *ctx, int thread, int threads) {
    const struct joint *job = ctx;
    struct sl_gemm_block at = {.gemm = job->gemm};
    at.pack_a = sl_device_pool_scratch(job->pool, job->pack_a, 4 * job->sizes.a_floats, thread);
    joint_columns(job, &at, thread, threads);
    joint_rows(job, &at, thread);
}

static void joint_run(struct joint *job) {
    for (int64_t i = 0; i < joint_parts(job->n1 - job->n0); i++)
        atomic_init(&job->packed[i], 0);
    sl_device_pool_run_pieces(job->pool, 4 * job->sizes.a_floats, joint_part, job);
}

void joint_product(const struct sl_gemm_spec *g, struct sl_device_pool *pool, float *scratch) {
    struct joint job = {
        .gemm = g,
        .pool = pool,
        .sizes = joint_sizes(g->m, g->n, g->k, sl_device_pool_threads(pool)),
        .pack_b = scratch,
    };
    job.pack_a = scratch + job.sizes.b_floats;
    job.packed = (atomic_int *)(job.pack_a - round_up(joint_parts(job.sizes.wide), LINE));
    for (job.n0 = 0; job.n0 < g->n; job.n0 = job.n1) {
        job.n1 = min_i64(g->n, job.n0 + job.sizes.wide);
        for (job.k0 = 0; job.k0 < g->k; job.k0 = job.k1) {
            job.k1 = min_i64(g->k, job.k0 + job.sizes.deep);
            joint_run(&job);
        }
    }
}
