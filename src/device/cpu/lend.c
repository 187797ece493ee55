/* Lending of threads: guests in the loops of other workers.
 *
 * The door of a pool is one atomic word: the number of guests, and SHUT.
 *
 *   host:   set loop, door = 0      take pieces ... none left, door |= SHUT      wait for 0 guests
 *   guest:            door 0 -> 1,  take pieces ... none left, door |= SHUT, door - 1
 *
 * Guests never change a shut door, so a host waits only for guests in its loop, at most for one
 * piece each. Guests return when the event that their worker waits for occurs: their first thread
 * checks between two pieces and sets a flag for the others.
 */
#include "device/lend.h"

#include "base/clock.h"
#include "device/cpu/pool_state.h"

#include <sched.h>
#include <stdlib.h>

enum { SPINS = 20000 };
static const unsigned SHUT = 1u << 31;

struct sl_device_lend {
    int count, max;
    struct sl_device_pool **pools;
    atomic_int_least64_t pieces;
};

/* A visit: the threads of an idle worker (home) work in the loop of another one (host). */
struct visit {
    struct sl_device_pool *host, *home;
    bool (*enough)(void *ctx);
    void *ctx;
    atomic_bool back; /* set when the guests shall return home */
};

struct guest {
    struct visit *visit;
    int thread; /* number of this thread in its own pool */
};

static _Thread_local struct guest guest;

struct sl_device_lend *sl_device_lend_open(int max_devices) {
    struct sl_device_lend *lend = sl_realloc(NULL, sizeof *lend);
    *lend = (struct sl_device_lend){.max = max_devices};
    lend->pools = sl_realloc(NULL, sizeof(struct sl_device_pool *) * (size_t)(max_devices + 1));
    return lend;
}

void sl_device_lend_close(struct sl_device_lend *lend) {
    if (!lend)
        return;
    free(lend->pools);
    free(lend);
}

void sl_device_lend_join(struct sl_device_lend *lend, struct sl_device *device) {
    struct sl_device_pool *pool = sl_device_cpu_pool(device);
    if (!pool)
        return;
    SL_ASSERT(lend->count < lend->max);
    pool->lend = lend;
    atomic_store(&pool->door, SHUT);
    lend->pools[lend->count++] = pool;
}

int64_t sl_device_lend_count(const struct sl_device_lend *lend) {
    return atomic_load(&lend->pieces);
}

void sl_device_lend_let_in(struct sl_device_pool *pool, int64_t guest_bytes) {
    atomic_store_explicit(&pool->guest_bytes, guest_bytes, memory_order_relaxed);
    atomic_store_explicit(&pool->door, 0, memory_order_release);
}

void sl_device_lend_shut(struct sl_device_pool *pool) {
    atomic_fetch_or_explicit(&pool->door, SHUT, memory_order_relaxed);
}

void sl_device_lend_see_out(struct sl_device_pool *pool) {
    sl_device_lend_shut(pool);
    for (int i = 0; atomic_load_explicit(&pool->door, memory_order_acquire) != SHUT; i++) {
        if (i < SPINS)
            __builtin_ia32_pause();
        else
            sched_yield();
    }
}

bool sl_device_lend_is_called_back(void) {
    struct visit *visit = guest.visit;
    if (guest.thread == 0 && visit->enough(visit->ctx))
        atomic_store_explicit(&visit->back, true, memory_order_relaxed);
    return atomic_load_explicit(&visit->back, memory_order_relaxed);
}

/* Returns the bytes of scratch per thread, in whole cache lines. */
static int64_t scratch_step(const struct sl_device_pool *pool) {
    return pool->scratch_bytes / pool->threads / 64 * 64;
}

void *sl_device_lend_scratch(void) {
    const struct sl_device_pool *home = guest.visit->home;
    return home->scratch + guest.thread * scratch_step(home);
}

void sl_device_lend_note_piece(void) {
    atomic_fetch_add_explicit(&guest.visit->home->lend->pieces, 1, memory_order_relaxed);
}

static bool suits(const struct sl_device_pool *host, const struct sl_device_pool *home) {
    return atomic_load_explicit(&host->guest_bytes, memory_order_relaxed) <= scratch_step(home);
}

static bool enter(struct sl_device_pool *host) {
    unsigned door = atomic_load_explicit(&host->door, memory_order_relaxed);
    while (!(door & SHUT))
        if (atomic_compare_exchange_weak_explicit(&host->door, &door, door + 1,
                                                  memory_order_acquire, memory_order_relaxed))
            return true;
    return false;
}

/* Runs on every thread of the idle worker. By then the host may be in another loop. */
static void visit_part(void *ctx, int thread, int threads) {
    struct visit *visit = ctx;
    struct sl_device_pool *host = visit->host;
    (void)threads;
    if (enter(host)) {
        guest = (struct guest){visit, thread};
        if (suits(host, visit->home))
            host->body(host->ctx, host->threads + thread, host->threads);
        atomic_fetch_sub_explicit(&host->door, 1, memory_order_release);
    }
    if (thread == 0) /* only thread 0 checks for work at home */
        atomic_store_explicit(&visit->back, true, memory_order_relaxed);
}

/* Returns the pool whose last wait is the longest ago: other pools are likely to be waiting for
 * it. */
static struct sl_device_pool *find_host(const struct sl_device_pool *home) {
    struct sl_device_pool *found = NULL;
    int64_t found_ns = INT64_MAX;
    for (int i = 0; i < home->lend->count; i++) {
        struct sl_device_pool *pool = home->lend->pools[i];
        int64_t ns = atomic_load_explicit(&pool->idle_ns, memory_order_relaxed);
        if (pool == home || ns >= found_ns || !suits(pool, home) ||
            atomic_load_explicit(&pool->door, memory_order_relaxed) & SHUT)
            continue;
        found = pool;
        found_ns = ns;
    }
    return found;
}

bool sl_device_lend_work(struct sl_device *device, bool (*enough)(void *ctx), void *ctx) {
    struct sl_device_pool *home = sl_device_cpu_pool(device);
    if (!home || !home->lend)
        return false;
    atomic_store_explicit(&home->idle_ns, sl_clock_ns(), memory_order_relaxed);
    struct visit visit = {.host = find_host(home), .home = home, .enough = enough, .ctx = ctx};
    if (!visit.host)
        return false;
    sl_device_pool_run(home, visit_part, &visit);
    return true;
}
