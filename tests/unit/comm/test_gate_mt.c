/* Sleeping at a gate: a ring wakes only the sleepers whose condition holds; a failure wakes all. */
#include "comm/gate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <time.h>

enum { WAITERS = 3 };

struct waiter {
    struct sl_gate *gate;
    atomic_bool come;
    atomic_long looked; /* by its own thread */
    pthread_t thread;
    sl_err err;
};

static bool has_come(void *ctx) {
    struct waiter *w = ctx;
    if (pthread_equal(pthread_self(), w->thread))
        atomic_fetch_add(&w->looked, 1);
    return atomic_load(&w->come);
}

static void *wait_for_it(void *arg) {
    struct waiter *w = arg;
    w->thread = pthread_self();
    w->err = sl_comm_gate_wait(w->gate, has_come, w);
    return NULL;
}

static void nap(void) {
    const struct timespec ms = {.tv_nsec = 1000000};
    nanosleep(&ms, NULL);
}

/* Wait until all `count` sleep after their last look. */
static void await_sleep(struct sl_gate *gate, int count) {
    for (int i = 0; i < 10000 && atomic_load(&gate->sleepers) < count; i++)
        nap();
    assert_int_equal(atomic_load(&gate->sleepers), count);
    pthread_mutex_lock(&gate->mutex); /* they have gone to sleep with it */
    pthread_mutex_unlock(&gate->mutex);
}

/* With own cores they spin longer, then sleep. */
static void wake_who_is_ready(bool own_places) {
    struct sl_gate gate;
    struct waiter waiters[WAITERS] = {0};
    pthread_t threads[WAITERS];
    sl_comm_gate_open(&gate);
    gate.own_places = own_places;
    for (int i = 0; i < WAITERS; i++) {
        waiters[i].gate = &gate;
        assert_int_equal(pthread_create(&threads[i], NULL, wait_for_it, &waiters[i]), 0);
    }
    await_sleep(&gate, WAITERS);
    long before[WAITERS];
    for (int i = 0; i < WAITERS; i++)
        before[i] = atomic_load(&waiters[i].looked);
    atomic_store(&waiters[1].come, true);
    sl_comm_gate_ring(&gate);
    pthread_join(threads[1], NULL);
    assert_int_equal(waiters[1].err, SL_OK);
    for (int i = 0; i < 100; i++)
        sl_comm_gate_ring(&gate);
    nap();
    assert_int_equal(atomic_load(&waiters[0].looked), before[0]);
    assert_int_equal(atomic_load(&waiters[2].looked), before[2]);
    sl_comm_gate_fail(&gate, sl_fail(SL_ERR_REFUSED, "enough"));
    for (int i = 0; i < WAITERS; i += 2) {
        pthread_join(threads[i], NULL);
        assert_int_equal(waiters[i].err, SL_ERR_REFUSED);
    }
    assert_int_equal(atomic_load(&gate.sleepers), 0);
    assert_null(gate.asleep);
    sl_comm_gate_close(&gate);
}

static void test_wakes_who_is_ready(void **state) {
    (void)state;
    wake_who_is_ready(false);
    wake_who_is_ready(true);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_wakes_who_is_ready)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
