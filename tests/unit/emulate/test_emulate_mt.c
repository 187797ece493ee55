/* An emulation against the pipeline that it emulates, bit for bit: random models, cuts, schedules,
 * policies, optimizers, micro-batches, clipping, loss scales and gradients that are not finite. */
#include "emulate/emulate.h"
#include "support/pipe_case.h"
#include "support/pipe_models.h"
#include "support/sched_cases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONFIGS = 300, STEPS_MAX = 16 };

/* Makes the gradient of one parameter not finite in one step. A parameter with several holders is left
 * alone: the holders are shown their copies at different times. */
struct poison {
    int64_t param, step; /* -1: none; from 1 */
    const struct sl_graph *graph;
    int64_t seen; /* written by one thread */
};

static sl_err see(void *ctx, const struct sl_param *param, float *gradient, int64_t count) {
    struct poison *p = ctx;
    if (p->param < 0 || strcmp(param->name, p->graph->params.at[p->param].name) != 0)
        return SL_OK;
    if (++p->seen == p->step && count)
        gradient[count / 2] = p->step % 2 ? NAN : INFINITY;
    return SL_OK;
}

struct setup {
    struct pipe_case c;
    struct sl_train_config config;
    struct sl_pipe_config pc;
    struct poison poison, emulated_poison;
    struct sl_grad_watch watch, emulated_watch;
    struct sl_train_config emulated; /* `config` with the emulation's own counts */
    int64_t first_run;
    char what[400];
};

static const char *const schedules[] = {"2bw", "async", "stash", "vsync", "paci", "1f1b", "gpipe"};

/* A model with a random cut. */
static bool draw_model(struct setup *s, struct dice *dice) {
    static const char *const texts[] = {pipe_model_gpt, pipe_model_image, pipe_model_branches,
                                        pipe_model_diamond, pipe_model_bare};
    int which = (int)dice_below(dice, SL_COUNT(texts) + 2), worker_of[16];
    if (which < SL_COUNT(texts))
        pipe_case_open(&s->c, texts[which]);
    else
        pipe_case_open_zoo(&s->c, "gpt-nano", "L=4,C=8,H=2,T=4,P=4,V=17");
    int stages = 1 + (int)dice_below(dice, 8), workers = 1 + (int)dice_below(dice, stages);
    bool shared = dice_below(dice, 4) == 0;
    int64_t micros = 1 + dice_below(dice, 6), batch = micros * (1 + dice_below(dice, 3));
    int64_t less = batch / micros > 1 ? dice_below(dice, batch / micros) : 0;
    s->config =
        pipe_case_config(&s->c, "adamw", batch - less, micros, 3 + dice_below(dice, STEPS_MAX - 2));
    s->config.eval_graph = s->c.eval_graph;
    s->config.eval_every = s->c.eval_graph ? 2 : 0;
    s->config.eval_samples = 2 * (batch / micros);
    for (int i = 0; i < stages; i++)
        worker_of[i] = shared ? i % workers : i;
    return pipe_case_cut_random(&s->c, &s->config, stages, worker_of,
                                (uint64_t)dice_below(dice, 1 << 20));
}

static void draw_rest(struct setup *s, struct dice *dice) {
    static const double clips[] = {0, 0.05, 1}, rates[] = {0.01, 0.01, 0.3, 1e30};
    static const char *const scales[] = {"none", "none", "1024", "dynamic:start=64,every=1",
                                         "dynamic:start=1024,every=2"};
    const char *policy = "none";
    if (dice_below(dice, 4))
        policy = sl_optim_policies[dice_below(dice, sl_optim_policy_count)]->name;
    const char *optimizer = sl_optim_rows[dice_below(dice, sl_optim_row_count)]->name;
    const char *scale = scales[dice_below(dice, SL_COUNT(scales))];
    assert_int_equal(sl_optim_policy_parse(policy, &s->config.policy), SL_OK);
    assert_int_equal(sl_optim_parse(optimizer, &s->config.optim), SL_OK);
    assert_int_equal(sl_optim_loss_scale_parse(scale, &s->config.loss_scale), SL_OK);
    s->config.clip = clips[dice_below(dice, SL_COUNT(clips))];
    s->config.base_lr = rates[dice_below(dice, SL_COUNT(rates))];
    s->poison = (struct poison){.param = -1, .graph = s->c.graph};
    if (dice_below(dice, 3) == 0) {
        s->poison.param = dice_below(dice, s->c.graph->params.count);
        s->poison.step = 1 + dice_below(dice, s->config.steps);
    }
    for (int t = 0; s->poison.param >= 0 && t < s->c.plan->tie_count; t++)
        if (strcmp(s->c.plan->ties[t].name, s->c.graph->params.at[s->poison.param].name) == 0)
            s->poison.param = -1;
    s->watch = (struct sl_grad_watch){.ctx = &s->poison, .see = see};
    s->config.grads = &s->watch;
    s->pc = (struct sl_pipe_config){.train = &s->config,
                                    .stage_of = s->c.stage_of,
                                    .schedule = schedules[dice_below(dice, SL_COUNT(schedules))],
                                    .slack = dice_below(dice, 3) == 0,
                                    .global_step = dice_below(dice, 2)};
    s->first_run = 1 + dice_below(dice, s->config.steps);
    if (s->c.plan->worker_count < s->c.plan->stage_count ||
        (s->pc.global_step && s->config.micros == 1)) /* it cannot pause everywhere */
        s->first_run = s->config.steps;
    snprintf(s->what, sizeof s->what,
             "%s, %d stages on %d workers, %s, slack %lld, %s, %s, m = %lld, batch %lld, clip %g "
             "%s, lr %g, scale %s, poison %lld in step %lld, runs of %lld and %lld",
             s->c.graph->name, s->c.plan->stage_count, s->c.plan->worker_count, s->pc.schedule,
             (long long)s->pc.slack, policy, optimizer, (long long)s->config.micros,
             (long long)s->config.batch, s->config.clip, s->pc.global_step ? "global" : "stage",
             s->config.base_lr, scale, (long long)s->poison.param, (long long)s->poison.step,
             (long long)s->first_run, (long long)(s->config.steps - s->first_run));
}

/* The plan depends on optimizer and policy. */
static void plan_again(struct setup *s) {
    int worker_of[16];
    for (int i = 0; i < s->c.plan->stage_count; i++)
        worker_of[i] = s->c.plan->stages[i].workers[0];
    pipe_case_plan(&s->c, &s->config, s->c.plan->stage_count, worker_of);
    s->pc.plan = s->c.plan;
}

/* ---- comparing ---- */

static bool same_bits(double a, double b) { return memcmp(&a, &b, sizeof a) == 0; }

static void check_report(const struct setup *s, const struct sl_step_report *want,
                         const struct sl_step_report *got) {
    bool norms = same_bits(want->norm, got->norm) || (isnan(want->norm) && isnan(got->norm));
    bool losses = same_bits(want->loss, got->loss) || (isnan(want->loss) && isnan(got->loss));
    if (want->step != got->step || !losses || !norms || want->skipped != got->skipped ||
        !same_bits(want->lr, got->lr) || !same_bits(want->loss_scale, got->loss_scale) ||
        want->samples != got->samples)
        fail_msg("%s: step %lld has loss %.17g, norm %.17g, scale %g, skipped %d; emulated: step "
                 "%lld, loss %.17g, norm %.17g, scale %g, skipped %d",
                 s->what, (long long)want->step, want->loss, want->norm, want->loss_scale,
                 want->skipped, (long long)got->step, got->loss, got->norm, got->loss_scale,
                 got->skipped);
}

static const float *row_of(const struct sl_worker *w, void *slab, int index, bool state) {
    const struct sl_program *p = w->programs[SL_WORKER_FULL];
    const struct sl_program_param *at = sl_run_worker_find(
        state ? p->states : p->params, state ? p->state_count : p->param_count, index);
    return at ? (const float *)(const void *)((char *)slab + at->offset) : NULL;
}

static void check_tensor(const struct setup *s, const char *what, const float *want,
                         const float *got, int64_t count) {
    assert_non_null(got);
    for (int64_t i = 0; i < count; i++)
        if (memcmp(&want[i], &got[i], sizeof *want) != 0 && !(isnan(want[i]) && isnan(got[i])))
            fail_msg("%s: element %lld of %s is %.9g, emulated %.9g", s->what, (long long)i, what,
                     (double)want[i], (double)got[i]);
}

/* Running statistics only at the end: a pipeline that pauses has run forward passes of later steps. */
static void check_weights(const struct setup *s, const struct sl_pipe *pipe,
                          const struct sl_emulate *emulate, bool end) {
    const struct sl_worker *one = sl_emulate_worker(emulate);
    for (int stage = 0; stage < s->c.plan->stage_count; stage++) {
        const struct sl_worker *w = sl_pipe_worker(pipe, stage);
        const struct sl_program *p = w->programs[SL_WORKER_FULL];
        for (int i = 0; i < p->param_count; i++) {
            int index = p->params[i].param;
            const char *name = s->c.graph->params.at[index].name;
            check_tensor(s, name, sl_run_worker_weight(w, sl_pipe_newest(pipe, stage), i),
                         row_of(one, one->param[0], index, false), p->params[i].numel);
            for (int o = 0; o < w->state_count; o++)
                check_tensor(s, name, sl_run_worker_opt(w, o, i),
                             row_of(one, one->opt[o], index, false), p->params[i].numel);
        }
        for (int i = 0; end && i < p->state_count; i++) {
            int index = p->states[i].param;
            check_tensor(s, s->c.graph->states.at[index].name, row_of(w, w->state, index, true),
                         row_of(one, one->state, index, true), p->states[i].numel);
        }
    }
}

static void check_eval(const struct setup *s, struct sl_pipe *pipe, struct sl_emulate *emulate) {
    struct sl_runner runner = sl_emulate_runner(emulate);
    struct sl_eval_report want, got;
    if (!s->config.eval_graph)
        return;
    if (sl_pipe_eval(pipe, &want) != SL_OK || runner.row->eval(runner.ctx, &got) != SL_OK)
        fail_msg("%s: %s", s->what, sl_err_message());
    if (!same_bits(want.loss, got.loss) && !(isnan(want.loss) && isnan(got.loss)))
        fail_msg("%s: evaluation gives %.17g, emulated %.17g", s->what, want.loss, got.loss);
}

static void run_both(struct setup *s, struct sl_pipe *pipe, struct sl_emulate *emulate) {
    struct sl_step_report want[STEPS_MAX + 3], got;
    int64_t steps = s->config.steps, cut = s->first_run;
    for (int64_t from = 0, to = cut; from < steps; from = to, to = steps) {
        if (sl_pipe_run(pipe, to - from, want) != SL_OK)
            fail_msg("%s: %s", s->what, sl_err_message());
        for (int64_t i = from; i < to; i++) {
            if (sl_emulate_step(emulate, &got) != SL_OK)
                fail_msg("%s: emulated: %s", s->what, sl_err_message());
            check_report(s, &want[i - from], &got);
        }
        check_weights(s, pipe, emulate, to == steps);
        check_eval(s, pipe, emulate);
    }
}

/* Returns false if there is no such pipeline. */
static bool run_one(struct dice *dice) {
    struct setup s = {0};
    struct sl_pipe *pipe = NULL;
    struct sl_emulate *emulate = NULL;
    bool drawn = draw_model(&s, dice);
    if (drawn) {
        draw_rest(&s, dice);
        plan_again(&s);
        drawn = sl_pipe_open(&s.pc, &pipe) == SL_OK;
    }
    if (drawn) {
        struct sl_pipe_config pc = s.pc;
        s.emulated = s.config;
        s.emulated_poison = s.poison;
        s.emulated_watch = (struct sl_grad_watch){.ctx = &s.emulated_poison, .see = see};
        s.emulated.grads = &s.emulated_watch;
        pc.train = &s.emulated;
        if (sl_emulate_open(&pc, &emulate) != SL_OK)
            fail_msg("%s: the pipeline can run, the emulation not: %s", s.what, sl_err_message());
        run_both(&s, pipe, emulate);
    }
    sl_pipe_close(pipe);
    sl_emulate_close(emulate);
    pipe_case_close(&s.c);
    return drawn;
}

static void test_random(void **state) {
    (void)state;
    int64_t count = test_count(CONFIGS), done = 0;
    for (uint64_t i = 0; done < count; i++) {
        struct dice dice = {.seed = 30, .stream = i};
        done += run_one(&dice);
        assert_true(i < 20 * (uint64_t)CONFIGS);
    }
    printf("count: %lld emulations have the bits of their pipelines\n", (long long)done);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
