/* Threads of one worker: the caller is thread 0, the others spin for a while and then sleep.
 *
 *   round:   even                      odd...
 *   caller:  set job, round++  --->  run part 0  --->  wait until `left` is 0
 *   helper:  wait for round    --->  run part t  --->  left--
 *
 * Cores are not equally fast: other work on a core may halve its speed for a while. So threads take
 * pieces one by one (sl_device_pool_take): first those of their own range, which may still be in
 * their cache, then the rest of other ranges.
 */
#include "device/bind.h"
#include "device/cpu/pool_state.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { SPINS = 20000, PARTS = 4 /* per thread, in sl_device_pool_share */ };

struct helper {
    struct sl_device_pool *pool;
    int thread;
};

static void relax(void) { __builtin_ia32_pause(); }

/* Waits until the round differs from `seen`: spins first, then sleeps. */
static unsigned wait_round(struct sl_device_pool *pool, unsigned seen) {
    unsigned now;
    int64_t until_ns = 0;
    for (int i = 0; i < SPINS || (pool->place >= 0 && sl_device_bind_stay_awake(&until_ns)); i++) {
        now = atomic_load_explicit(&pool->round, memory_order_acquire);
        if (now != seen)
            return now;
        relax();
    }
    pthread_mutex_lock(&pool->mutex);
    atomic_fetch_add(&pool->sleepers, 1);
    while ((now = atomic_load(&pool->round)) == seen)
        pthread_cond_wait(&pool->wake, &pool->mutex);
    atomic_fetch_sub(&pool->sleepers, 1);
    pthread_mutex_unlock(&pool->mutex);
    return now;
}

static void *help(void *arg) {
    struct helper me = *(struct helper *)arg;
    free(arg);
    unsigned seen = 0;
    /* A thread that cannot be pinned runs anywhere. The owner of the pool has checked the
     * places. */
    if (me.pool->place >= 0 && sl_device_bind_thread(me.pool->place + me.thread) != SL_OK)
        (void)0;
    for (;;) {
        seen = wait_round(me.pool, seen);
        if (atomic_load(&me.pool->stop))
            return NULL;
        me.pool->body(me.pool->ctx, me.thread, me.pool->threads);
        atomic_fetch_sub_explicit(&me.pool->left, 1, memory_order_release);
    }
}

static void start_round(struct sl_device_pool *pool) {
    atomic_fetch_add(&pool->round, 1);
    if (atomic_load(&pool->sleepers) == 0)
        return;
    pthread_mutex_lock(&pool->mutex);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->mutex);
}

sl_err sl_device_pool_open_at(int threads, int place, struct sl_device_pool **out) {
    struct sl_device_pool *pool = aligned_alloc(64, sizeof *pool);
    if (!pool)
        sl_out_of_memory(sizeof *pool);
    memset(pool, 0, sizeof *pool);
    pool->threads = 1;
    pool->place = place;
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->wake, NULL);
    pool->ids = sl_realloc(NULL, sizeof *pool->ids * (size_t)threads);
    pool->taken = aligned_alloc(64, sizeof *pool->taken * (size_t)threads);
    if (!pool->taken)
        sl_out_of_memory(sizeof *pool->taken * (size_t)threads);
    for (int t = 1; t < threads; t++) {
        struct helper *helper = sl_realloc(NULL, sizeof *helper);
        *helper = (struct helper){pool, t};
        int code = pthread_create(&pool->ids[t], NULL, help, helper);
        if (code != 0) {
            free(helper);
            sl_device_pool_close(pool);
            return sl_fail(SL_ERR_SYSTEM, "cannot start thread %d of %d (error %d)", t, threads,
                           code);
        }
        pool->threads = t + 1;
    }
    *out = pool;
    return SL_OK;
}

sl_err sl_device_pool_open(int threads, struct sl_device_pool **out) {
    return sl_device_pool_open_at(threads, -1, out);
}

void sl_device_pool_close(struct sl_device_pool *pool) {
    if (!pool)
        return;
    atomic_store(&pool->stop, true);
    start_round(pool);
    for (int t = 1; t < pool->threads; t++)
        pthread_join(pool->ids[t], NULL);
    pthread_mutex_destroy(&pool->mutex);
    pthread_cond_destroy(&pool->wake);
    free(pool->taken);
    free(pool->ids);
    free(pool);
}

int sl_device_pool_threads(const struct sl_device_pool *pool) { return pool->threads; }

static void set_job(struct sl_device_pool *pool, void (*body)(void *ctx, int thread, int threads),
                    void *ctx) {
    for (int t = 0; t < pool->threads; t++) {
        atomic_store_explicit(&pool->taken[t].count, 0, memory_order_relaxed);
        atomic_store_explicit(&pool->taken[t].before, 0, memory_order_relaxed);
    }
    pool->body = body;
    pool->ctx = ctx;
}

static void run_job(struct sl_device_pool *pool) {
    if (pool->threads == 1) {
        pool->body(pool->ctx, 0, 1);
        return;
    }
    atomic_store(&pool->left, pool->threads - 1);
    start_round(pool);
    pool->body(pool->ctx, 0, pool->threads);
    for (int i = 0; atomic_load_explicit(&pool->left, memory_order_acquire) > 0; i++) {
        if (i < SPINS)
            relax();
        else
            sched_yield();
    }
}

void sl_device_pool_run(struct sl_device_pool *pool,
                        void (*body)(void *ctx, int thread, int threads), void *ctx) {
    set_job(pool, body, ctx);
    run_job(pool);
}

void sl_device_pool_run_pieces(struct sl_device_pool *pool, int64_t scratch_bytes,
                               void (*body)(void *ctx, int thread, int threads), void *ctx) {
    set_job(pool, body, ctx);
    if (pool->lend)
        sl_device_lend_let_in(pool, scratch_bytes);
    run_job(pool);
    if (pool->lend)
        sl_device_lend_see_out(pool);
}

void sl_device_pool_range(int64_t count, int64_t grain, int thread, int threads, int64_t *from,
                          int64_t *to) {
    int64_t grains = (count + grain - 1) / grain;
    int64_t first = grains * thread / threads, last = grains * (thread + 1) / threads;
    *from = first * grain < count ? first * grain : count;
    *to = last * grain < count ? last * grain : count;
}

static int64_t take(struct sl_device_pool *pool, bool before, int64_t count, int thread) {
    bool guest = thread >= pool->threads;
    if (guest && sl_device_lend_is_called_back())
        return -1;
    for (int i = 0; i < pool->threads; i++) {
        int owner = (thread + i) % pool->threads;
        struct sl_device_taken *taken = &pool->taken[owner];
        int64_t from, to;
        sl_device_pool_range(count, 1, owner, pool->threads, &from, &to);
        from += atomic_fetch_add_explicit(before ? &taken->before : &taken->count, 1,
                                          memory_order_relaxed);
        if (from >= to)
            continue;
        if (guest)
            sl_device_lend_note_piece();
        return from;
    }
    if (guest && !before)
        sl_device_lend_shut(pool);
    return -1;
}

int64_t sl_device_pool_take(struct sl_device_pool *pool, int64_t count, int thread) {
    return take(pool, false, count, thread);
}

int64_t sl_device_pool_take_before(struct sl_device_pool *pool, int64_t count, int thread) {
    return take(pool, true, count, thread);
}

void *sl_device_pool_scratch(const struct sl_device_pool *pool, void *scratch, int64_t step_bytes,
                             int thread) {
    return thread < pool->threads ? (char *)scratch + thread * step_bytes
                                  : sl_device_lend_scratch();
}

void sl_device_pool_set_scratch(struct sl_device_pool *pool, void *scratch, int64_t size_bytes) {
    pool->scratch = scratch;
    pool->scratch_bytes = size_bytes;
}

bool sl_device_pool_lends(const struct sl_device_pool *pool) { return pool->lend != NULL; }

struct shared {
    struct sl_device_pool *pool;
    void (*body)(void *ctx, int part, int parts);
    void *ctx;
    int parts;
};

static void share_part(void *ctx, int thread, int threads) {
    const struct shared *job = ctx;
    (void)threads;
    for (int64_t i; (i = sl_device_pool_take(job->pool, job->parts, thread)) >= 0;)
        job->body(job->ctx, (int)i, job->parts);
}

void sl_device_pool_share(struct sl_device_pool *pool, void (*body)(void *ctx, int part, int parts),
                          void *ctx) {
    struct shared job = {pool, body, ctx, PARTS * pool->threads};
    if (pool->threads == 1 && !pool->lend)
        body(ctx, 0, 1);
    else
        sl_device_pool_run_pieces(pool, 0, share_part, &job);
}
