/* --lend: idle workers do pieces of others' work. The weights are the same bits as without it, for
 * synchronous and asynchronous schedules on chains and graphs, and some pieces are lent. */
#include "device/bind.h"
#include "support/pipe_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 3, TRIES = 200 };

struct outcome {
    int64_t lent;
    uint64_t weights; /* hash of the newest weights of all stages */
    double losses[STEPS];
};

static uint64_t hash(uint64_t h, const void *bytes, size_t count) {
    for (size_t i = 0; i < count; i++)
        h = (h ^ ((const unsigned char *)bytes)[i]) * 1099511628211u;
    return h;
}

/* False: the schedule is not for this graph of stages. */
static bool run_one(const struct pipe_case *c, const struct sl_train_config *train,
                    const char *schedule, bool lend, struct outcome *out) {
    struct sl_pipe_config config = {.train = train,
                                    .plan = c->plan,
                                    .stage_of = c->stage_of,
                                    .schedule = schedule,
                                    .lend = lend,
                                    .stall_ns = 300000000000};
    struct sl_step_report reports[STEPS];
    struct sl_pipe *pipe;
    *out = (struct outcome){.weights = 14695981039346656037u};
    sl_err err = sl_pipe_open(&config, &pipe);
    if (err == SL_ERR_REFUSED)
        return false;
    if (err != SL_OK || sl_pipe_run(pipe, STEPS, reports) != SL_OK)
        fail_msg("%s: %s", schedule, sl_err_message());
    for (int i = 0; i < STEPS; i++)
        out->losses[i] = reports[i].loss;
    for (int s = 0; s < sl_pipe_stage_count(pipe); s++) {
        const struct sl_worker *w = sl_pipe_worker(pipe, s);
        const struct sl_program *p = w->programs[SL_WORKER_FULL];
        for (int i = 0; i < p->param_count; i++)
            out->weights = hash(out->weights, sl_run_worker_weight(w, sl_pipe_newest(pipe, s), i),
                                (size_t)p->params[i].numel * 4);
    }
    out->lent = sl_pipe_lent(pipe);
    sl_pipe_close(pipe);
    return true;
}

/* Returns how many pieces were lent. */
static int64_t try_model(const char *name, const char *sets, int stages, int threads) {
    static const char *const schedules[] = {"1f1b", "zb-h1", "graph", "2bw", "stash"};
    struct pipe_case c;
    int64_t lent = 0;
    int ran = 0;
    pipe_case_open_zoo(&c, name, sets);
    c.split = true;
    struct sl_train_config train = pipe_case_config(&c, "adamw", 8, 4, STEPS);
    train.threads = threads;
    if (!pipe_case_cut_branches(&c, &train, stages, stages))
        pipe_case_cut(&c, &train, stages, NULL);
    for (int s = 0; s < SL_COUNT(schedules); s++) {
        struct outcome alone, with;
        if (!run_one(&c, &train, schedules[s], false, &alone))
            continue;
        assert_true(run_one(&c, &train, schedules[s], true, &with));
        ran++;
        assert_int_equal(alone.lent, 0);
        if (with.weights != alone.weights ||
            memcmp(with.losses, alone.losses, sizeof alone.losses) != 0)
            fail_msg("%s %s, %d stages of %d threads: other bits when threads are lent", name,
                     schedules[s], stages, threads);
        lent += with.lent;
    }
    pipe_case_close(&c);
    assert_true(ran >= 2);
    return lent;
}

static int64_t lent;

static void same_bits(void **state) {
    (void)state;
    lent += try_model("gpt-tiny", "L=2,C=64,H=4,T=16,V=96", 2, 1);
    lent += try_model("gpt-tiny", "L=2,C=64,H=4,T=16,V=96", 2, 2);
    lent += try_model("mmt", "branches=4,T=8,L=1,C=32,H=2,F=64,classes=5", 4, 1);
    printf("count: %lld pieces lent\n", (long long)lent);
}

/* How long a worker waits depends on the machine, but some worker must have helped. */
static void it_happens(void **state) {
    (void)state;
    if (sl_device_bind_count() == 1)
        skip(); /* a waiting worker gives up the only core at once */
    for (int i = 0; i < TRIES && lent == 0; i++)
        lent += try_model("gpt-tiny", "L=2,C=64,H=4,T=32,V=96", 2, 1);
    assert_true(lent > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_bits), cmocka_unit_test(it_happens)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
