/* Staleness policies in pipelines against the plain loop (support/async_loop.h), bit for bit:
 * every policy x optimizer, on chains and graphs of stages; and identities that the policies
 * must keep. */
#include "run/train.h"
#include "schedules/schedule.h"
#include "support/async_loop.h"
#include "support/pipe_models.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = LOOP_STEPS };

struct cut {
    const struct pipe_case *c;
    const struct sl_train_config *config;
    const int *height;
};

static void describe(const struct cut *cut, const char *schedule, int64_t first_run, char *out) {
    struct sl_text policy = {0};
    sl_optim_policy_put(&policy, &cut->config->policy);
    snprintf(out, 200, "%s, %s, %s, %s, m = %lld, runs of %lld and %lld", cut->c->graph->name,
             schedule, policy.at, cut->config->optim.row->name, (long long)cut->config->micros,
             (long long)first_run, (long long)(STEPS - first_run));
    sl_text_free(&policy);
}

/* Runs the pipeline and the loop; returns how many stages differ. `meant`: the policy of the loop,
 * if it is not the pipeline's. */
static int run_both(const struct cut *cut, const char *schedule, int64_t first_run,
                    const struct sl_train_config *meant) {
    struct loop l = {.config = meant ? meant : cut->config,
                     .stage_of = cut->c->stage_of,
                     .stages = cut->c->plan->stage_count,
                     .height = cut->height};
    struct sl_pipe_config pc = {.train = cut->config,
                                .plan = cut->c->plan,
                                .stage_of = cut->c->stage_of,
                                .schedule = schedule};
    const struct loop_rule *rule = loop_rule_find(schedule);
    struct sl_pipe *pipe = NULL;
    struct sl_step_report reports[STEPS];
    char what[200];
    int wrong = 0;
    describe(cut, schedule, first_run, what);
    loop_open(&l);
    loop_run(&l, rule, 0, STEPS); /* a pause does not change the run */
    if (sl_pipe_open(&pc, &pipe) != SL_OK || sl_pipe_run(pipe, first_run, reports) != SL_OK ||
        (first_run < STEPS && sl_pipe_run(pipe, STEPS - first_run, reports + first_run) != SL_OK))
        fail_msg("%s: %s", what, sl_err_message());
    for (int s = 0; s < l.stages; s++) {
        const char *name = loop_difference(&l, pipe, s);
        if (name && !meant)
            fail_msg("%s: %s differs on stage %d", what, name, s);
        wrong += name != NULL;
    }
    for (int i = 0; !meant && i < STEPS; i++)
        if (reports[i].loss != l.loss[i])
            fail_msg("%s: loss of step %d is %.17g, not %.17g", what, i + 1, reports[i].loss,
                     l.loss[i]);
    sl_pipe_close(pipe);
    loop_close(&l);
    return wrong;
}

static const char *const schedules[] = {"2bw", "async", "stash", "vsync"};
static const char *const rule_of[] = {"twobw", "newest", "stash", "vsync"};

/* Under a sanitizer every combination runs one batch instead of all. */
static bool is_left_out(int number, int count) {
    const char *preset = getenv("SL_PRESET");
    return preset && strcmp(preset, "release") != 0 && number % count != 0;
}

/* Every policy with every schedule and optimizer that it serves. */
static int check_all(struct cut *cut, struct sl_train_config *config, int salt, int *refused) {
    int count = 0;
    for (int p = 0; p < sl_optim_policy_count; p++)
        for (int r = 0; r < SL_COUNT(schedules); r++)
            for (int o = 0; o < sl_optim_row_count; o++) {
                assert_int_equal(sl_optim_policy_parse(sl_optim_policies[p]->name, &config->policy),
                                 SL_OK);
                assert_int_equal(sl_optim_parse(sl_optim_rows[o]->name, &config->optim), SL_OK);
                if (sl_optim_policy_serves(&config->policy, rule_of[r], &config->optim) != SL_OK) {
                    ++*refused;
                    continue;
                }
                if (is_left_out(p + r + o + salt, 11))
                    continue;
                run_both(cut, schedules[r], (p + o) % 2 ? STEPS : 3, NULL);
                count++;
            }
    return count;
}

static void test_exact(void **state) {
    (void)state;
    static const struct {
        const char *model;
        int stages, height[5], worker_of[5];
        bool by_name;
        int64_t batch, micros;
    } cases[] = {
        {pipe_model_gpt, 4, {3, 2, 1, 0}, {0, 1, 2, 3}, false, 4, 1},
        {pipe_model_gpt, 4, {3, 2, 1, 0}, {0, 1, 2, 3}, false, 4, 2},
        {pipe_model_gpt, 4, {3, 2, 1, 0}, {0, 1, 2, 3}, false, 11, 4},
        {pipe_model_diamond, 5, {3, 2, 1, 1, 0}, {0, 1, 2, 3, 4}, true, 3, 1},
        {pipe_model_diamond, 5, {3, 2, 1, 1, 0}, {0, 1, 1, 2, 2}, true, 5, 2},
        {pipe_model_branches, 4, {2, 1, 1, 0}, {0, 1, 2, 3}, true, 5, 5},
        {pipe_model_bare, 4, {2, 2, 1, 0}, {0, 1, 2, 3}, true, 4, 2},
    };
    int count = 0, refused = 0;
    for (int i = 0; i < SL_COUNT(cases); i++) {
        struct pipe_case c;
        pipe_case_open(&c, cases[i].model);
        struct sl_train_config config =
            pipe_case_config(&c, "adam", cases[i].batch, cases[i].micros, STEPS);
        if (cases[i].by_name)
            pipe_case_cut_by_name(&c, &config, cases[i].stages, cases[i].worker_of);
        else
            pipe_case_cut(&c, &config, cases[i].stages, cases[i].worker_of);
        struct cut cut = {&c, &config, cases[i].height};
        count += check_all(&cut, &config, i, &refused);
        pipe_case_close(&c);
    }
    printf("count: %d runs of policies are the formulas, bit for bit; %d combinations refused\n",
           count, refused);
}

/* Sabotage: with another policy in the loop, the comparison finds a difference. */
static void test_wrong_policies(void **state) {
    (void)state;
    static const int height[] = {3, 2, 1, 0};
    struct pipe_case c;
    int count = 0;
    pipe_case_open(&c, pipe_model_gpt);
    struct sl_train_config config = pipe_case_config(&c, "nadam", 4, 2, STEPS), other = config;
    pipe_case_cut(&c, &config, 4, NULL);
    struct cut cut = {&c, &config, height};
    for (int r = 0; r < SL_COUNT(schedules); r++)
        for (int a = 0; a < sl_optim_policy_count; a++)
            for (int b = 0; b < sl_optim_policy_count; b++) {
                assert_int_equal(sl_optim_policy_parse(sl_optim_policies[a]->name, &config.policy),
                                 SL_OK);
                assert_int_equal(sl_optim_policy_parse(sl_optim_policies[b]->name, &other.policy),
                                 SL_OK);
                if (a == b ||
                    sl_optim_policy_serves(&config.policy, rule_of[r], &config.optim) != SL_OK ||
                    sl_optim_policy_serves(&other.policy, rule_of[r], &config.optim) != SL_OK)
                    continue;
                if (run_both(&cut, schedules[r], STEPS, &other) == 0)
                    fail_msg("%s: %s runs as %s", schedules[r], sl_optim_policies[a]->name,
                             sl_optim_policies[b]->name);
                count++;
            }
    pipe_case_close(&c);
    printf("count: %d wrong policies noticed\n", count);
}

/* A shorter look-ahead is the formula with that look-ahead, bit for bit, and gives another run. */
static void test_reach(void **state) {
    (void)state;
    static const struct {
        const char *shorter, *plain, *schedule;
    } rows[] = {{"spectrain:reach=0.7", "spectrain", "async"},
                {"pipeoptim:reach=0.7", "pipeoptim", "async"},
                {"xpipe:reach=1.3", "xpipe", "async"},
                {"2bw-predict:reach=0.7", "2bw-predict", "2bw"}};
    static const char *const optimizers[] = {"muon", "adamw", "momentum"};
    static const int height[] = {3, 2, 1, 1, 0}, worker_of[] = {0, 1, 2, 3, 4};
    struct pipe_case c;
    pipe_case_open(&c, pipe_model_diamond);
    struct sl_train_config config = pipe_case_config(&c, "adam", 5, 2, STEPS), other;
    pipe_case_cut_by_name(&c, &config, 5, worker_of);
    struct cut cut = {&c, &config, height};
    for (int i = 0; i < SL_COUNT(rows); i++)
        for (int o = 0; o < SL_COUNT(optimizers); o++) {
            assert_int_equal(sl_optim_parse(optimizers[o], &config.optim), SL_OK);
            assert_int_equal(sl_optim_policy_parse(rows[i].shorter, &config.policy), SL_OK);
            run_both(&cut, rows[i].schedule, 3, NULL);
            other = config;
            assert_int_equal(sl_optim_policy_parse(rows[i].plain, &other.policy), SL_OK);
            if (run_both(&cut, rows[i].schedule, STEPS, &other) == 0)
                fail_msg("%s runs as %s", rows[i].shorter, rows[i].plain);
        }
    pipe_case_close(&c);
}

/* SpecTrain on one stage is momentum. */
static void test_one_stage(void **state) {
    (void)state;
    struct pipe_case c;
    pipe_case_open(&c, pipe_model_gpt);
    struct sl_train_config config = pipe_case_config(&c, "momentum:ema=1", 4, 2, STEPS);
    struct sl_train *one;
    struct sl_pipe *pipe;
    struct sl_step_report report, reports[STEPS];
    assert_int_equal(sl_run_train_open(&config, &one), SL_OK);
    for (int i = 0; i < STEPS; i++)
        assert_int_equal(sl_run_train_step(one, &report), SL_OK);
    assert_int_equal(sl_optim_policy_parse("spectrain", &config.policy), SL_OK);
    pipe_case_cut(&c, &config, 1, NULL);
    struct sl_pipe_config pc = {
        .train = &config, .plan = c.plan, .stage_of = c.stage_of, .schedule = "async"};
    assert_int_equal(sl_pipe_open(&pc, &pipe), SL_OK);
    assert_int_equal(sl_pipe_run(pipe, STEPS, reports), SL_OK);
    const struct sl_worker *a = one->worker, *b = sl_pipe_worker(pipe, 0);
    size_t bytes = (size_t)a->programs[SL_WORKER_FULL]->param_bytes;
    assert_int_equal(b->versions, 1); /* nothing is predicted */
    assert_memory_equal(a->param[0], b->param[sl_pipe_newest(pipe, 0)], bytes);
    assert_memory_equal(a->opt[0], b->opt[0], bytes);
    sl_pipe_close(pipe);
    sl_run_train_close(one);
    pipe_case_close(&c);
}

/* A chain of four stages whose loss is linear in each stage's parameter: constant gradients. */
static const char linear[] =
    "model linear\ninput x : float[B, 3]\ninput label : int[B] < 4\n"
    "param s0_w[3] ~ normal(0.4)\nparam s1_w[3] ~ normal(0.4)\nparam s2_w[3] ~ normal(0.4)\n"
    "param s3_w[3] ~ normal(0.4)\n"
    "a = x * 0.0 + s0_w\nb = a + s1_w\nc = b + s2_w\nd = c + s3_w\nloss reduce_mean(d)\n";

struct seen {
    double worst, stale, predicted;
    int64_t count;
};

static struct seen watch(const char *model, const char *optimizer, const char *policy,
                         const char *schedule, int64_t steps, int64_t from) {
    struct pipe_case c;
    struct sl_pipe *pipe;
    struct sl_staleness *at;
    struct seen seen = {0};
    pipe_case_open(&c, model);
    struct sl_train_config config = pipe_case_config(&c, optimizer, 4, 1, steps);
    struct sl_step_report *reports = calloc((size_t)steps, sizeof *reports);
    assert_int_equal(sl_optim_lr_parse("constant", steps, &config.lr), SL_OK);
    assert_int_equal(sl_optim_policy_parse(policy, &config.policy), SL_OK);
    pipe_case_cut_by_name(&c, &config, 4, NULL);
    struct sl_pipe_config pc = {.train = &config,
                                .plan = c.plan,
                                .stage_of = c.stage_of,
                                .schedule = schedule,
                                .staleness = true};
    if (sl_pipe_open(&pc, &pipe) != SL_OK || sl_pipe_run(pipe, steps, reports) != SL_OK)
        fail_msg("%s", sl_err_message());
    int64_t count;
    assert_int_equal(sl_pipe_take_staleness(pipe, &at, &count), SL_OK);
    for (int64_t i = 0; i < count; i++) {
        if (at[i].base < from)
            continue;
        seen.worst = at[i].predicted > seen.worst ? at[i].predicted : seen.worst;
        seen.predicted += at[i].predicted;
        seen.stale += at[i].stale;
        seen.count++;
    }
    free(at);
    free(reports);
    sl_pipe_close(pipe);
    pipe_case_close(&c);
    return seen;
}

/* Once the velocity has converged, predictions are exact. */
static void test_constant_gradient(void **state) {
    (void)state;
    struct seen seen = watch(linear, "momentum:ema=1,beta=0.5", "spectrain", "async", 80, 40);
    assert_true(seen.count > 40);
    assert_true(seen.stale / (double)seen.count > 1e-3);
    assert_true(seen.worst < 1e-6);
}

/* On a smooth problem predicted weights are closer than stale ones, by less if the momentum is
 * smaller. */
static const char smooth[] =
    "model smooth\ninput x : float[B, 6]\ninput label : int[B] < 4\n"
    "param s0_w[8, 6] ~ normal(0.4)\nparam s1_w[8, 8] ~ normal(0.4)\n"
    "param s2_w[8, 8] ~ normal(0.4)\nparam s3_w[4, 8] ~ normal(0.4)\n"
    "a = tanh(matmul(x, s0_w, tb = 1))\nb = tanh(matmul(a, s1_w, tb = 1))\n"
    "c = tanh(matmul(b, s2_w, tb = 1))\n"
    "loss cross_entropy(matmul(c, s3_w, tb = 1), label)\n";

static void test_rmse(void **state) {
    (void)state;
    double ratio[2];
    static const char *const betas[] = {"momentum:ema=1,beta=0.95", "momentum:ema=1,beta=0.5"};
    for (int i = 0; i < 2; i++) {
        struct seen seen = watch(smooth, betas[i], "spectrain", "async", 120, 40);
        assert_true(seen.count > 100);
        ratio[i] = seen.predicted / seen.stale;
        printf("%s: RMSE of predictions is %.2f of that of stale weights\n", betas[i], ratio[i]);
    }
    assert_true(ratio[0] < 1);
    assert_true(ratio[0] < ratio[1]);
}

/* Memory of weights and state is what plan and schedule say, to the byte. */
static void test_memory(void **state) {
    (void)state;
    struct pipe_case c;
    int count = 0;
    pipe_case_open(&c, pipe_model_gpt);
    struct sl_train_config config = pipe_case_config(&c, "adam", 4, 2, STEPS);
    for (int p = 0; p < sl_optim_policy_count; p++)
        for (int r = 0; r < SL_COUNT(schedules); r++)
            for (int o = 0; o < sl_optim_row_count; o++) {
                struct sl_arena arena = {0};
                const struct sl_sched *sched;
                struct sl_pipe *pipe;
                assert_int_equal(sl_optim_policy_parse(sl_optim_policies[p]->name, &config.policy),
                                 SL_OK);
                assert_int_equal(sl_optim_parse(sl_optim_rows[o]->name, &config.optim), SL_OK);
                if (sl_optim_policy_serves(&config.policy, rule_of[r], &config.optim) != SL_OK)
                    continue;
                pipe_case_cut(&c, &config, 4, NULL);
                struct sl_pipe_config pc = {.train = &config,
                                            .plan = c.plan,
                                            .stage_of = c.stage_of,
                                            .schedule = schedules[r]};
                struct sl_schedule_opts opts = {
                    .schedule = schedules[r], .batch = 4, .iters = STEPS, .policy = &config.policy};
                assert_int_equal(sl_pipe_open(&pc, &pipe), SL_OK);
                assert_int_equal(sl_schedules_build(&arena, c.plan, &opts, &sched), SL_OK);
                for (int s = 0; s < 4; s++) {
                    const struct sl_worker *w = sl_pipe_worker(pipe, s);
                    const struct sl_program *program = w->programs[SL_WORKER_FULL];
                    const struct sl_slot_pool *weight = &sched->pools[s][SL_POOL_WEIGHT];
                    const struct sl_slot_pool *predict = &sched->pools[s][SL_POOL_PREDICT];
                    assert_int_equal(w->versions * program->param_bytes,
                                     weight->count * weight->bytes +
                                         predict->count * predict->bytes);
                    assert_int_equal(w->state_count * program->param_bytes + program->state_bytes,
                                     c.plan->stages[s].bytes.state);
                    count++;
                }
                sl_pipe_close(pipe);
                sl_arena_free(&arena);
            }
    pipe_case_close(&c);
    printf("count: memory of %d stages is what was planned\n", count);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exact),     cmocka_unit_test(test_wrong_policies),
        cmocka_unit_test(test_reach),     cmocka_unit_test(test_memory),
        cmocka_unit_test(test_one_stage), cmocka_unit_test(test_constant_gradient),
        cmocka_unit_test(test_rmse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
