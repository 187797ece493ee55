/* --log-staleness against the plain loop (support/async_loop.h), which keeps all versions: every
 * logged distance is that of the two versions it names, and every stage logs in every step. */
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

enum { STEPS = LOOP_STEPS };

struct mode {
    const char *schedule, *policy;
    int64_t micros, first_run;
    bool global_step;
};

/* Root mean square of the difference of two versions of a stage's weights. */
static double distance(const struct loop *l, int s, int64_t a, int64_t b) {
    const struct sl_worker *w = l->worker[s];
    const struct sl_program *p = w->programs[SL_WORKER_FULL];
    double sum = 0, count = 0;
    for (int i = 0; i < p->param_count; i++) {
        const float *x = sl_run_worker_weight(w, (int)a, i),
                    *y = sl_run_worker_weight(w, (int)b, i);
        for (int64_t e = 0; e < p->params[i].numel; e++) {
            double d = (double)x[e] - (double)y[e];
            sum += d * d;
            count++;
        }
    }
    return count > 0 ? sqrt(sum / count) : 0;
}

/* Does a pass of this iteration read an older version than the one its gradient is applied to? */
static bool is_behind(const struct loop *l, const struct mode *m, int s, bool backward,
                      int64_t iter) {
    const struct loop_rule *rule = loop_rule_find(m->schedule);
    struct loop_at at = {
        .m = m->micros, .f = l->height[s] + 1, .entry_f = l->height[0] + 1, .w = 1, .entry_w = 1};
    for (at.k = iter * m->micros + 1; at.k <= (iter + 1) * m->micros; at.k++)
        if ((backward ? rule->backward(at) : rule->forward(at)) < iter)
            return true;
    return false;
}

static void check_told(const struct loop *l, const struct mode *m, const struct sl_staleness *at,
                       int64_t count, const char *what) {
    int64_t last[LOOP_STAGES][2] = {{0}};
    for (int64_t i = 0; i < count; i++) {
        const struct sl_staleness *t = &at[i];
        double want = distance(l, t->stage, t->base, t->step);
        if (t->base + t->ahead != t->step || t->ahead < 1)
            fail_msg("%s: %lld + %d is not %lld", what, (long long)t->base, t->ahead,
                     (long long)t->step);
        if (fabs(t->stale - want) > 1e-12 * want) /* the same sum, in double */
            fail_msg("%s: stage %d, %lld to %lld: %.17g, not %.17g", what, t->stage,
                     (long long)t->base, (long long)t->step, t->stale, want);
        if (!t->predicts && t->predicted != t->stale)
            fail_msg("%s: nothing is predicted", what);
        if (t->step <= last[t->stage][t->backward])
            fail_msg("%s: step %lld is told twice", what, (long long)t->step);
        last[t->stage][t->backward] = t->step;
    }
    /* One prediction may serve both directions, or none be needed backwards. */
    const struct sl_policy *row = l->config->policy.row;
    for (int s = 0; s < l->stages && m->first_run == STEPS; s++)
        for (int d = 0; d < (row && row->ahead ? 1 : 2); d++)
            if (is_behind(l, m, s, d, STEPS - 1) && last[s][d] < STEPS - 1)
                fail_msg("%s: stage %d, direction %d is silent after step %lld", what, s, d,
                         (long long)last[s][d]);
}

static int64_t watch(const struct mode *m) {
    static const int height[] = {3, 2, 1, 0};
    struct pipe_case c;
    struct sl_pipe *pipe;
    struct sl_staleness *told;
    struct sl_step_report reports[STEPS];
    char what[100];
    snprintf(what, sizeof what, "%s, %s, m = %lld, together %d, first run of %lld", m->schedule,
             m->policy, (long long)m->micros, m->global_step, (long long)m->first_run);
    pipe_case_open(&c, pipe_model_gpt);
    struct sl_train_config config = pipe_case_config(&c, "adam", 2 * m->micros, m->micros, STEPS);
    assert_int_equal(sl_optim_policy_parse(m->policy, &config.policy), SL_OK);
    pipe_case_cut(&c, &config, 4, NULL);
    struct loop l = {.config = &config,
                     .global_step = m->global_step,
                     .stage_of = c.stage_of,
                     .stages = 4,
                     .height = height};
    struct sl_pipe_config pc = {.train = &config,
                                .plan = c.plan,
                                .stage_of = c.stage_of,
                                .schedule = m->schedule,
                                .global_step = m->global_step,
                                .staleness = true};
    loop_open(&l);
    loop_run(&l, loop_rule_find(m->schedule), 0, STEPS); /* a pause does not change the run */
    if (sl_pipe_open(&pc, &pipe) != SL_OK)
        fail_msg("%s: %s", what, sl_err_message());
    for (int64_t from = 0, steps = m->first_run; from < STEPS;
         from += steps, steps = STEPS - from) {
        assert_int_equal(sl_pipe_run(pipe, steps, reports), SL_OK);
    }
    int64_t count;
    assert_int_equal(sl_pipe_take_staleness(pipe, &told, &count), SL_OK);
    check_told(&l, m, told, count, what);
    free(told);
    sl_pipe_close(pipe);
    loop_close(&l);
    pipe_case_close(&c);
    return count;
}

static void test_told(void **state) {
    (void)state;
    static const char *const modes[][2] = {
        {"2bw", "none"},        {"2bw", "error-feedback"}, {"2bw", "2bw-predict"},
        {"stash", "none"},      {"vsync", "none"},         {"paci", "none"},
        {"async", "pipeoptim"}, {"async", "spectrain"},    {"async", "pipemare"}};
    int64_t count = 0;
    for (int i = 0; i < SL_COUNT(modes); i++)
        for (int global_step = 0; global_step < 2; global_step++)
            for (int64_t first = 3; first <= STEPS; first += 3) {
                struct mode m = {modes[i][0], modes[i][1], 4, first, global_step};
                count += watch(&m);
            }
    printf("count: %lld distances are those of the versions they name\n", (long long)count);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_told)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
