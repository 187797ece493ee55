/* Parallel for: threads take the next index from one counter. */
#define _GNU_SOURCE
#include "base/par.h"

#include "base/vec.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

struct par_job {
    atomic_int_least64_t next;
    int64_t count;
    void (*body)(void *ctx, int64_t i);
    void *ctx;
};

static void *work(void *arg) {
    struct par_job *job = arg;
    for (;;) {
        int64_t i = atomic_fetch_add(&job->next, 1);
        if (i >= job->count)
            return NULL;
        job->body(job->ctx, i);
    }
}

int sl_par_cores(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    int cores = CPU_COUNT(&set);
    return cores > 0 ? cores : 1;
}

void sl_par_for(int64_t count, int threads, void (*body)(void *ctx, int64_t i), void *ctx) {
    enum { MAX = 256 };
    pthread_t ids[MAX];
    struct par_job job = {.count = count, .body = body, .ctx = ctx};
    int want = threads > 0 ? threads : sl_par_cores(), started = 0;
    want = want > MAX ? MAX : want;
    want = (int64_t)want > count ? (int)count : want;
    while (started + 1 < want && pthread_create(&ids[started], NULL, work, &job) == 0)
        started++;
    work(&job);
    for (int i = 0; i < started; i++)
        pthread_join(ids[i], NULL);
}
