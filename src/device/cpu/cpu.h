/* The CPU device: a pool of threads, scratch memory, and a table of kernels per instruction set.
 *
 * A kernel gets its operands as pointers and splits its work over the pool. Which thread computes a
 * piece may depend on timing (sl_device_pool_take); the bits of a result never do.
 *
 *   device/cpu             the device, its threads, optimizer steps
 *   device/cpu/pointwise   kernels that read each element a few times: elementwise, norms, losses
 *   device/cpu/product     matrix products and kernels made of them: conv2d, lstm, attention
 *   device/cpu/optim       update rules of optimizers
 *
 * The files of the subdirectories are compiled once per instruction set (device/cpu/isa.h).
 */
#ifndef SL_DEVICE_CPU_CPU_H
#define SL_DEVICE_CPU_CPU_H

#include "device/device.h"

struct sl_device_pool;

/* Opens the threads of one worker; thread 0 is the caller. */
SL_MUST_CHECK sl_err sl_device_pool_open(int threads, struct sl_device_pool **out);
/* With place >= 0 it pins thread t to place + t; the caller, which is thread 0, pins itself. */
SL_MUST_CHECK sl_err sl_device_pool_open_at(int threads, int place, struct sl_device_pool **out);
void sl_device_pool_close(struct sl_device_pool *pool);
int sl_device_pool_threads(const struct sl_device_pool *pool);
/* Calls body(ctx, t, threads) once on every thread; returns when all have returned. */
void sl_device_pool_run(struct sl_device_pool *pool,
                        void (*body)(void *ctx, int thread, int threads), void *ctx);
/* The same for a body that works only on pieces it takes; its scratch is sl_device_pool_scratch().
 * Idle threads of other workers may join (device/lend.h); their numbers start at `threads`. */
void sl_device_pool_run_pieces(struct sl_device_pool *pool, int64_t scratch_bytes,
                               void (*body)(void *ctx, int thread, int threads), void *ctx);
/* Returns the scratch of this thread in such a body; step_bytes is `scratch_bytes` of the run. */
void *sl_device_pool_scratch(const struct sl_device_pool *pool, void *scratch, int64_t step_bytes,
                             int thread);
/* True if others may join. Then even a pool of one thread cuts its work into pieces. */
bool sl_device_pool_lends(const struct sl_device_pool *pool);
/* Returns the next of `count` pieces for this thread, or -1 if none is left. A run calls it in one
 * loop only. Every piece goes to one thread; its result must not depend on which. */
int64_t sl_device_pool_take(struct sl_device_pool *pool, int64_t count, int thread);
/* The same, for an earlier loop of the same run. -1 says that all pieces are begun; other threads
 * may still work on them. */
int64_t sl_device_pool_take_before(struct sl_device_pool *pool, int64_t count, int thread);
/* Calls body(ctx, part, parts) for every part; each part runs on the next free thread. The result
 * of the work must not depend on the split. */
void sl_device_pool_share(struct sl_device_pool *pool, void (*body)(void *ctx, int part, int parts),
                          void *ctx);

/* Sets the share [*from, *to) that a thread has of [0, count); it begins at a multiple of grain. */
void sl_device_pool_range(int64_t count, int64_t grain, int thread, int threads, int64_t *from,
                          int64_t *to);

/* Rounds a size up to whole cache lines, because scratch is laid out in them. */
static inline int64_t sl_device_whole_lines(int64_t bytes) { return (bytes + 63) / 64 * 64; }

struct sl_device_cpu_call {
    const struct sl_instr *instr;
    const void *in[SL_INSTR_IN]; /* NULL: the operand is absent */
    void *out[SL_INSTR_OUT];
    struct sl_device_pool *pool;
    void *scratch; /* at least scratch_bytes() of the kernel, 64-byte aligned, not zeroed */
    bool add;      /* adds to out[0]; only for instructions that accumulate */
    uint64_t seed;
    int64_t first_sample, samples;
};

struct sl_device_cpu_kernel {
    const char *name; /* name in sl_instr.kernel; a row {0} ends a list */
    void (*run)(const struct sl_device_cpu_call *call);
    int64_t (*scratch_bytes)(const struct sl_instr *instr, int threads); /* NULL: 0 bytes */
};

/* The kernels of one instruction set, as lists of families that end with NULL. */
struct sl_device_cpu_table {
    const char *isa; /* "amx", "avx512", "avx2", "any" */
    bool (*supported)(void);
    const struct sl_device_cpu_kernel *const *product, *const *pointwise; /* NULL: none */
};
/* All tables, best first, then NULL. A kernel comes from the first supported one that has it. */
extern const struct sl_device_cpu_table *const sl_device_cpu_tables[];
/* The table for programs with bf16 activations, used if the best instruction set may be used. */
extern const struct sl_device_cpu_table sl_device_cpu_table_bf16;
/* Returns NULL if the table has no such kernel or the CPU lacks the instruction set. */
const struct sl_device_cpu_kernel *sl_device_cpu_table_find(const struct sl_device_cpu_table *table,
                                                            const char *name);

/* Returns the threads of a device; NULL if it is not a CPU. */
struct sl_device_pool *sl_device_cpu_pool(struct sl_device *device);
/* Sets the scratch of threads that help another worker; the caller owns it. */
void sl_device_pool_set_scratch(struct sl_device_pool *pool, void *scratch, int64_t size_bytes);

const struct sl_device_cpu_kernel *sl_device_cpu_find(const char *name);
const struct sl_device_cpu_kernel *sl_device_cpu_find_for(const char *name, enum sl_dtype dtype);
/* Uses no better instruction set than this one (NULL: no limit), so that different machines give
 * the same bits. Call it before the first device is opened. */
SL_MUST_CHECK sl_err sl_device_cpu_limit(const char *isa);

/* These return true if this CPU has the instruction set. The tables use them. */
bool sl_device_cpu_has_any(void);
bool sl_device_cpu_has_avx2(void);
bool sl_device_cpu_has_avx512(void);
bool sl_device_cpu_has_amx(void);

#endif
