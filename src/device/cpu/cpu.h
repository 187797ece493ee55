/* The CPU device: a pool of threads, scratch memory, and tables of kernels per instruction set.
 *
 * A kernel gets its operands as pointers and splits its own work over the pool. Which thread does
 * what may depend on how fast it is (sl_pool_take); the bits of a result never do. Kernels are
 * plain C compiled once per instruction set (kernels_avx2.c, kernels_avx512.c include the same
 * source).
 */
#ifndef SL_DEVICE_CPU_CPU_H
#define SL_DEVICE_CPU_CPU_H

#include "device/device.h"

struct sl_pool;

/* Threads of one worker: thread 0 is the caller. */
SL_MUST_CHECK sl_err sl_pool_open(int threads, struct sl_pool **out);
/* place >= 0: thread t is bound to place + t; the caller, thread 0, binds itself. */
SL_MUST_CHECK sl_err sl_pool_open_at(int threads, int place, struct sl_pool **out);
void sl_pool_close(struct sl_pool *pool);
int sl_pool_threads(const struct sl_pool *pool);
/* Call body(ctx, t, threads) once on every thread; returns when all are done. */
void sl_pool_run(struct sl_pool *pool, void (*body)(void *ctx, int thread, int threads), void *ctx);
/* The same for a body that only takes pieces, and has scratch by sl_pool_scratch alone: idle
 * threads of other workers may join (device/lend.h), with numbers from `threads` on. */
void sl_pool_run_pieces(struct sl_pool *pool, int64_t scratch_bytes,
                        void (*body)(void *ctx, int thread, int threads), void *ctx);
/* Inside it: the scratch of this thread, `step_bytes` (those of sl_pool_run_pieces) long. */
void *sl_pool_scratch(const struct sl_pool *pool, void *scratch, int64_t step_bytes, int thread);
/* May others join? Then one thread cuts its work in pieces, too. */
bool sl_pool_lends(const struct sl_pool *pool);
/* Inside a run, in one loop per run: which of `count` pieces this thread does next, -1: none
 * is left. Every piece goes to one thread; what it computes must not depend on which. */
int64_t sl_pool_take(struct sl_pool *pool, int64_t count, int thread);
/* The same, in a loop before that one: -1 when all pieces are begun, which others may still do. */
int64_t sl_pool_take_before(struct sl_pool *pool, int64_t count, int thread);
/* Call body(ctx, part, parts) for every part, some per thread, each by whoever is free: for work
 * that is the same however it is split. */
void sl_pool_share(struct sl_pool *pool, void (*body)(void *ctx, int part, int parts), void *ctx);

/* The part [*from, *to) of [0, count) of a thread, in multiples of `grain`. */
void sl_pool_range(int64_t count, int64_t grain, int thread, int threads, int64_t *from,
                   int64_t *to);

/* Scratch is laid out in whole lines of memory. */
static inline int64_t sl_whole_lines(int64_t bytes) { return (bytes + 63) / 64 * 64; }

struct sl_cpu_call {
    const struct sl_instr *instr;
    const void *in[SL_INSTR_IN]; /* NULL: absent */
    void *out[SL_INSTR_OUT];
    struct sl_pool *pool;
    void *scratch; /* scratch_bytes() of this kernel at least, 64-byte aligned, not zeroed */
    bool add;      /* out[0] += instead of =; only for instructions that accumulate */
    uint64_t seed;
    int64_t first_sample, samples;
};

struct sl_cpu_kernel {
    const char *name; /* of sl_instr.kernel; a row {0} ends a table */
    void (*run)(const struct sl_cpu_call *call);
    int64_t (*scratch_bytes)(const struct sl_instr *instr, int threads); /* NULL: none */
};

/* Tables, best first; the first row whose name matches is used. */
struct sl_cpu_table {
    const char *isa; /* "amx", "avx512", "avx2", "any" */
    bool (*supported)(void);
    const struct sl_cpu_kernel *kernels;
};
extern const struct sl_cpu_table *const sl_cpu_tables[]; /* ends with NULL */
/* Looked at before them for programs whose activations are bf16; of the best instruction set. */
extern const struct sl_cpu_table sl_cpu_table_bf16;

/* The threads of a device; NULL: it is no CPU. */
struct sl_pool *sl_cpu_pool(struct sl_device *device);
/* What they may use as guests; the caller keeps it. */
void sl_pool_set_scratch(struct sl_pool *pool, void *scratch, int64_t size_bytes);

const struct sl_cpu_kernel *sl_cpu_find(const char *name);
const struct sl_cpu_kernel *sl_cpu_find_for(const char *name, enum sl_dtype dtype);
/* Use no better instruction set than this one (NULL: any), so that machines of different kinds give
 * the same bits. Before the first device is opened. */
SL_MUST_CHECK sl_err sl_cpu_limit(const char *isa);

/* What this CPU has; for the tables. */
bool sl_cpu_has_any(void);
bool sl_cpu_has_avx2(void);
bool sl_cpu_has_avx512(void);
bool sl_cpu_has_amx(void);

#endif
