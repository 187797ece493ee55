/* Binding of workers to cores: the share of each rank, when workers are bound, and that a bound
 * thread runs on its core. */
#include "device/bind.h"
#include "pipe/bind.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sched.h>
#include <string.h>

/* Two hosts; on the first, ranks 0 and 2 share their allowed CPUs, rank 3 has others. */
static void test_shares(void **state) {
    (void)state;
    static const struct sl_bind_rank ranks[] = {
        {7, 1, 2, 4, 4}, {8, 1, 3, 4, 4}, {7, 1, 1, 4, 4}, {7, 5, 4, 4, 4}, {8, 1, 2, 4, 4}};
    static const int64_t first[] = {0, 0, 2, 0, 3}, all[] = {3, 5, 3, 4, 5};
    for (int r = 0; r < SL_COUNT(ranks); r++) {
        int64_t a, b;
        sl_pipe_bind_share(ranks, SL_COUNT(ranks), r, &a, &b);
        assert_int_equal(a, first[r]);
        assert_int_equal(b, all[r]);
    }
}

/* Two ranks with one of 4 CPUs each; ranks that share all CPUs; one that may use some. */
static void test_crowds(void **state) {
    (void)state;
    static const struct sl_bind_rank bound[] = {{7, 1, 1, 1, 4}, {7, 2, 1, 1, 4}};
    static const struct sl_bind_rank open[] = {{7, 1, 4, 4, 4}, {7, 1, 4, 4, 4}};
    static const struct sl_bind_rank mixed[] = {{7, 1, 1, 2, 4}, {7, 2, 2, 2, 4}};
    static const struct sl_bind_rank unknown[] = {{7, 1, 1, 0, 4}, {7, 1, 1, 0, 4}};
    assert_int_equal(sl_pipe_bind_find_crowded(unknown, 2, 4), -1);
    assert_int_equal(sl_pipe_bind_find_crowded(bound, 2, 1), -1);
    assert_int_equal(sl_pipe_bind_find_crowded(bound, 2, 4), 0);
    assert_int_equal(sl_pipe_bind_find_crowded(open, 2, 4), -1); /* all CPUs are allowed */
    assert_int_equal(sl_pipe_bind_find_crowded(mixed, 2, 1), -1);
    assert_int_equal(sl_pipe_bind_find_crowded(mixed, 2, 2), 1);
}

static void test_choices(void **state) {
    (void)state;
    const struct sl_transport *threads;
    struct sl_comm *comm;
    int have = sl_device_bind_count(), first;
    assert_true(have > 0);
    assert_int_equal(sl_comm_transport_find("threads", &threads), SL_OK);
    assert_int_equal(sl_comm_open(threads, NULL, &comm), SL_OK);
    assert_int_equal(sl_pipe_bind_choose(comm, SL_BIND_NONE, 1, 1, &first), SL_OK);
    assert_int_equal(first, -1);
    assert_false(comm->gate.own_places);
    assert_int_equal(sl_pipe_bind_choose(comm, SL_BIND_AUTO, 1, have, &first), SL_OK);
    assert_int_equal(first, 0);
    assert_true(comm->gate.own_places);
    assert_int_equal(sl_pipe_bind_choose(comm, SL_BIND_AUTO, 1, have + 1, &first), SL_OK);
    assert_int_equal(first, -1);
    assert_false(comm->gate.own_places);
    assert_int_equal(sl_pipe_bind_choose(comm, SL_BIND_CORES, have + 1, 1, &first), SL_ERR_REFUSED);
    assert_non_null(strstr(sl_err_message(), "`bind` none"));
    sl_comm_close(comm);
}

static void *bind_and_look(void *arg) {
    int place = *(int *)arg;
    cpu_set_t set;
    int places[SL_BIND_MAX];
    *(int *)arg = -1;
    if (sl_device_bind_places(places) > place && sl_device_bind_thread(place) == SL_OK &&
        sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) == 1 &&
        CPU_ISSET((size_t)places[place], &set))
        *(int *)arg = places[place];
    return NULL;
}

static void test_threads(void **state) {
    (void)state;
    int count = sl_device_bind_count(), seen[SL_BIND_MAX] = {0};
    for (int i = 0; i < count; i++) {
        pthread_t thread;
        seen[i] = i;
        assert_int_equal(pthread_create(&thread, NULL, bind_and_look, &seen[i]), 0);
        pthread_join(thread, NULL);
        assert_true(seen[i] >= 0);
        for (int j = 0; j < i; j++)
            assert_int_not_equal(seen[i], seen[j]);
    }
    assert_int_equal(sl_device_bind_thread(count), SL_ERR_REFUSED);
}

/* The spin lasts longer than a bubble, and ends early if another thread wants the core. */
static void test_patience(void **state) {
    (void)state;
    int64_t until_ns = 0, start_ns = sl_clock_ns(), last_ns;
    do
        last_ns = sl_clock_ns();
    while (sl_device_bind_stay_awake(&until_ns));
    assert_true(until_ns > start_ns + 10000000);
    assert_true(sl_clock_ns() >= until_ns ||
                sl_clock_ns() - last_ns > 500000); /* or another thread had the core */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shares),   cmocka_unit_test(test_crowds),
        cmocka_unit_test(test_choices),  cmocka_unit_test(test_threads),
        cmocka_unit_test(test_patience),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
