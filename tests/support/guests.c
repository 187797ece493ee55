#include "support/guests.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { SCRATCH_BYTES = 16 << 20 };

static struct {
    struct sl_device_lend *lend;
    struct sl_device *hosts[GUESTS_HOSTS], *idle;
    void *scratch;
    pthread_t id;
    atomic_bool stop;
} g;

static bool is_stopped(void *ctx) {
    (void)ctx;
    return atomic_load(&g.stop);
}

static void *look_for_work(void *arg) {
    (void)arg;
    while (!is_stopped(NULL))
        if (!sl_device_lend_work(g.idle, is_stopped, NULL))
            sched_yield();
    return NULL;
}

static bool open_one(int threads, struct sl_device **out) {
    struct sl_device_config config = {.threads = threads};
    if (sl_device_find("cpu")->open(&config, out) != SL_OK)
        return false;
    sl_device_lend_join(g.lend, *out);
    return true;
}

bool guests_open(struct sl_device_pool *pools[]) {
    g.lend = sl_device_lend_open(GUESTS_HOSTS + 1);
    for (int t = 0; t < GUESTS_HOSTS; t++) {
        if (!open_one(t + 1, &g.hosts[t]))
            return false;
        pools[t] = sl_device_cpu_pool(g.hosts[t]);
    }
    if (!open_one(2, &g.idle))
        return false;
    g.scratch = aligned_alloc(64, SCRATCH_BYTES);
    sl_device_pool_set_scratch(sl_device_cpu_pool(g.idle), g.scratch, SCRATCH_BYTES);
    atomic_store(&g.stop, false);
    return g.scratch && pthread_create(&g.id, NULL, look_for_work, NULL) == 0;
}

int64_t guests_close(void) {
    atomic_store(&g.stop, true);
    pthread_join(g.id, NULL);
    int64_t pieces = sl_device_lend_count(g.lend);
    for (int t = 0; t < GUESTS_HOSTS; t++)
        g.hosts[t]->row->close(g.hosts[t]);
    g.idle->row->close(g.idle);
    sl_device_lend_close(g.lend);
    free(g.scratch);
    return pieces;
}
