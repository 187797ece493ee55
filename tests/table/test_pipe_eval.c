/* Evaluation in a pipeline: the loss and accuracy of one worker with the same weights, bit for bit,
 * for models with dropout, running statistics, ties, branches and several losses, on even,
 * branch-wise and random cuts, with replicas and with two weight versions, with every instruction
 * set. Evaluation does not change training. */
#include "device/cpu/cpu.h"
#include "pipe/pipe.h"
#include "support/pipe_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

enum { STEPS = 3 };

static const struct model {
    const char *name, *sets;
} models[] = {
    {"bert-base", "V=11,T=5,P=7,L=2,C=8,H=2,drop=0.1"},
    {"clip", "G=2,S=8,patch=4,VC=8,VL=2,VH=2,V=11,T=5,TC=8,TL=2,TH=2,E=5"},
    {"gpt-tiny", "V=11,T=5,P=5,L=4,C=8,H=2,drop=0.1"},
    {"mmt", "branches=4,T=4,L=2,C=8,H=2,F=8,classes=3"},
    {"resnet18", "cifar=1,S=9,W=2,N1=1,N2=1,N3=1,N4=0,classes=3"},
    {"u-net", "S=8,L=2,W=2"},
};

enum cut { EVEN, BRANCHES, RANDOM, WIDE, CUTS };

static bool cut(struct pipe_case *c, const struct sl_train_config *config, enum cut way) {
    static const int two[] = {2, 1, 2}, at[3][2] = {{0, 1}, {2}, {3, 4}};
    static const int *const workers_of[] = {at[0], at[1], at[2]};
    static const struct pipe_layout wide = {
        .stages = 3, .workers = 5, .width_of = two, .workers_of = workers_of};
    switch (way) {
    case EVEN: return pipe_case_try_cut(c, config, 4, NULL);
    case BRANCHES: return pipe_case_cut_branches(c, config, 0, 3);
    case RANDOM: return pipe_case_cut_random(c, config, 4, NULL, 11);
    default:
        if (!pipe_case_try_cut(c, config, 3, NULL))
            return false;
        pipe_case_lay_out(c, config, &wide);
        return true;
    }
}

static void must(sl_err err, const char *what) {
    if (err != SL_OK)
        fail_msg("%s: %s", what, sl_err_message());
}

/* false: the schedule does not support this case. */
static bool check(const struct pipe_case *c, const struct sl_train_config *config,
                  const char *schedule, const char *what) {
    struct sl_pipe_config pc = {
        .train = config, .plan = c->plan, .stage_of = c->stage_of, .schedule = schedule};
    struct sl_step_report reports[2][STEPS];
    struct sl_eval_report ours, theirs;
    struct sl_pipe *pipe, *plain;
    struct sl_train *one;
    sl_err err = sl_pipe_open(&pc, &pipe);
    if (err == SL_ERR_REFUSED)
        return false;
    must(err, what);
    must(sl_pipe_open(&pc, &plain), what);
    must(sl_run_train_open(config, &one), what);
    for (int i = 0; i < STEPS; i++) { /* one run evaluates after every step, the other never */
        must(sl_pipe_run(pipe, 1, &reports[0][i]), what);
        must(sl_pipe_run(plain, 1, &reports[1][i]), what);
        must(sl_pipe_eval(pipe, &ours), what);
        assert_memory_equal(&reports[0][i].loss, &reports[1][i].loss, sizeof reports[0][i].loss);
    }
    must(sl_pipe_gather(pipe, one), what);
    must(sl_run_train_eval(one, config->eval_samples, &theirs), what);
    if (memcmp(&ours.loss, &theirs.loss, sizeof ours.loss) != 0)
        fail_msg("%s, %s: loss %.17g, one worker has %.17g", what, schedule, ours.loss,
                 theirs.loss);
    assert_memory_equal(&ours.accuracy, &theirs.accuracy, sizeof ours.accuracy);
    assert_int_equal(ours.samples, theirs.samples);
    assert_int_equal(ours.step, theirs.step);
    sl_run_train_close(one);
    sl_pipe_close(plain);
    sl_pipe_close(pipe);
    return true;
}

static void test_eval(void **state) {
    (void)state;
    static const char *const schedules[] = {"1f1b", "2bw", "zb-graph", "stash", "vsync", "paci"};
    int ran = 0, refused = 0;
    for (int m = 0; m < SL_COUNT(models); m++) {
        struct pipe_case c;
        pipe_case_open_zoo(&c, models[m].name, models[m].sets);
        for (int i = 0; i < CUTS * SL_COUNT(schedules); i++) {
            struct sl_train_config config = pipe_case_config(&c, "adamw", 11, 4, STEPS);
            config.eval_graph = c.eval_graph;
            config.eval_every = 1;
            config.eval_samples = 20;
            bool ok = cut(&c, &config, (enum cut)(i % CUTS)) &&
                      check(&c, &config, schedules[i / CUTS], models[m].name);
            ran += ok;
            refused += !ok;
        }
        pipe_case_close(&c);
    }
    assert_true(ran > 2 * refused);
    printf("count: %d pipelines evaluate as one worker does, bit for bit; %d have no such cut\n",
           ran, refused);
}

static void test_every_isa(void **state) {
    static const char *const names[] = {"amx", "avx512", "avx2", "any"};
    for (int i = 0; i < SL_COUNT(names); i++)
        if (sl_device_cpu_limit(names[i]) == SL_OK)
            test_eval(state);
    must(sl_device_cpu_limit(NULL), "all");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_isa)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
