/* Timing does not matter: every schedule, twice and with random delays before actions, gives the
 * same weights and does not hang. A run of more than five minutes fails the test. */
#include "support/pipe_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { STEPS = 5, TABLE = 1024, PATIENCE = 300 };

/*  s0 - s1 - s3   with s0 - s3 and s2 - s3; two losses, on different stages */
static const char model[] =
    "model branches\ninput x : float[B, 6]\ninput y : float[B, 5]\ninput label : int[B] < 4\n"
    "param s0_w[7, 6] ~ normal(0.4)\nparam s1_w[6, 7] ~ normal(0.4)\n"
    "param s2_w[4, 5] ~ normal(0.4)\nparam s3_w[4, 17] ~ normal(0.4)\n"
    "a = relu(matmul(x, s0_w, tb = 1))\nb = relu(matmul(a, s1_w, tb = 1))\n"
    "c = matmul(y, s2_w, tb = 1)\n"
    "loss cross_entropy(c, label) weight 0.4\n"
    "loss cross_entropy(matmul(concat([a, b, c], axis = 1), s3_w, tb = 1), label) weight 0.6\n";

/* Ties between the first and the last stage. */
static const char tied[] =
    "model tied\nsize V = 7, C = 4\ninput tokens : int[B, 3] < V\ninput targets : int[B, 3] < V\n"
    "param wte[V, C] ~ normal(0.5)\nx = embed(wte, tokens)\n"
    "repeat i in 0..4 as h {\nparam w[C, C] ~ normal(0.5)\nx = x + gelu(matmul(x, w, tb = 1))\n}\n"
    "loss cross_entropy(matmul(x, wte, tb = 1), targets)\n";

/* Delays come from a table: the hook is cheap and needs no lock. */
static uint8_t delays[TABLE];

static sl_err wait_some(void *ctx, int worker, int64_t action) {
    (void)ctx;
    int level = delays[(worker * 131 + action) % TABLE];
    if (level == 1)
        sched_yield();
    if (level >= 2) {
        struct timespec time = {.tv_nsec = 1000L * level};
        nanosleep(&time, NULL);
    }
    return SL_OK;
}

static void choose_delays(uint64_t seed) {
    uint64_t kind = seed % 4; /* few long, many short, one slow stretch, none */
    srandom((unsigned)seed);
    for (int i = 0; i < TABLE; i++) {
        int dice = (int)(random() % 100);
        delays[i] = (uint8_t)(kind == 0   ? (dice < 4 ? 150 : 0)
                              : kind == 1 ? (dice < 40 ? 1 + dice % 3 : 0)
                              : kind == 2 ? (i % TABLE < 40 ? 60 : 0)
                                          : 0);
    }
}

/* Everything that a run leaves behind, one hash per kind. */
static uint64_t mix(uint64_t hash, const void *data, size_t bytes) {
    const unsigned char *at = data;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ at[i]) * 0x100000001B3u;
    return hash;
}

static uint64_t run_hash(const struct sl_pipe_config *config) {
    struct sl_pipe *pipe = NULL;
    struct sl_step_report reports[STEPS];
    uint64_t hash = 0xCBF29CE484222325u;
    alarm(PATIENCE);
    if (sl_pipe_open(config, &pipe) != SL_OK || sl_pipe_run(pipe, 2, reports) != SL_OK ||
        sl_pipe_run(pipe, STEPS - 2, reports + 2) != SL_OK)
        fail_msg("%s: %s", config->schedule, sl_err_message());
    for (int s = 0; s < sl_pipe_stage_count(pipe); s++) {
        const struct sl_worker *w = sl_pipe_worker(pipe, s);
        const struct sl_program *p = w->programs[SL_WORKER_FULL];
        hash = mix(hash, w->param[sl_pipe_newest(pipe, s)], (size_t)p->param_bytes);
        for (int o = 0; o < w->state_count; o++)
            hash = mix(hash, w->opt[o], (size_t)p->param_bytes);
    }
    for (int i = 0; i < STEPS; i++)
        hash = mix(hash, &reports[i].loss, sizeof reports[i].loss);
    sl_pipe_close(pipe);
    alarm(0);
    return hash;
}

static void test_delays(void **state) {
    (void)state;
    static const char *const schedules[] = {"gpipe", "1f1b",  "graph", "zb-graph", "2bw",
                                            "stash", "vsync", "async", "paci"};
    const char *full = getenv("SL_TEST_FULL");
    int64_t runs = full && strcmp(full, "1") == 0 ? 10000 : 40, done = 0;
    struct pipe_case cases[2];
    struct sl_train_config configs[2];
    uint64_t want[2][SL_COUNT(schedules)];
    pipe_case_open(&cases[0], model);
    pipe_case_open(&cases[1], tied);
    for (int c = 0; c < 2; c++) {
        configs[c] = pipe_case_config(&cases[c], "adamw", 7, 4, STEPS);
        if (c == 0)
            pipe_case_cut_by_name(&cases[c], &configs[c], 4, NULL);
        else
            pipe_case_cut(&cases[c], &configs[c], 4, NULL);
    }
    for (int pass = 0; pass < 2; pass++) /* every schedule twice without delays */
        for (int i = 0; i < 2 * SL_COUNT(schedules); i++) {
            int c = i % 2, s = i / 2;
            struct sl_pipe_config config = {.train = &configs[c],
                                            .plan = cases[c].plan,
                                            .stage_of = cases[c].stage_of,
                                            .schedule = schedules[s]};
            uint64_t hash = run_hash(&config);
            if (pass && hash != want[c][s])
                fail_msg("%s: the second run differs", schedules[s]);
            want[c][s] = hash;
        }
    for (int64_t run = 0; run < runs; run++) {
        int c = (int)(run % 2), s = (int)(run / 2 % SL_COUNT(schedules));
        struct sl_pipe_config config = {.train = &configs[c],
                                        .plan = cases[c].plan,
                                        .stage_of = cases[c].stage_of,
                                        .schedule = schedules[s],
                                        .on_action = wait_some,
                                        .trace = run % 3 == 0};
        choose_delays((uint64_t)run);
        if (run_hash(&config) != want[c][s])
            fail_msg("%s: run %lld with delays differs", schedules[s], (long long)run);
        done++;
    }
    for (int c = 0; c < 2; c++)
        pipe_case_close(&cases[c]);
    printf("count: %d schedules twice, %lld runs with random delays: same bits, no hang\n",
           2 * SL_COUNT(schedules), (long long)done);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_delays)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
