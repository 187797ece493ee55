/* The pool: every piece is computed once, own ranges first; other threads take the pieces of a slow
 * one. */
#include "device/cpu/cpu.h"

#include <sched.h>
#include <stdatomic.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { MAX_THREADS = 4, MAX_PIECES = 70 };

struct job {
    struct sl_device_pool *pool;
    int64_t count;
    atomic_int done[MAX_PIECES], all;
};

static void take_all(void *ctx, int thread, int threads) {
    struct job *job = ctx;
    (void)threads;
    for (int64_t i; (i = sl_device_pool_take(job->pool, job->count, thread)) >= 0;)
        atomic_fetch_add(&job->done[i], 1);
}

static void every_piece_once(void **state) {
    (void)state;
    for (int threads = 1; threads <= MAX_THREADS; threads++) {
        struct job job = {0};
        assert_int_equal(sl_device_pool_open(threads, &job.pool), SL_OK);
        for (job.count = 0; job.count <= MAX_PIECES; job.count++) {
            for (int i = 0; i < MAX_PIECES; i++)
                atomic_store(&job.done[i], 0);
            sl_device_pool_run(job.pool, take_all, &job);
            for (int i = 0; i < MAX_PIECES; i++)
                assert_int_equal(atomic_load(&job.done[i]), i < job.count);
        }
        sl_device_pool_close(job.pool);
    }
}

static void add_range(void *ctx, int part, int parts) {
    struct job *job = ctx;
    int64_t from, to;
    sl_device_pool_range(job->count, 3, part, parts, &from, &to);
    for (int64_t i = from; i < to; i++)
        atomic_fetch_add(&job->done[i], 1);
}

static void parts_make_the_whole(void **state) {
    (void)state;
    for (int threads = 1; threads <= MAX_THREADS; threads++) {
        struct job job = {.count = MAX_PIECES};
        assert_int_equal(sl_device_pool_open(threads, &job.pool), SL_OK);
        for (int round = 1; round <= 50; round++) {
            sl_device_pool_share(job.pool, add_range, &job);
            for (int i = 0; i < MAX_PIECES; i++)
                assert_int_equal(atomic_load(&job.done[i]), round);
        }
        sl_device_pool_close(job.pool);
    }
}

/* Thread 0 stays in its first piece until all others are done, so other threads must take them. */
static void get_stuck(void *ctx, int thread, int threads) {
    struct job *job = ctx;
    (void)threads;
    for (int64_t i; (i = sl_device_pool_take(job->pool, job->count, thread)) >= 0;) {
        while (thread == 0 && atomic_load(&job->all) < job->count - 1)
            sched_yield();
        atomic_fetch_add(&job->done[i], 1);
        atomic_fetch_add(&job->all, 1);
    }
}

static void others_take_over(void **state) {
    (void)state;
    struct job job = {.count = MAX_PIECES};
    assert_int_equal(sl_device_pool_open(2, &job.pool), SL_OK);
    sl_device_pool_run(job.pool, get_stuck, &job);
    for (int i = 0; i < MAX_PIECES; i++)
        assert_int_equal(atomic_load(&job.done[i]), 1);
    sl_device_pool_close(job.pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_piece_once),
        cmocka_unit_test(parts_make_the_whole),
        cmocka_unit_test(others_take_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
