/* Guests in the loops of another worker: they join, compute every piece once, use their own scratch
 * and return on request. They stay out if their scratch is too small or the loop admits no guests.
 * Flags, not timing, order the threads. */
#include "device/cpu/cpu.h"
#include "device/lend.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { PIECES = 40, STEP = 256, GUEST_THREADS = 2 };

/* A busy worker of one thread and an idle one. */
struct pair {
    struct sl_device_lend *lend;
    struct sl_device *host, *guest;
    char *host_scratch, *guest_scratch;
    pthread_t id;
};

struct loop {
    struct pair *pair;
    struct sl_device_pool *pool;
    bool closed; /* uses sl_device_pool_run: admits no guests */
    int64_t need;
    atomic_int done[PIECES], all, by_guests;
    atomic_bool begun, go; /* the host has begun its first piece; it may finish it */
};

static struct sl_device *open_device(struct sl_device_lend *lend, int threads) {
    struct sl_device_config config = {.threads = threads};
    struct sl_device *device;
    if (sl_device_find("cpu")->open(&config, &device) != SL_OK)
        fail_msg("%s", sl_err_message());
    sl_device_lend_join(lend, device);
    return device;
}

static void open_pair(struct pair *p, int guest_threads) {
    p->lend = sl_device_lend_open(2);
    p->host = open_device(p->lend, 1);
    p->guest = open_device(p->lend, guest_threads);
    p->host_scratch = calloc(1, STEP);
    p->guest_scratch = calloc((size_t)guest_threads, STEP);
    sl_device_pool_set_scratch(sl_device_cpu_pool(p->guest), p->guest_scratch,
                               (int64_t)guest_threads * STEP);
}

static void close_pair(struct pair *p) {
    p->host->row->close(p->host);
    p->guest->row->close(p->guest);
    sl_device_lend_close(p->lend);
    free(p->host_scratch);
    free(p->guest_scratch);
}

/* The host stays in its first piece until `go`, so guests compute the others. */
static void body(void *ctx, int thread, int threads) {
    struct loop *l = ctx;
    char *scratch = sl_device_pool_scratch(l->pool, l->pair->host_scratch, l->need, thread);
    for (int64_t i; (i = sl_device_pool_take(l->pool, PIECES, thread)) >= 0;) {
        memset(scratch, (int)i, (size_t)l->need);
        if (thread < threads) {
            atomic_store(&l->begun, true);
            while (!atomic_load(&l->go))
                sched_yield();
        } else {
            sched_yield();
            atomic_fetch_add(&l->by_guests, 1);
        }
        for (int64_t b = 0; b < l->need; b++) /* no other thread wrote here */
            if (scratch[b] != (char)i)
                return;
        atomic_fetch_add(&l->done[i], 1);
        atomic_fetch_add(&l->all, 1);
    }
}

static void *run_host(void *arg) {
    struct loop *l = arg;
    if (l->closed)
        sl_device_pool_run(l->pool, body, l);
    else
        sl_device_pool_run_pieces(l->pool, l->need, body, l);
    return NULL;
}

static void begin(struct loop *l, struct pair *p, int64_t need, bool closed) {
    memset(l, 0, sizeof *l);
    l->pair = p;
    l->pool = sl_device_cpu_pool(p->host);
    l->need = need;
    l->closed = closed;
    assert_int_equal(pthread_create(&p->id, NULL, run_host, l), 0);
    while (!atomic_load(&l->begun))
        sched_yield();
}

static void end(struct loop *l) {
    atomic_store(&l->go, true);
    pthread_join(l->pair->id, NULL);
    for (int i = 0; i < PIECES; i++)
        assert_int_equal(atomic_load(&l->done[i]), 1);
}

static bool never(void *ctx) {
    (void)ctx;
    return false;
}

static bool when_one_is_done(void *ctx) {
    struct loop *l = ctx;
    return atomic_load(&l->by_guests) > 0;
}

/* The host has begun one piece; guests compute all others, each thread with its own scratch. */
static void guests_do_the_rest(void **state) {
    (void)state;
    struct pair p;
    struct loop l;
    open_pair(&p, GUEST_THREADS);
    for (int round = 1; round <= 20; round++) {
        begin(&l, &p, STEP, false);
        while (atomic_load(&l.all) < PIECES - 1)
            sl_device_lend_work(p.guest, never, NULL);
        assert_false(sl_device_lend_work(p.guest, never,
                                         NULL)); /* a guest that finds no piece shuts the door */
        end(&l);
        assert_int_equal(atomic_load(&l.by_guests), PIECES - 1);
        assert_int_equal(sl_device_lend_count(p.lend), round * (PIECES - 1));
    }
    assert_false(sl_device_lend_work(p.guest, never, NULL));
    close_pair(&p);
}

/* Called back after its first piece: the guest computes only that one. */
static void guests_go_home(void **state) {
    (void)state;
    struct pair p;
    struct loop l;
    open_pair(&p, 1);
    begin(&l, &p, STEP, false);
    assert_true(sl_device_lend_work(p.guest, when_one_is_done, &l));
    assert_int_equal(atomic_load(&l.by_guests), 1);
    assert_true(
        sl_device_lend_work(p.guest, when_one_is_done, &l)); /* joined and left after one piece */
    assert_int_equal(atomic_load(&l.by_guests), 1);
    end(&l);
    assert_int_equal(sl_device_lend_count(p.lend), 1);
    close_pair(&p);
}

static void too_little_scratch(void **state) {
    (void)state;
    struct pair p;
    struct loop l;
    open_pair(&p, GUEST_THREADS);
    sl_device_pool_set_scratch(sl_device_cpu_pool(p.guest), p.guest_scratch,
                               (int64_t)GUEST_THREADS * STEP - 1);
    begin(&l, &p, STEP, false);
    assert_false(sl_device_lend_work(p.guest, never, NULL));
    end(&l);
    assert_int_equal(sl_device_lend_count(p.lend), 0);
    close_pair(&p);
}

static void not_every_loop_is_open(void **state) {
    (void)state;
    struct pair p;
    struct loop l;
    open_pair(&p, GUEST_THREADS);
    begin(&l, &p, STEP, true);
    assert_false(sl_device_lend_work(p.guest, never, NULL));
    end(&l);
    assert_int_equal(sl_device_lend_count(p.lend), 0);
    close_pair(&p);
}

/* Two workers alternate between busy and idle, with loops so short that doors open and shut
 * constantly: every piece is computed once. */
struct player {
    struct sl_device *device;
    struct sl_device_pool *pool;
    atomic_int *over;
    int64_t sum;
};

static void add_pieces(void *ctx, int part, int parts) {
    atomic_fetch_add((atomic_int *)ctx, parts - part);
}

static void *play(void *arg) {
    struct player *me = arg;
    for (int round = 0; round < 3000; round++) {
        atomic_int sum = 0;
        sl_device_pool_share(me->pool, add_pieces, &sum);
        me->sum += atomic_load(&sum);
        if (round % 3 == 0)
            sl_device_lend_work(me->device, never, NULL);
    }
    atomic_fetch_add(me->over, 1);
    while (atomic_load(me->over) < 3)
        if (!sl_device_lend_work(me->device, never, NULL))
            sched_yield();
    return NULL;
}

static void doors_open_and_shut(void **state) {
    (void)state;
    struct sl_device_lend *lend = sl_device_lend_open(3);
    struct player players[3];
    pthread_t ids[3];
    atomic_int over = 0;
    for (int i = 0; i < 3; i++) {
        players[i] = (struct player){.device = open_device(lend, i < 2 ? 1 : 2), .over = &over};
        players[i].pool = sl_device_cpu_pool(players[i].device);
    }
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&ids[i], NULL, play, &players[i]), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(ids[i], NULL);
    for (int i = 0; i < 3; i++) {
        int parts = i < 2 ? 4 : 8;
        assert_int_equal(players[i].sum, 3000 * parts * (parts + 1) / 2);
        players[i].device->row->close(players[i].device);
    }
    printf("count: %d pieces done by guests\n", (int)sl_device_lend_count(lend));
    sl_device_lend_close(lend);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(guests_do_the_rest),  cmocka_unit_test(guests_go_home),
        cmocka_unit_test(too_little_scratch),  cmocka_unit_test(not_every_loop_is_open),
        cmocka_unit_test(doors_open_and_shut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
