/* Pipelines with replicas and with a micro-batch size per stage against the same stages in one
 * thread (run/serial.h), bit for bit: ties, running statistics, skip edges, two losses, short last
 * micro-batches, several stages on a worker, Chimera. And that reference against one worker. On
 * threads and over ranks (tests/e2e/mpi_models_release.sh). */
#include "base/rng.h"
#include "pipe/check.h"
#include "run/serial.h"
#include "support/pipe_case.h"
#include "support/ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 4, MAX_STAGES = 6, MAX_WIDTH = 3 };

static const char *const models[] = {
    /* a chain with a tie between its ends */
    "model tied\nsize V = 7, C = 4\ninput tokens : int[B, 3] < V\ninput targets : int[B, 3] < V\n"
    "param wte[V, C] ~ normal(0.5)\nx = dropout(embed(wte, tokens), 0.1)\n"
    "repeat i in 0..4 as h {\nparam w[C, C] ~ normal(0.5)\nx = x + gelu(matmul(x, w, tb = 1))\n}\n"
    "loss cross_entropy(matmul(x, wte, tb = 1), targets)\n",
    /* running statistics, skip edges, two losses */
    "model u\nsize C = 3, N = 4\ninput image : float[B, 2, N, N]\ninput label : int[B] < 5\n"
    "fn bn(x) {\nparam w[dim(x, 1)] ~ ones\nparam b[dim(x, 1)] ~ zeros\n"
    "state mean[dim(x, 1)] ~ zeros\nstate var[dim(x, 1)] ~ ones\n"
    "return batchnorm(x, w, b, mean, var)\n}\n"
    "fn mix(x) {\nparam w[dim(x, 1), 1, 1] ~ normal(0.5)\nreturn relu(bn(x * w) as bn)\n}\n"
    "a = mix(image) as m1\nb = mix(a) as m2\nc = mix(b) as m3\nd = mix(c) as m4\n"
    "u = concat([d, a, b], axis = 1)\ne = mix(u) as m5\n"
    "param wl[5, 6] ~ normal(0.4)\nparam wm[5, 2] ~ normal(0.4)\n"
    "loss cross_entropy(matmul(global_avgpool(e), wl, tb = 1), label) weight 0.7\n"
    "loss cross_entropy(matmul(global_avgpool(c), wm, tb = 1), label) weight 0.3\n",
    /* branches */
    "model branches\ninput x : float[B, 6]\ninput y : float[B, 5]\ninput label : int[B] < 4\n"
    "param s0_w[7, 6] ~ normal(0.4)\nparam s1_w[6, 7] ~ normal(0.4)\n"
    "param s2_w[4, 5] ~ normal(0.4)\nparam s3_w[4, 17] ~ normal(0.4)\n"
    "a = relu(matmul(x, s0_w, tb = 1))\nb = relu(matmul(a, s1_w, tb = 1))\n"
    "c = matmul(y, s2_w, tb = 1)\n"
    "loss cross_entropy(c, label) weight 0.4\n"
    "loss cross_entropy(matmul(concat([a, b, c], axis = 1), s3_w, tb = 1), label) weight 0.6\n",
    /* a chain with running statistics */
    "model image\nsize N = 4\ninput image : float[B, 2, N, N]\ninput label : int[B] < 5\n"
    "fn bn(x) {\nparam w[dim(x, 1)] ~ ones\nparam b[dim(x, 1)] ~ zeros\n"
    "state mean[dim(x, 1)] ~ zeros\nstate var[dim(x, 1)] ~ ones\n"
    "return batchnorm(x, w, b, mean, var)\n}\n"
    "fn mix(x) {\nparam w[dim(x, 1), 1, 1] ~ normal(0.5)\nreturn relu(bn(x * w) as bn)\n}\n"
    "a = mix(image) as m1\nb = mix(a) as m2\nc = mix(b) as m3\nd = mix(c) as m4\n"
    "e = mix(d) as m5\nparam wl[5, 2] ~ normal(0.4)\n"
    "loss cross_entropy(matmul(global_avgpool(e), wl, tb = 1), label)\n",
    /* gradients that are summed in several parts */
    "model broad\nsize C = 160\ninput x : float[B, C]\ninput label : int[B] < 5\n"
    "repeat i in 0..5 as h {\nparam w[C, C] ~ normal(0.1)\nx = relu(matmul(x, w, tb = 1))\n}\n"
    "param last[5, C] ~ normal(0.1)\nloss cross_entropy(matmul(x, last, tb = 1), label)\n",
};
enum { TIED, SKIPS, BRANCHES, IMAGE, BROAD };

static bool is_full(void) {
    const char *full = getenv("SL_TEST_FULL");
    return full && strcmp(full, "1") == 0;
}

struct drawn {
    int width[MAX_STAGES], at[MAX_STAGES][MAX_WIDTH];
    const int *workers_of[MAX_STAGES];
    int64_t micro[MAX_STAGES];
    struct pipe_layout layout;
};

static int below(uint64_t seed, uint64_t *drawn, int count) {
    return (int)sl_rng_below(seed, 7, (*drawn)++, count);
}

/* Replicas on workers of their own, or folded onto fewer. */
static void draw(struct drawn *d, int stages, uint64_t seed, bool own_sizes) {
    static const int64_t sizes[] = {1, 2, 3, 4, 6};
    uint64_t n = 0;
    int workers = 0, folded = below(seed, &n, 3) == 0;
    for (int s = 0; s < stages; s++) {
        d->width[s] = 1 + below(seed, &n, MAX_WIDTH);
        d->micro[s] = own_sizes ? sizes[below(seed, &n, SL_COUNT(sizes))] : 2;
        for (int r = 0; r < d->width[s]; r++)
            d->at[s][r] = workers++;
        d->workers_of[s] = d->at[s];
    }
    int fewer = 3 + below(seed, &n, workers);
    for (int s = 0; folded && fewer < workers && s < stages; s++)
        for (int r = 0; r < d->width[s]; r++)
            d->at[s][r] %= fewer;
    d->layout = (struct pipe_layout){.stages = stages,
                                     .workers = folded && fewer < workers ? fewer : workers,
                                     .width_of = d->width,
                                     .workers_of = d->workers_of,
                                     .micro_of = d->micro,
                                     .recompute = below(seed, &n, 4) == 0};
}

/* false: the schedule does not support this case. */
static bool check(const struct pipe_case *c, const struct sl_train_config *config,
                  const char *schedule, const char *what) {
    struct sl_check_report report;
    struct sl_check_config check_config = {.pipe = {.train = config,
                                                    .plan = c->plan,
                                                    .stage_of = c->stage_of,
                                                    .schedule = schedule,
                                                    .comm = ranks_comm()}};
    sl_err err = sl_pipe_check(&check_config, &report);
    ranks_renew();
    if (err != SL_OK && err != SL_ERR_REFUSED)
        fail_msg("%s, %s: %s", what, schedule, sl_err_message());
    if (err == SL_OK && report.kind != SL_CHECK_SAME)
        fail_msg("%s, %s: %s of kind %d differs after step %lld on stage %d: %.9g, not %.9g", what,
                 schedule, report.tensor, (int)report.kind, (long long)report.step, report.stage,
                 report.pipe, report.one);
    return err == SL_OK;
}

static void test_wide(void **state) {
    (void)state;
    static const char *const schedules[] = {"gpipe", "1f1b", "kfkb", "graph", "zb-h1", "zb-graph"};
    int draws = is_full() ? 200 : ranks_short() ? 1 : 5, ran = 0, refused = 0;
    for (int m = 0; m < SL_COUNT(models); m++) {
        struct pipe_case c;
        pipe_case_open(&c, models[m]);
        for (int i = 0; i < draws; i++)
            for (int s = 0; s < SL_COUNT(schedules); s++) {
                uint64_t seed = (uint64_t)((m * 1000 + i) * 10 + s);
                static const int64_t batches[] = {12, 7, 2};
                struct drawn d;
                char what[64];
                struct sl_train_config config =
                    pipe_case_config(&c, "adamw", batches[i % 3], batches[i % 3] / 2, STEPS);
                config.micros = (config.batch + 1) / 2;
                config.clip = 0.5;
                snprintf(what, sizeof what, "model %d, draw %d", m, i);
                bool branches = m == BRANCHES;
                int stages = branches ? 4 : 2 + i % 4;
                draw(&d, stages, seed, i % 2);
                if (!ranks_fit(d.layout.workers) || (ranks_short() && (m + s) % 5 != 0))
                    continue;
                if (branches)
                    pipe_case_cut_by_name(&c, &config, stages, NULL);
                else
                    pipe_case_cut(&c, &config, stages, NULL);
                pipe_case_lay_out(&c, &config, &d.layout);
                bool ok = check(&c, &config, schedules[s], what);
                ran += ok;
                refused += !ok;
            }
        pipe_case_close(&c);
    }
    assert_true(ran > refused);
    printf("count: %d pipelines with replicas and own sizes are the reference, %d outside a "
           "schedule's domain%s\n",
           ran, refused, ranks_text());
}

static void test_chimera(void **state) {
    (void)state;
    int ran = 0;
    for (int m = TIED; m <= IMAGE; m += IMAGE - TIED) { /* chains */
        struct pipe_case c;
        pipe_case_open(&c, models[m]);
        for (int stages = 2; stages <= 6; stages += 2) {
            struct sl_train_config config = pipe_case_config(&c, "adamw", 14, 7, STEPS);
            struct drawn d;
            if (!ranks_fit(stages) || (ranks_short() && stages > 2))
                continue;
            pipe_case_cut(&c, &config, stages, NULL);
            for (int s = 0; s < stages; s++) {
                d.width[s] = 2;
                d.at[s][0] = s;
                d.at[s][1] = stages - 1 - s;
                d.workers_of[s] = d.at[s];
            }
            d.layout = (struct pipe_layout){.stages = stages,
                                            .workers = stages,
                                            .width_of = d.width,
                                            .workers_of = d.workers_of};
            pipe_case_lay_out(&c, &config, &d.layout);
            if (!check(&c, &config, "chimera", "chimera"))
                fail_msg("model %d, %d stages: %s", m, stages, sl_err_message());
            ran++;
        }
        pipe_case_close(&c);
    }
    printf("count: %d crossing pipelines%s\n", ran, ranks_text());
}

/* Slack changes the timing, not the results: weights of 2bw, and sums of synchronous schedules. */
static void test_slack(void **state) {
    (void)state;
    struct pipe_case c;
    float *want = NULL;
    if (ranks_comm())
        skip();
    pipe_case_open(&c, models[TIED]);
    struct sl_train_config config = pipe_case_config(&c, "adamw", 12, 6, STEPS);
    pipe_case_cut(&c, &config, 4, NULL);
    for (int slack = 0; slack < 4; slack++) {
        struct sl_pipe_config pc = {.train = &config,
                                    .plan = c.plan,
                                    .stage_of = c.stage_of,
                                    .schedule = "2bw",
                                    .slack = slack};
        struct sl_check_config check_config = {.pipe = {.train = &config,
                                                        .plan = c.plan,
                                                        .stage_of = c.stage_of,
                                                        .schedule = "1f1b",
                                                        .slack = slack}};
        struct sl_step_report reports[STEPS];
        struct sl_check_report report;
        struct sl_pipe *pipe;
        assert_int_equal(sl_pipe_check(&check_config, &report), SL_OK);
        assert_int_equal(report.kind, SL_CHECK_SAME);
        if (sl_pipe_open(&pc, &pipe) != SL_OK || sl_pipe_run(pipe, STEPS, reports) != SL_OK)
            fail_msg("slack %d: %s", slack, sl_err_message());
        const struct sl_worker *w = sl_pipe_worker(pipe, 0);
        size_t bytes = (size_t)w->programs[SL_WORKER_FULL]->param_bytes;
        want = want ? want : memcpy(malloc(bytes), w->param[sl_pipe_newest(pipe, 0)], bytes);
        assert_memory_equal(want, w->param[sl_pipe_newest(pipe, 0)], bytes);
        assert_int_equal(w->versions, 2);
        sl_pipe_close(pipe);
    }
    free(want);
    pipe_case_close(&c);
}

/* With one replica and one micro-batch size the reference equals one worker. */
static void test_serial(void **state) {
    (void)state;
    for (int m = 0; m < SL_COUNT(models); m++) {
        struct pipe_case c;
        struct sl_train *one;
        struct sl_serial *serial;
        pipe_case_open(&c, models[m]);
        struct sl_train_config config = pipe_case_config(&c, "adamw", 11, 4, STEPS);
        config.clip = 0.5;
        pipe_case_cut(&c, &config, 3, NULL);
        assert_int_equal(sl_run_train_open(&config, &one), SL_OK);
        assert_int_equal(sl_run_serial_open(&config, c.plan, c.stage_of, NULL, &serial), SL_OK);
        for (int i = 0; i < STEPS; i++) {
            struct sl_step_report a, b;
            assert_int_equal(sl_run_train_step(one, &a), SL_OK);
            assert_int_equal(sl_run_serial_step(serial, &b), SL_OK);
            assert_memory_equal(&a.loss, &b.loss, sizeof a.loss);
            assert_memory_equal(&a.norm, &b.norm, sizeof a.norm);
        }
        const struct sl_program *whole = one->worker->programs[SL_WORKER_FULL];
        for (int s = 0; s < c.plan->stage_count; s++) {
            const struct sl_worker *w = sl_run_serial_worker(serial, s);
            const struct sl_program *p = w->programs[SL_WORKER_FULL];
            for (int i = 0; i < p->param_count; i++) {
                const struct sl_program_param *to =
                    sl_run_worker_find(whole->params, whole->param_count, p->params[i].param);
                assert_memory_equal((const char *)w->param[0] + p->params[i].offset,
                                    (const char *)one->worker->param[0] + to->offset,
                                    (size_t)p->params[i].numel * 4);
            }
        }
        sl_run_serial_close(serial);
        sl_run_train_close(one);
        pipe_case_close(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_serial), cmocka_unit_test(test_wide),
                                       cmocka_unit_test(test_chimera),
                                       cmocka_unit_test(test_slack)};
    ranks_open();
    return ranks_close(cmocka_run_group_tests(tests, NULL, NULL));
}
