/* Threads of one worker: the caller is thread 0, the others spin for a while and then sleep.
 *
 *   round:   even                      odd...
 *   caller:  set job, round++  --->  run part 0  --->  wait until `left` is 0
 *   helper:  wait for round    --->  run part t  --->  left--
 *
 * Cores are not equally fast: another's work on the same core halves one of them for a while. So
 * work in pieces is taken piece by piece (sl_pool_take): first a thread's own range, which its
 * cache may still hold, then what is left of the others'.
 */
#include "device/bind.h"
#include "device/cpu/cpu.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { SPINS = 20000, PARTS = 4 /* of a thread, in sl_pool_share */ };

/* How many pieces of a thread's range are taken; a line of memory of its own. */
struct taken {
    _Alignas(64) _Atomic int64_t count;
};

struct sl_pool {
    int threads, place;
    pthread_t *ids;
    void (*body)(void *ctx, int thread, int threads);
    void *ctx;
    struct taken *taken; /* per thread */
    _Atomic unsigned round;
    atomic_int left, sleepers;
    atomic_bool stop;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
};

struct helper {
    struct sl_pool *pool;
    int thread;
};

static void relax(void) { __builtin_ia32_pause(); }

/* Wait until the round differs from `seen`: spin, then sleep. */
static unsigned wait_round(struct sl_pool *pool, unsigned seen) {
    unsigned now;
    for (int i = 0; i < SPINS; i++) {
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
    /* A thread that cannot be bound runs as well anywhere; who opened the pool counted the places.
     */
    if (me.pool->place >= 0 && sl_bind_thread(me.pool->place + me.thread) != SL_OK)
        (void)0;
    for (;;) {
        seen = wait_round(me.pool, seen);
        if (atomic_load(&me.pool->stop))
            return NULL;
        me.pool->body(me.pool->ctx, me.thread, me.pool->threads);
        atomic_fetch_sub_explicit(&me.pool->left, 1, memory_order_release);
    }
}

static void start_round(struct sl_pool *pool) {
    atomic_fetch_add(&pool->round, 1);
    if (atomic_load(&pool->sleepers) == 0)
        return;
    pthread_mutex_lock(&pool->mutex);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->mutex);
}

sl_err sl_pool_open_at(int threads, int place, struct sl_pool **out) {
    struct sl_pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        sl_out_of_memory(sizeof *pool);
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
            sl_pool_close(pool);
            return sl_fail(SL_ERR_SYSTEM, "cannot start thread %d of %d (error %d)", t, threads,
                           code);
        }
        pool->threads = t + 1;
    }
    *out = pool;
    return SL_OK;
}

sl_err sl_pool_open(int threads, struct sl_pool **out) { return sl_pool_open_at(threads, -1, out); }

void sl_pool_close(struct sl_pool *pool) {
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

int sl_pool_threads(const struct sl_pool *pool) { return pool->threads; }

void sl_pool_run(struct sl_pool *pool, void (*body)(void *ctx, int thread, int threads),
                 void *ctx) {
    for (int t = 0; t < pool->threads; t++)
        atomic_store_explicit(&pool->taken[t].count, 0, memory_order_relaxed);
    if (pool->threads == 1) {
        body(ctx, 0, 1);
        return;
    }
    pool->body = body;
    pool->ctx = ctx;
    atomic_store(&pool->left, pool->threads - 1);
    start_round(pool);
    body(ctx, 0, pool->threads);
    for (int i = 0; atomic_load_explicit(&pool->left, memory_order_acquire) > 0; i++) {
        if (i < SPINS)
            relax();
        else
            sched_yield();
    }
}

void sl_pool_range(int64_t count, int64_t grain, int thread, int threads, int64_t *from,
                   int64_t *to) {
    int64_t grains = (count + grain - 1) / grain;
    int64_t first = grains * thread / threads, last = grains * (thread + 1) / threads;
    *from = first * grain < count ? first * grain : count;
    *to = last * grain < count ? last * grain : count;
}

int64_t sl_pool_take(struct sl_pool *pool, int64_t count, int thread) {
    for (int i = 0; i < pool->threads; i++) {
        int owner = (thread + i) % pool->threads;
        int64_t from, to;
        sl_pool_range(count, 1, owner, pool->threads, &from, &to);
        from += atomic_fetch_add_explicit(&pool->taken[owner].count, 1, memory_order_relaxed);
        if (from < to)
            return from;
    }
    return -1;
}

struct shared {
    struct sl_pool *pool;
    void (*body)(void *ctx, int part, int parts);
    void *ctx;
};

static void share_part(void *ctx, int thread, int threads) {
    const struct shared *job = ctx;
    int parts = PARTS * threads;
    for (int64_t i; (i = sl_pool_take(job->pool, parts, thread)) >= 0;)
        job->body(job->ctx, (int)i, parts);
}

void sl_pool_share(struct sl_pool *pool, void (*body)(void *ctx, int part, int parts), void *ctx) {
    if (pool->threads == 1)
        body(ctx, 0, 1);
    else
        sl_pool_run(pool, share_part, &(struct shared){pool, body, ctx});
}
