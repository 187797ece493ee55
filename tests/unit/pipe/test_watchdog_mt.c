/* The watchdog on threads: the error about a worker stuck in an action names its stage, action and
 * micro-batch, and the workers that wait for it. The error of a failing worker is the error of all.
 * A worker without a CPU goes on. */
#include "base/clock.h"
#include "support/pipe_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { STAGES = 4, PATIENCE = 300 };
/* No healthy worker is without a CPU for so long, and a failing worker does not stall. */
static const int64_t stall_ns = 5000000000, starve_ns = 1000000000, nccl_link_ns = 600000000000;

static const char model[] =
    "model deep\nsize N = 6\ninput x : float[B, N]\ninput label : int[B] < 3\n"
    "fn part(x) {\nparam w[6, 6] ~ normal(0.5)\nreturn tanh(matmul(x, w))\n}\n"
    "a = part(x) as p1\nb = part(a) as p2\nc = part(b) as p3\nd = part(c) as p4\n"
    "param wl[3, 6] ~ normal(0.4)\nloss cross_entropy(matmul(d, wl, tb = 1), label)\n";

enum what { STALLS, FAILS, STARVES };
/* A fault of one worker, before one of its actions. */
struct trouble {
    struct sl_comm *comm;
    int worker;
    int64_t when, seen;
    enum what what;
};

/* Load on the same CPU: threads that sleep, then compute, then end. They share no lock with the
 * workers, so none of them sleeps until another thread has a CPU. */
enum { CROWD = 7 };
enum stage { SLEEPS, COMPUTES, ENDS };
static struct {
    pthread_t threads[CROWD];
    atomic_int stage;
    cpu_set_t place, before;
} crowd;

static void *crowd_main(void *arg) {
    const struct timespec nap = {.tv_nsec = 10000000};
    for (int stage = SLEEPS; stage != ENDS;) {
        stage = atomic_load_explicit(&crowd.stage, memory_order_relaxed);
        if (stage == SLEEPS)
            nanosleep(&nap, NULL);
    }
    return arg;
}

static void open_crowd(void) {
    atomic_store(&crowd.stage, SLEEPS);
    assert_int_equal(sched_getaffinity(0, sizeof crowd.before, &crowd.before), 0);
    CPU_ZERO(&crowd.place);
    for (size_t c = 0; c < CPU_SETSIZE && !CPU_COUNT(&crowd.place); c++)
        if (CPU_ISSET(c, &crowd.before))
            CPU_SET(c, &crowd.place);
    assert_int_equal(sched_setaffinity(0, sizeof crowd.place, &crowd.place), 0); /* inherited */
    for (int i = 0; i < CROWD; i++)
        assert_int_equal(pthread_create(&crowd.threads[i], NULL, crowd_main, NULL), 0);
    assert_int_equal(sched_setaffinity(0, sizeof crowd.before, &crowd.before), 0);
}

static void close_crowd(void) {
    for (int i = 0; i < CROWD; i++)
        pthread_join(crowd.threads[i], NULL);
}

/* Works for more than twice the limit with an eighth of a CPU and never sleeps. */
static sl_err starve(void) {
    if (sched_setaffinity(0, sizeof crowd.place, &crowd.place) != 0)
        return sl_fail(SL_ERR_SYSTEM, "cannot choose a processor");
    atomic_store_explicit(&crowd.stage, COMPUTES, memory_order_relaxed);
    for (int64_t end = sl_clock_ns() + 5 * starve_ns / 2; sl_clock_ns() < end;)
        continue;
    atomic_store_explicit(&crowd.stage, ENDS, memory_order_relaxed);
    return SL_OK;
}

/* A stalled worker waits until the run has failed, so that its thread can end. */
static sl_err before(void *ctx, int worker, int64_t action) {
    struct trouble *t = ctx;
    const struct timespec nap = {.tv_nsec = 1000000};
    (void)action;
    if (worker != t->worker || t->seen++ != t->when)
        return SL_OK;
    if (t->what == STARVES)
        return starve();
    if (t->what == FAILS)
        return sl_fail(SL_ERR_SYSTEM, "worker %d has had enough", worker);
    while (!atomic_load(&t->comm->gate.failed))
        nanosleep(&nap, NULL);
    return SL_OK;
}

static sl_err run(const struct pipe_case *c, const struct sl_train_config *train,
                  const char *schedule, struct trouble *trouble) {
    const struct sl_transport *threads;
    struct sl_step_report reports[8];
    struct sl_pipe *pipe = NULL;
    assert_int_equal(sl_comm_transport_find("threads", &threads), SL_OK);
    assert_int_equal(sl_comm_open(threads, NULL, &trouble->comm), SL_OK);
    struct sl_pipe_config config = {.train = train,
                                    .plan = c->plan,
                                    .stage_of = c->stage_of,
                                    .schedule = schedule,
                                    .comm = trouble->comm,
                                    .stall_ns = trouble->what == FAILS     ? nccl_link_ns
                                                : trouble->what == STARVES ? starve_ns
                                                                           : stall_ns,
                                    .on_action = before,
                                    .on_action_ctx = trouble};
    alarm(PATIENCE);
    assert_int_equal(sl_pipe_open(&config, &pipe), SL_OK);
    sl_err err = sl_pipe_run(pipe, 8, reports);
    assert_false(sl_pipe_is_abandoned(pipe));
    sl_pipe_close(pipe);
    sl_comm_close(trouble->comm);
    alarm(0);
    return err;
}

static void test_guard(void **state) {
    (void)state;
    static const char *const schedules[] = {"1f1b", "2bw"};
    struct pipe_case c;
    char want[64], text[2048];
    pipe_case_open(&c, model);
    struct sl_train_config train = pipe_case_config(&c, "sgd", 8, 4, 8);
    pipe_case_cut(&c, &train, STAGES, NULL);
    for (int s = 0; s < SL_COUNT(schedules); s++) {
        struct trouble stall = {.worker = 1 + s, .when = 23};
        assert_int_equal(run(&c, &train, schedules[s], &stall), SL_ERR_PEER);
        snprintf(text, sizeof text, "%s", sl_err_message());
        snprintf(want, sizeof want, "worker %d (rank 0, host ", stall.worker);
        if (strncmp(text, want, strlen(want)) != 0 || !strstr(text, "is stalled: ") ||
            !strstr(text, " of stage "))
            fail_msg("%s: %s", schedules[s], text);
        /* The report lists the waiting worker first and the stuck one last. */
        const char *last = strrchr(text, '\n');
        snprintf(want, sizeof want, "\n  worker %d (", stall.worker);
        if (!strstr(text, ", waits for ") || !last || strncmp(last, want, strlen(want)) != 0)
            fail_msg("%s: no chain: %s", schedules[s], text);
    }
    for (int worker = 0; worker < STAGES; worker++) {
        struct trouble fails = {.worker = worker, .when = 17, .what = FAILS};
        assert_int_equal(run(&c, &train, "1f1b", &fails), SL_ERR_SYSTEM);
        snprintf(want, sizeof want, "worker %d has had enough", worker);
        assert_string_equal(sl_err_message(), want);
    }
    pipe_case_close(&c);
}

/* A busy machine is not a stall. Not under a sanitizer, whose own locks make workers sleep until
 * another thread has a CPU. */
static void test_starved(void **state) {
    (void)state;
    const char *preset = getenv("SL_PRESET");
    if (preset && strcmp(preset, "release") != 0)
        skip();
    struct pipe_case c;
    struct trouble starves = {.worker = 2, .when = 23, .what = STARVES};
    pipe_case_open(&c, model);
    struct sl_train_config train = pipe_case_config(&c, "sgd", 8, 4, 8);
    pipe_case_cut(&c, &train, STAGES, NULL);
    open_crowd();
    if (run(&c, &train, "1f1b", &starves) != SL_OK)
        fail_msg("%s", sl_err_message());
    assert_true(starves.seen > starves.when);
    close_crowd();
    pipe_case_close(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_guard),
                                       cmocka_unit_test(test_starved)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
