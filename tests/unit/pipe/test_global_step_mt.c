/* Global steps without a flush, against the plain loop (support/async_loop.h), bit for bit:
 * clipping by the global norm, steps that all stages skip, tied weights; every asynchronous mode,
 * on chains and graphs of stages. */
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

enum { STEPS = LOOP_STEPS, STAGES = 4 };

struct run {
    struct pipe_case *c;
    struct sl_train_config config;
    const int *height;
    const char *schedule;
    int64_t first_run;
    int64_t poisoned; /* step to be skipped (from 1), 0: none */
    bool alone;       /* clip scope stage */
};

static void check_reports(const struct run *r, const struct loop *l,
                          const struct sl_step_report *reports, const char *what) {
    for (int i = 0; i < STEPS; i++) {
        bool skipped = i + 1 == r->poisoned;
        if (reports[i].skipped != skipped || l->skipped[i] != skipped)
            fail_msg("%s: step %d is %sskipped, in the loop %sskipped", what, i + 1,
                     reports[i].skipped ? "" : "not ", l->skipped[i] ? "" : "not ");
        bool same = reports[i].norm == l->norm[i] || (r->alone && isnan(reports[i].norm));
        if (!skipped && (reports[i].loss != l->loss[i] || !same))
            fail_msg("%s: step %d has loss %.17g and norm %.17g, not %.17g and %.17g", what, i + 1,
                     reports[i].loss, reports[i].norm, l->loss[i], l->norm[i]);
    }
}

/* All copies of a tied parameter have the same bits. */
static void check_ties(const struct run *r, const struct sl_pipe *pipe, const char *what) {
    const struct sl_plan *plan = r->c->plan;
    for (int t = 0; t < plan->tie_count; t++) {
        const void *first = NULL;
        for (int i = 0; i < plan->ties[t].count; i++) {
            int stage = plan->ties[t].stages[i];
            const struct sl_worker *w = sl_pipe_worker(pipe, stage);
            const struct sl_program *p = w->programs[SL_WORKER_FULL];
            for (int k = 0; k < p->param_count; k++) {
                const char *name = r->c->graph->params.at[p->params[k].param].name;
                const void *at = sl_run_worker_weight(w, sl_pipe_newest(pipe, stage), k);
                if (strcmp(name, plan->ties[t].name) != 0)
                    continue;
                first = first ? first : at;
                if (memcmp(first, at, (size_t)plan->ties[t].bytes) != 0)
                    fail_msg("%s: the holders of %s have parted", what, name);
            }
        }
    }
}

/* The loop scales no loss; the pipeline may, by powers of two, which changes no bit. */
static struct sl_train_config scaled(const struct run *r) {
    static const char *const scales[] = {"none", "1024", "dynamic:start=64,every=1",
                                         "dynamic:start=1024,every=2"};
    struct sl_train_config config = r->config;
    int count = r->alone ? 2 : SL_COUNT(scales); /* the others need a common decision */
    int which =
        (int)((strlen(r->schedule) + strlen(config.optim.row->name) + (size_t)config.micros) %
              (size_t)count);
    assert_int_equal(sl_optim_loss_scale_parse(scales[which], &config.loss_scale), SL_OK);
    return config;
}

static void check(const struct run *r) {
    struct loop l = {.config = &r->config,
                     .global_step = !r->alone,
                     .stage_of = r->c->stage_of,
                     .stages = r->c->plan->stage_count,
                     .height = r->height};
    struct sl_train_config config = scaled(r);
    struct sl_pipe_config pc = {.train = &config,
                                .plan = r->c->plan,
                                .stage_of = r->c->stage_of,
                                .schedule = r->schedule,
                                .global_step = !r->alone};
    const struct loop_rule *rule = loop_rule_find(r->schedule);
    struct sl_pipe *pipe = NULL;
    struct sl_step_report reports[STEPS];
    char what[200];
    snprintf(what, sizeof what, "%s, %s, %s, %s, m = %lld, clip %g, poison %lld", r->c->graph->name,
             r->schedule, r->config.policy.row ? r->config.policy.row->name : "none",
             r->config.optim.row->name, (long long)r->config.micros, r->config.clip,
             (long long)r->poisoned);
    loop_open(&l);
    loop_run(&l, rule, 0, STEPS); /* a pause does not change the run */
    if (sl_pipe_open(&pc, &pipe) != SL_OK || sl_pipe_run(pipe, r->first_run, reports) != SL_OK ||
        (r->first_run < STEPS &&
         sl_pipe_run(pipe, STEPS - r->first_run, reports + r->first_run) != SL_OK))
        fail_msg("%s: %s", what, sl_err_message());
    check_reports(r, &l, reports, what);
    for (int s = 0; s < l.stages; s++) {
        const char *name = loop_difference(&l, pipe, s);
        if (name)
            fail_msg("%s: %s differs on stage %d", what, name, s);
    }
    check_ties(r, pipe, what);
    sl_pipe_close(pipe);
    loop_close(&l);
}

static const char *const schedules[] = {"2bw", "stash", "vsync", "paci"};
static const char *const rule_of[] = {"twobw", "stash", "vsync", "newest"};
static const char *const optimizers[] = {"momentum", "adamw", "muon", "nadam"};

/* Under a sanitizer only some combinations. */
static bool is_left_out(int number) {
    const char *preset = getenv("SL_PRESET");
    return preset && strcmp(preset, "release") != 0 && number % 7 != 0;
}

/* Every schedule, with no policy and with those that serve it; clipping in effect. */
static int check_all(struct run *r, int salt) {
    static const double clips[] = {0, 0.05};
    int count = 0;
    for (int s = 0; s < SL_COUNT(schedules); s++)
        for (int p = 0; p < sl_optim_policy_count; p++)
            for (int o = 0; o < SL_COUNT(optimizers); o++) {
                assert_int_equal(
                    sl_optim_policy_parse(sl_optim_policies[p]->name, &r->config.policy), SL_OK);
                assert_int_equal(sl_optim_parse(optimizers[o], &r->config.optim), SL_OK);
                int number = salt + 5 * s + 3 * p + o;
                if (sl_optim_policy_serves(&r->config.policy, rule_of[s], &r->config.optim) !=
                        SL_OK ||
                    is_left_out(number))
                    continue;
                r->schedule = schedules[s];
                r->config.clip = clips[number % 2];
                r->first_run = number % 3 ? STEPS : 3;
                check(r);
                count++;
            }
    return count;
}

static const struct {
    const char *model;
    int stages, height[5], worker_of[5];
    bool by_name;
    int64_t batch, micros;
} cases[] = {
    {pipe_model_gpt, 4, {3, 2, 1, 0}, {0, 1, 2, 3}, false, 4, 1}, /* tied */
    {pipe_model_gpt, 4, {3, 2, 1, 0}, {0, 1, 2, 3}, false, 9, 3},
    {pipe_model_gpt, 4, {3, 2, 1, 0}, {0, 1, 2, 3}, false, 6, 6},
    {pipe_model_diamond, 5, {3, 2, 1, 1, 0}, {0, 1, 2, 3, 4}, true, 6, 3},
    {pipe_model_diamond, 5, {3, 2, 1, 1, 0}, {0, 1, 1, 2, 2}, true, 5, 5},
    {pipe_model_branches, 4, {2, 1, 1, 0}, {0, 1, 2, 3}, true, 4, 2},
};

static void test_clip(void **state) {
    (void)state;
    int count = 0;
    for (int i = 0; i < SL_COUNT(cases); i++) {
        struct pipe_case c;
        pipe_case_open(&c, cases[i].model);
        struct run r = {.c = &c, .height = cases[i].height};
        r.config = pipe_case_config(&c, "adam", cases[i].batch, cases[i].micros, STEPS);
        if (cases[i].by_name)
            pipe_case_cut_by_name(&c, &r.config, cases[i].stages, cases[i].worker_of);
        else
            pipe_case_cut(&c, &r.config, cases[i].stages, cases[i].worker_of);
        count += check_all(&r, i);
        pipe_case_close(&c);
    }
    printf("count: %d runs on one verdict are the formulas, bit for bit\n", count);
}

/* ---- poison: one gradient is not finite, of one stage and one micro-batch ---- */

enum { COLUMNS = 160, SAMPLE_ROOM = 64 };

/* A chain, or s0 > s1, s2 > s3. The poisoned stage multiplies a parameter that stays zero (its
 * input is zero) by a huge factor in one sample: forward 0, gradient infinite. The threshold is a
 * parameter whose gradient is always zero. */
static void write_model(struct sl_text *out, bool chain, int stage, int column, double over,
                        double huge) {
    static const char *const in[2][STAGES] = {{"x", "a", "a", ""}, {"x", "a", "b", "c"}};
    static const char *const name[] = {"a", "b", "c", "d"};
    sl_text_printf(out,
                   "model poison\ninput x : float[B, %d]\ninput label : int[B] < 4\n"
                   "param s%d_p[%d] ~ zeros\nparam s%d_c[1] ~ const(%.17g)\n",
                   COLUMNS, stage, stage == 3 ? 4 : 6, stage, over);
    for (int s = 0; s < STAGES; s++) {
        int from = s == 0 ? COLUMNS : s == 3 && !chain ? 12 : 6;
        sl_text_printf(out, "param s%d_w[%d, %d] ~ normal(%g)\n", s, s == 3 ? 4 : 6, from,
                       s ? 0.3 : 0.08);
        if (s == 3 && !chain)
            sl_text_put(out, "j = concat([b, c], axis = 1)\n");
        sl_text_printf(out, "%s%s = matmul(%s, s%d_w, tb = 1)\n", name[s], s == stage ? "_" : "",
                       s == 3 && !chain ? "j" : in[chain][s], s);
        if (s != stage)
            continue;
        sl_text_printf(out,
                       "p = relu(slice(x, 1, %d, %d) - s%d_c) * %.9g\n"
                       "%s = %s_ + (p * s%d_p) * 100000000000000000000.0\n",
                       column, column + 1, s, huge, name[s], name[s], s);
    }
    sl_text_put(out, "loss cross_entropy(d, label)\n");
}

/* Finds a column of the data in which this sample has the largest value, the middle between that
 * and the second largest, and a factor that makes their difference nearly infinite. */
static bool find_column(const struct pipe_case *c, int64_t samples, int64_t target, int *column,
                        double *over, double *huge) {
    float data[SAMPLE_ROOM * COLUMNS];
    assert_true(samples <= SAMPLE_ROOM);
    assert_int_equal(sl_data_fill(c->data, SL_DATA_TRAIN, 0, samples, 0, data), SL_OK);
    for (*column = 0; *column < COLUMNS; ++*column) {
        double own = (double)data[target * COLUMNS + *column], second = -1e30;
        for (int64_t i = 0; i < samples; i++)
            if (i != target && (double)data[i * COLUMNS + *column] > second)
                second = (double)data[i * COLUMNS + *column];
        *over = (own + second) / 2;
        *huge = 1e35 / (own - *over);
        if (own > second + 0.01)
            return true;
    }
    return false;
}

static void poison_one(bool chain, int stage, int64_t m, int64_t micro, const char *schedule,
                       const char *policy, const char *optimizer) {
    static const int heights[2][STAGES] = {{2, 1, 1, 0}, {3, 2, 1, 0}};
    struct pipe_case c;
    struct sl_text model = {0};
    int column;
    double over, huge;
    int64_t batch = 2 * m;
    write_model(&model, chain, stage, 0, 1e30, 1); /* the data do not depend on these numbers */
    pipe_case_open(&c, model.at);
    bool found = find_column(&c, STEPS * batch, 2 * micro, &column, &over, &huge) ||
                 find_column(&c, STEPS * batch, 2 * micro + 1, &column, &over, &huge);
    pipe_case_close(&c);
    sl_text_free(&model);
    if (!found)
        fail_msg("no column has its largest value in micro-batch %lld", (long long)micro);
    model = (struct sl_text){0};
    write_model(&model, chain, stage, column, over, huge);
    pipe_case_open(&c, model.at);
    struct run r = {.c = &c,
                    .height = heights[chain],
                    .schedule = schedule,
                    .first_run = STEPS,
                    .poisoned = micro / m + 1};
    r.config = pipe_case_config(&c, optimizer, batch, m, STEPS);
    r.config.clip = 1;
    assert_int_equal(sl_optim_policy_parse(policy, &r.config.policy), SL_OK);
    pipe_case_cut_by_name(&c, &r.config, STAGES, NULL);
    check(&r);
    pipe_case_close(&c);
    sl_text_free(&model);
}

static void test_poison(void **state) {
    (void)state;
    static const struct {
        const char *schedule, *policy, *optimizer;
    } modes[] = {{"2bw", "none", "adamw"},
                 {"2bw", "2bw-predict", "adam"},
                 {"2bw", "error-feedback", "momentum"},
                 {"stash", "none", "adamw"},
                 {"vsync", "none", "momentum"},
                 {"paci", "none", "adam"},
                 {"async", "spectrain", "adamw"},
                 {"async", "xpipe", "momentum"},
                 {"async", "pipemare", "adam"}};
    const char *full = getenv("SL_TEST_FULL");
    int count = 0, every = full && strcmp(full, "1") == 0 ? 1 : 4, number = 0;
    for (int chain = 0; chain < 2; chain++)
        for (int stage = 0; stage < STAGES; stage++)
            for (int mode = 0; mode < SL_COUNT(modes); mode++)
                for (int64_t micro = 0; micro < 15;
                     micro += every == 1 ? 1 : 1 + (mode + stage) % 3) {
                    if (number++ % every || is_left_out(number))
                        continue;
                    count++;
                    poison_one(chain, stage, 3, micro, modes[mode].schedule, modes[mode].policy,
                               modes[mode].optimizer);
                }
    printf("count: %d runs with a gradient that is not finite\n", count);
}

/* Twelve stages that step after every micro-batch: the last stage has sent its parts of nine steps
 * before it makes the first. The copies of a parameter tied between both ends must stay equal. */
static void test_deep(void **state) {
    (void)state;
    enum { DEEP = 12, LONG = 30 };
    static const char *const deep[] = {"async", "stash", "vsync"};
    for (int i = 0; i < SL_COUNT(deep); i++) {
        struct pipe_case c;
        struct sl_pipe *pipe;
        struct sl_step_report reports[LONG];
        pipe_case_open_zoo(&c, "gpt-nano", "L=6,C=6,H=1,T=4,P=4,V=17");
        struct run r = {.c = &c};
        r.config = pipe_case_config(&c, "momentum", 2, 1, LONG);
        r.config.clip = 0.05;
        pipe_case_cut(&c, &r.config, DEEP, NULL);
        assert_int_equal(c.plan->tie_count, 1);
        struct sl_pipe_config pc = {.train = &r.config,
                                    .plan = c.plan,
                                    .stage_of = c.stage_of,
                                    .schedule = deep[i],
                                    .global_step = true};
        if (sl_pipe_open(&pc, &pipe) != SL_OK || sl_pipe_run(pipe, LONG, reports) != SL_OK)
            fail_msg("%s: %s", deep[i], sl_err_message());
        assert_true(sl_pipe_worker(pipe, DEEP - 1)->grad_slots > 8);
        check_ties(&r, pipe, deep[i]);
        sl_pipe_close(pipe);
        pipe_case_close(&c);
    }
}

/* Stage by stage: every stage clips by its own norm, the tied parameter by that of its own gradient,
 * so that its holders stay equal. */
static void test_alone(void **state) {
    (void)state;
    static const double clips[] = {0.05, 1};
    for (int s = 0; s < SL_COUNT(schedules); s++)
        for (int i = 0; i < SL_COUNT(clips); i++) {
            struct pipe_case c;
            pipe_case_open(&c, pipe_model_gpt);
            struct run r = {.c = &c,
                            .height = cases[0].height,
                            .schedule = schedules[s],
                            .first_run = STEPS,
                            .alone = true};
            r.config = pipe_case_config(&c, "adam", 4, 2, STEPS);
            r.config.clip = clips[i];
            pipe_case_cut(&c, &r.config, 4, NULL);
            check(&r);
            pipe_case_close(&c);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clip),
        cmocka_unit_test(test_poison),
        cmocka_unit_test(test_deep),
        cmocka_unit_test(test_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
