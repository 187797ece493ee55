/* Workers on cores: shares of ranks, and threads that really run where they were told to. */
#include "run/bind.h"
#include "run/cores.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

/* Two hosts; on the first, ranks 0 and 2 may use the same cores, rank 3 has others. */
static void test_shares(void **state) {
    (void)state;
    static const struct sl_bind_rank ranks[] = {
        {7, 1, 2}, {8, 1, 3}, {7, 1, 1}, {7, 5, 4}, {8, 1, 2}};
    static const int64_t first[] = {0, 0, 2, 0, 3}, all[] = {3, 5, 3, 4, 5};
    for (int r = 0; r < SL_COUNT(ranks); r++) {
        int64_t a, b;
        sl_bind_share(ranks, SL_COUNT(ranks), r, &a, &b);
        assert_int_equal(a, first[r]);
        assert_int_equal(b, all[r]);
    }
}

static void open_threads(struct sl_comm **out) {
    const struct sl_transport *threads;
    assert_int_equal(sl_transport_find("threads", &threads), SL_OK);
    assert_int_equal(sl_comm_open(threads, out), SL_OK);
}

static void *look(void *arg) {
    assert_int_equal(sched_getaffinity(0, sizeof(cpu_set_t), arg), 0);
    return NULL;
}

/* As many workers as there are cores: disjoint, inherited by new threads, undone afterwards. */
static void test_enter(void **state) {
    (void)state;
    struct sl_arena arena = {0};
    struct sl_comm *comm;
    struct sl_cores cores;
    struct sl_bind bind;
    cpu_set_t whole, before, inside, seen, all;
    open_threads(&comm);
    assert_int_equal(sl_cores_list(&arena, &cores), SL_OK);
    assert_true(cores.count > 0);
    assert_int_equal(sl_bind_choose(comm, SL_BIND_CORES, cores.count, 1, &arena, &bind), SL_OK);
    assert_int_equal(bind.count, cores.count);
    look(&whole);
    CPU_ZERO(&all);
    for (int w = 0; w < bind.count; w++) {
        pthread_t thread;
        sl_bind_enter(&bind, w, &before);
        look(&inside);
        assert_int_equal(pthread_create(&thread, NULL, look, &seen), 0);
        pthread_join(thread, NULL);
        sl_bind_leave(&bind, &before);
        assert_int_equal(CPU_COUNT(&inside), 1);
        assert_true(CPU_EQUAL(&inside, &seen));
        CPU_OR(&all, &all, &inside);
        look(&seen);
        assert_true(CPU_EQUAL(&whole, &seen));
    }
    assert_int_equal(CPU_COUNT(&all), cores.count);
    sl_comm_close(comm);
    sl_arena_free(&arena);
}

static void test_choices(void **state) {
    (void)state;
    struct sl_arena arena = {0};
    struct sl_comm *comm;
    struct sl_cores cores;
    struct sl_bind bind;
    open_threads(&comm);
    assert_int_equal(sl_cores_list(&arena, &cores), SL_OK);
    assert_int_equal(sl_bind_choose(comm, SL_BIND_NONE, 1, 1, &arena, &bind), SL_OK);
    assert_null(bind.workers);
    assert_int_equal(sl_bind_choose(comm, SL_BIND_AUTO, 1, cores.count + 1, &arena, &bind), SL_OK);
    assert_null(bind.workers);
    assert_int_equal(sl_bind_choose(comm, SL_BIND_CORES, cores.count + 1, 1, &arena, &bind),
                     SL_ERR_NO);
    assert_non_null(strstr(sl_err_message(), "--bind none"));
    assert_int_equal(sl_bind_choose(comm, SL_BIND_AUTO, 1, cores.count, &arena, &bind), SL_OK);
    assert_int_equal(CPU_COUNT(&bind.workers[0]), cores.count);
    sl_comm_close(comm);
    sl_arena_free(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_enter),
        cmocka_unit_test(test_choices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
