/* A thread that sleeps is not starved; one that shares a CPU with others is; one that does not
 * exist is not. */
#include "pipe/starved.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { CROWD = 4 };
static const struct timespec nap = {.tv_nsec = 50000000};

struct thread {
    pthread_t id;
    atomic_int tid;
    atomic_bool ends;
    sem_t *sleeps; /* NULL: the thread computes */
};

static void *thread_main(void *arg) {
    struct thread *t = arg;
    atomic_store(&t->tid, gettid());
    if (t->sleeps)
        sem_wait(t->sleeps);
    while (!atomic_load(&t->ends))
        continue;
    return NULL;
}

static void start(struct thread *t) {
    assert_int_equal(pthread_create(&t->id, NULL, thread_main, t), 0);
    while (!atomic_load(&t->tid))
        sched_yield();
}

static void end(struct thread *t) {
    atomic_store(&t->ends, true);
    if (t->sleeps)
        sem_post(t->sleeps);
    pthread_join(t->id, NULL);
}

/* Polls until the thread was starved for `enough_ns`, at most `looks` times. */
static int64_t look(const struct thread *t, int64_t enough_ns, int looks) {
    int64_t cpu_ns = 0, sum_ns = 0, last_ns = sl_clock_ns();
    for (int i = 0; i < looks && sum_ns < enough_ns; i++) {
        nanosleep(&nap, NULL);
        int64_t now_ns = sl_clock_ns(),
                ns = sl_pipe_starved_poll(t->tid, now_ns - last_ns, &cpu_ns);
        assert_true(ns >= 0 && ns <= now_ns - last_ns);
        last_ns = now_ns;
        sum_ns += ns;
    }
    return sum_ns;
}

static void await_sleep(int tid) {
    char path[64], state = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
    while (state != 'S') {
        FILE *file = fopen(path, "re");
        assert_non_null(file);
        assert_int_equal(fscanf(file, "%*d (%*[^)]) %c", &state), 1);
        fclose(file);
    }
}

static void a_sleeper_is_not_starved(void **state) {
    (void)state;
    sem_t never;
    struct thread t = {.sleeps = &never};
    assert_int_equal(sem_init(&never, 0, 0), 0);
    start(&t);
    await_sleep(t.tid);
    assert_int_equal(look(&t, INT64_MAX, 10), 0);
    end(&t);
    sem_destroy(&never);
}

static void a_crowd_is_starved(void **state) {
    (void)state;
    struct thread crowd[CROWD] = {0};
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    CPU_ZERO(&one);
    for (size_t c = 0; c < CPU_SETSIZE && !CPU_COUNT(&one); c++)
        if (CPU_ISSET(c, &before))
            CPU_SET(c, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0); /* threads inherit it */
    for (int i = 0; i < CROWD; i++)
        start(&crowd[i]);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    assert_true(look(&crowd[0], 200000000, 10000) >= 200000000);
    for (int i = 0; i < CROWD; i++)
        end(&crowd[i]);
}

static void nobody_is_not_starved(void **state) {
    (void)state;
    int64_t cpu_ns = 7;
    assert_int_equal(sl_pipe_starved_poll(0, 1000, &cpu_ns), 0);
    assert_int_equal(cpu_ns, 0);
    assert_int_equal(sl_pipe_starved_poll(1 << 30, 1000, &cpu_ns), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sleeper_is_not_starved),
        cmocka_unit_test(a_crowd_is_starved),
        cmocka_unit_test(nobody_is_not_starved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
