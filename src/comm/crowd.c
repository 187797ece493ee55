/* Concurrent workers: start, barrier, end. */
#include "comm/crowd.h"

#include "base/arena.h"
#include "device/bind.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

struct sl_crowd {
    int workers, threads, place;
    sl_err (*act)(void *ctx, struct sl_crowd *crowd, int worker);
    void *ctx;
    atomic_llong arrived; /* arrivals at barriers, summed over all barriers */
    atomic_int done;
    atomic_bool failed;
    pthread_mutex_t mutex; /* protects the fields below */
    sl_err err;            /* the first error */
    char why[1024];
};

struct member {
    struct sl_crowd *crowd;
    int worker;
    pthread_t thread;
};

int sl_comm_crowd_place(int workers, int threads) {
    int64_t need = (int64_t)workers * threads, have = sl_device_bind_count();
    return need > have || 2 * need < have ? -1 : 0;
}

static void fail(struct sl_crowd *crowd, sl_err err) {
    pthread_mutex_lock(&crowd->mutex);
    if (!atomic_load(&crowd->failed)) {
        crowd->err = err;
        snprintf(crowd->why, sizeof crowd->why, "%s", sl_err_message());
    }
    atomic_store(&crowd->failed, true);
    pthread_mutex_unlock(&crowd->mutex);
}

static void *member_main(void *arg) {
    struct member *me = arg;
    struct sl_crowd *crowd = me->crowd;
    int place = crowd->place + me->worker * crowd->threads;
    sl_err err = crowd->place >= 0 ? sl_device_bind_thread(place) : SL_OK;
    if (err == SL_OK)
        err = sl_comm_crowd_meet(crowd); /* waits for all, so that no worker begins if one could
                                          * not be started */
    if (err == SL_OK)
        err = crowd->act(crowd->ctx, crowd, me->worker);
    if (err != SL_OK)
        fail(crowd, err);
    return NULL;
}

sl_err sl_comm_crowd_meet(struct sl_crowd *crowd) {
    long long mine = atomic_fetch_add(&crowd->arrived, 1);
    long long all = (mine / crowd->workers + 1) * crowd->workers;
    while (atomic_load(&crowd->arrived) < all) {
        if (atomic_load(&crowd->failed))
            return sl_fail(SL_ERR_REFUSED, "another worker failed");
        sched_yield();
    }
    return SL_OK;
}

bool sl_comm_crowd_is_done(struct sl_crowd *crowd, bool *told) {
    if (!*told)
        atomic_fetch_add(&crowd->done, 1);
    *told = true;
    return atomic_load(&crowd->done) >= crowd->workers || atomic_load(&crowd->failed);
}

sl_err sl_comm_crowd_run(int workers, int threads,
                         sl_err (*act)(void *ctx, struct sl_crowd *crowd, int worker), void *ctx) {
    struct sl_crowd crowd = {.workers = workers,
                             .threads = threads,
                             .place = sl_comm_crowd_place(workers, threads),
                             .act = act,
                             .ctx = ctx};
    struct member *members = sl_realloc(NULL, sizeof *members * (size_t)workers);
    int started = 0;
    pthread_mutex_init(&crowd.mutex, NULL);
    for (; started < workers; started++) {
        members[started] = (struct member){&crowd, started, 0};
        if (pthread_create(&members[started].thread, NULL, member_main, &members[started]) != 0)
            break;
    }
    if (started < workers)
        fail(&crowd, sl_fail(SL_ERR_SYSTEM, "cannot start worker %d of %d", started, workers));
    for (int w = 0; w < started; w++)
        pthread_join(members[w].thread, NULL);
    pthread_mutex_destroy(&crowd.mutex);
    free(members);
    return crowd.err == SL_OK ? SL_OK : sl_fail(crowd.err, "%s", crowd.why);
}
