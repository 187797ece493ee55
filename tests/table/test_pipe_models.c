/* The oracle over models: every synchronous schedule, on 1 to 8 workers, for even cuts, cuts along
 * branches and random legal cuts, gives the weights, statistics, optimizer state and losses of one
 * worker, bit for bit, after 20 steps. One flipped bit is found: step, stage and tensor are named.
 * On threads and over ranks (tests/e2e/mpi_models_release.sh). SL_TEST_MODEL=gpt-tiny selects one
 * model and SL_TEST_WORKERS=8 one size, to split a long run. */
#include "pipe/check.h"
#include "schedules/schedule.h"
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

enum { STEPS = 20, MAX_STAGES = 16 };

static const struct model {
    const char *name, *sets;
} models[] = {
    {"bert-base", "V=11,T=5,P=7,L=4,C=8,H=2"},
    {"candle-uno", "branches=4,L=3,W=6,top=1,shrink=1000"},
    {"clip", "G=2,S=8,patch=4,VC=8,VL=2,VH=2,V=11,T=5,TC=8,TL=2,TH=2,E=5"},
    {"dlrm", "dense_branches=2,sparse_branches=2,L=2,W=6,N=3,rows=7,E=4,bag=3,top=2"},
    {"gpt-tiny", "V=11,T=5,P=5,L=4,C=8,H=2,drop=0.1"},
    {"mmt", "branches=4,T=4,L=2,C=8,H=2,F=8,classes=3"},
    {"resnet18", "cifar=1,S=9,W=2,N1=1,N2=1,N3=1,N4=0,classes=3"},
    {"u-net", "S=8,L=2,W=2"},
    {"vlm", "S=8,patch=4,VC=8,VL=2,VH=2,V=11,T=5,L=2,C=8,H=2,K=1,F=7"},
};
static const int workers[] = {1, 2, 3, 4, 8};
_Static_assert(SL_COUNT(models) == 9, "what is printed");

enum cut { EVEN, BRANCHES, RANDOM, RANDOM_TOO, CUTS };

static bool is_full(void) {
    const char *full = getenv("SL_TEST_FULL");
    return full && strcmp(full, "1") == 0;
}

static const char *only(void) { return getenv("SL_TEST_MODEL"); }

static bool is_left_out(int m) { return only() && strcmp(only(), models[m].name) != 0; }

static const char *only_workers(void) { return getenv("SL_TEST_WORKERS"); }

static bool is_size_left_out(int count) { return only_workers() && atoi(only_workers()) != count; }

struct combination {
    const struct model *model;
    const struct sl_schedule *schedule;
    int workers;
    enum cut cut;
};

/* Chimera: every stage twice, on opposite workers. */
static bool cut_cross(struct pipe_case *c, const struct sl_train_config *config, int stages) {
    int width[MAX_STAGES], at[MAX_STAGES][2];
    const int *workers_of[MAX_STAGES];
    if (stages % 2 || !pipe_case_try_cut(c, config, stages, NULL))
        return false;
    for (int s = 0; s < stages; s++) {
        width[s] = 2;
        at[s][0] = s;
        at[s][1] = stages - 1 - s;
        workers_of[s] = at[s];
    }
    struct pipe_layout layout = {
        .stages = stages, .workers = stages, .width_of = width, .workers_of = workers_of};
    pipe_case_lay_out(c, config, &layout);
    return true;
}

/* false: the model has no such cut. */
static bool cut(struct pipe_case *c, const struct sl_train_config *config,
                const struct combination *k) {
    bool v = k->schedule->layout == SL_LAYOUT_V;
    int stages = v || k->schedule->layout_chunks ? 2 * k->workers : k->workers;
    int worker_of[MAX_STAGES];
    for (int s = 0; s < stages; s++)
        worker_of[s] = v && s >= k->workers ? 2 * k->workers - 1 - s : s % k->workers;
    if (k->schedule->layout == SL_LAYOUT_CROSS)
        return cut_cross(c, config, k->workers);
    switch (k->cut) {
    case EVEN: return pipe_case_try_cut(c, config, stages, worker_of);
    case BRANCHES:
        return !v && pipe_case_cut_branches(c, config, k->workers < 6 ? 0 : stages, k->workers);
    default: return pipe_case_cut_random(c, config, stages, worker_of, (uint64_t)k->cut);
    }
}

/* 1: equal. 0: the schedule does not support this case. */
static int check(const struct pipe_case *c, const struct sl_train_config *config,
                 const struct combination *k) {
    struct sl_check_report report;
    struct sl_check_config check_config = {.pipe = {.train = config,
                                                    .plan = c->plan,
                                                    .stage_of = c->stage_of,
                                                    .schedule = k->schedule->name,
                                                    .comm = ranks_comm()}};
    sl_err err = sl_pipe_check(&check_config, &report);
    ranks_renew();
    if (err == SL_ERR_REFUSED)
        return 0;
    if (err != SL_OK)
        fail_msg("%s: %s", k->model->name, sl_err_message());
    if (report.kind != SL_CHECK_SAME)
        fail_msg(
            "%s, %s, %d workers, cut %d, %lld micro-batches: %s differs after step %lld, first "
            "on stage %d: %.9g, one worker has %.9g",
            k->model->name, k->schedule->name, k->workers, (int)k->cut, (long long)config->micros,
            report.tensor, (long long)report.step, report.stage, report.pipe, report.one);
    return 1;
}

struct counts {
    int ran, refused;
};

/* A short run tries one of this many combinations. */
static int share(void) { return is_full() ? 1 : ranks_comm() ? 211 : 17; }

static void check_model(const struct model *model, int index, struct counts *counts) {
    static const int64_t batches[] = {8, 11}, micros[] = {8, 4};
    struct pipe_case c;
    int rows, number = index * 7;
    const struct sl_schedule *const *schedules = sl_schedules_row_registry(&rows);
    pipe_case_open_zoo(&c, model->name, model->sets);
    for (int s = 0; s < rows; s++)
        for (int w = 0; w < SL_COUNT(workers) && schedules[s]->rule == SL_RULE_SYNC; w++)
            for (int way = 0; way < CUTS; way++) {
                struct combination k = {model, schedules[s], workers[w], (enum cut)way};
                if (number++ % share() != 0 || !ranks_fit(k.workers) || is_size_left_out(k.workers))
                    continue;
                int shape = (s + w + way) % 2;
                struct sl_train_config config =
                    pipe_case_config(&c, "adamw", batches[shape], micros[shape], STEPS);
                config.clip = 0.5;
                bool ran = cut(&c, &config, &k) && check(&c, &config, &k);
                counts->ran += ran;
                counts->refused += !ran;
            }
    pipe_case_close(&c);
}

static void test_models(void **state) {
    (void)state;
    struct counts counts = {0};
    for (int m = 0; m < SL_COUNT(models); m++)
        if (!is_left_out(m))
            check_model(&models[m], m, &counts);
    bool whole = !ranks_short() && !only() && !only_workers();
    assert_true(counts.ran > (whole ? counts.refused : 0));
    printf("count: %d pipelines of %s on %s workers bit-identical to one worker after %d steps, %d "
           "outside a schedule's domain%s\n",
           counts.ran, only() ? only() : "9 models", only_workers() ? only_workers() : "1 to 8",
           STEPS, counts.refused, ranks_text());
}

/* ---- sabotage: one bit, in one stage, before one step ---- */

struct saboteur {
    struct sl_pipe *pipe;
    int stage, step;
    int64_t seen, per_step;
    int param;
};

static void opened(void *ctx, struct sl_pipe *pipe) {
    struct saboteur *s = ctx;
    s->pipe = pipe;
    s->seen = 0;
}

static sl_err flip(void *ctx, int worker, int64_t action) {
    struct saboteur *s = ctx;
    uint32_t bits;
    (void)action;
    if (worker != s->stage || s->seen++ != s->step * s->per_step || s->param < 0)
        return SL_OK;
    float *at = sl_run_worker_weight(sl_pipe_worker(s->pipe, s->stage), 0, s->param);
    memcpy(&bits, at, sizeof bits);
    bits ^= 1;
    memcpy(at, &bits, sizeof bits);
    return SL_OK;
}

static struct sl_check_report run_check(const struct pipe_case *c,
                                        const struct sl_train_config *config,
                                        struct saboteur *saboteur) {
    struct sl_check_report report;
    struct sl_check_config check_config = {.pipe = {.train = config,
                                                    .plan = c->plan,
                                                    .stage_of = c->stage_of,
                                                    .schedule = "1f1b",
                                                    .comm = ranks_comm(),
                                                    .on_action = flip,
                                                    .on_action_ctx = saboteur},
                                           .opened = opened,
                                           .ctx = saboteur};
    if (sl_pipe_check(&check_config, &report) != SL_OK)
        fail_msg("%s", sl_err_message());
    return report;
}

/* The last parameter of a stage; the rank that holds it sends it to all. index -1: none. */
struct victim {
    int64_t index;
    char name[120];
};

static struct victim find_victim(const struct pipe_case *c, const struct sl_train_config *config,
                                 int stage) {
    struct victim victim = {0};
    struct sl_pipe *pipe;
    struct sl_pipe_config pc = {.train = config,
                                .plan = c->plan,
                                .stage_of = c->stage_of,
                                .schedule = "1f1b",
                                .comm = ranks_comm()};
    assert_int_equal(sl_pipe_open(&pc, &pipe), SL_OK);
    const struct sl_worker *worker = sl_pipe_worker(pipe, stage);
    const struct sl_program *p = worker ? worker->programs[SL_WORKER_FULL] : NULL;
    if (p && p->param_count) {
        victim.index = p->param_count; /* index 0 means none */
        snprintf(victim.name, sizeof victim.name, "%s",
                 c->graph->params.at[p->params[p->param_count - 1].param].name);
    }
    if (ranks_comm())
        assert_int_equal(sl_comm_merge(ranks_comm(), &victim, sizeof victim), SL_OK);
    sl_pipe_close(pipe);
    victim.index--;
    return victim;
}

/* At a rate of 0 weights do not change, so the flipped one is the only one that differs. */
static bool flip_one(const struct pipe_case *c, const struct sl_train_config *config, int stage,
                     int step) {
    struct saboteur s = {.stage = stage, .step = step, .param = -1};
    assert_int_equal(run_check(c, config, &s).kind, SL_CHECK_SAME);
    s.per_step = s.seen / 3;
    struct victim victim = find_victim(c, config, stage);
    s.param = (int)victim.index;
    if (s.param < 0)
        return false;
    struct sl_check_report report = run_check(c, config, &s);
    if (report.kind != SL_CHECK_WEIGHT || report.stage != stage || report.step != step + 1 ||
        strcmp(report.tensor, victim.name) != 0)
        fail_msg("%s: %s of stage %d at step %d: the check says kind %d, %s, stage %d, step %lld",
                 c->graph->name, victim.name, stage, step + 1, (int)report.kind,
                 report.tensor ? report.tensor : "-", report.stage, (long long)report.step);
    return true;
}

static void test_one_bit(void **state) {
    (void)state;
    int found = 0;
    for (int m = 0; m < SL_COUNT(models); m++) {
        struct pipe_case c;
        if (!ranks_fit(3) || (ranks_short() && m != 4) || is_left_out(m))
            continue;
        pipe_case_open_zoo(&c, models[m].name, models[m].sets);
        struct sl_train_config config = pipe_case_config(&c, "sgd", 4, 2, 3);
        config.base_lr = 0;
        pipe_case_cut(&c, &config, 3, NULL);
        for (int stage = 0; stage < 3; stage++)
            found += flip_one(&c, &config, stage, m % 3);
        pipe_case_close(&c);
        ranks_renew();
    }
    printf("count: %d flipped bits named: step, stage and tensor%s\n", found, ranks_text());
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_models),
                                       cmocka_unit_test(test_one_bit)};
    ranks_open();
    return ranks_close(cmocka_run_group_tests(tests, NULL, NULL));
}
