/* Asynchronous schedules against a plain loop (support/async_loop.h), bit for bit. On threads and
 * over ranks (tests/e2e/mpi_models_release.sh), where each rank compares its own stages. */
#include "support/async_loop.h"
#include "support/pipe_models.h"
#include "support/ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = LOOP_STEPS };

struct cut {
    const struct pipe_case *c;
    const struct sl_train_config *config;
    const int *height;
};

/* Does a stage differ from the loop, on any rank? */
static int check_rule(const struct cut *cut, const struct loop_rule *rule, int64_t first_run,
                      const char *schedule, bool expect) {
    struct loop l = {.config = cut->config,
                     .stage_of = cut->c->stage_of,
                     .stages = cut->c->plan->stage_count,
                     .height = cut->height};
    struct sl_pipe_config pc = {.train = cut->config,
                                .plan = cut->c->plan,
                                .stage_of = cut->c->stage_of,
                                .schedule = schedule,
                                .comm = ranks_comm(),
                                .stall_ns = ranks_stall_ns};
    struct sl_pipe *pipe = NULL;
    struct sl_step_report reports[STEPS];
    char what[160];
    snprintf(what, sizeof what,
             "%s %s %s, %d stages on %d workers, m = %lld, runs of %lld and %lld",
             cut->c->graph->name, schedule, cut->config->optim.row->name, l.stages,
             cut->c->plan->worker_count, (long long)cut->config->micros, (long long)first_run,
             (long long)(STEPS - first_run));
    for (int s = 0; s < l.stages; s++) /* the cut is the one drawn above */
        assert_int_equal(cut->c->plan->stages[s].height, cut->height[s]);
    loop_open(&l);
    loop_run(&l, rule, 0, STEPS); /* a pause does not change the run */
    if (sl_pipe_open(&pc, &pipe) != SL_OK || sl_pipe_run(pipe, first_run, reports) != SL_OK)
        fail_msg("%s: %s", what, sl_err_message());
    if (first_run < STEPS) {
        if (sl_pipe_run(pipe, STEPS - first_run, reports + first_run) != SL_OK)
            fail_msg("%s: %s", what, sl_err_message());
    }
    int wrong = 0;
    int64_t cpu_ns = 0;
    for (int s = 0; s < l.stages; s++) {
        const char *name = sl_pipe_worker(pipe, s) ? loop_difference(&l, pipe, s) : NULL;
        if (name && expect)
            fail_msg("%s: %s differs on stage %d", what, name, s);
        wrong += name != NULL;
    }
    for (int i = 0; expect && i < STEPS; i++)
        if (reports[i].loss != l.loss[i])
            fail_msg("%s: loss of step %d is %.17g, not %.17g", what, i + 1, reports[i].loss,
                     l.loss[i]);
        else
            cpu_ns += reports[i].cpu_ns;
    if (expect && cpu_ns <= 0)
        fail_msg("%s: took no processor time", what);
    if (ranks_comm() && sl_comm_merge(ranks_comm(), &wrong, sizeof wrong) != SL_OK)
        fail_msg("%s: %s", what, sl_err_message());
    sl_pipe_close(pipe);
    loop_close(&l);
    return wrong;
}

static const char *const optimizers[] = {"sgd", "momentum", "adam", "adamw"};
static const int64_t batches[] = {3, 4, 6, 11}, micros[] = {1, 2, 6, 4};

/* Under a sanitizer every optimizer runs one batch instead of all; over ranks there is one. */
static bool is_left_out(int optimizer, int batch) {
    const char *preset = getenv("SL_PRESET");
    bool sanitized = preset && strcmp(preset, "release") != 0;
    return (sanitized && (optimizer + batch) % SL_COUNT(batches) != 0) ||
           (ranks_short() && (optimizer != 2 || batch != 1));
}

static int check_all(const struct cut *cut) {
    int count = 0;
    for (int r = 0; r < loop_rule_count; r++, count += 2) {
        check_rule(cut, &loop_rules[r], STEPS, loop_rules[r].schedule, true);
        check_rule(cut, &loop_rules[r], 3, loop_rules[r].schedule, true);
        ranks_renew();
    }
    return count;
}

/* ---- chains ---- */

static void test_chains(void **state) {
    (void)state;
    static const char *const models[] = {pipe_model_gpt, pipe_model_image};
    static const int heights[] = {3, 2, 1, 0};
    int count = 0;
    for (int i = 0; i < SL_COUNT(models); i++) {
        struct pipe_case c;
        pipe_case_open(&c, models[i]);
        for (int o = 0; o < SL_COUNT(optimizers); o++)
            for (int b = 0; b < SL_COUNT(batches); b++) {
                if (is_left_out(o, b))
                    continue;
                struct sl_train_config config =
                    pipe_case_config(&c, optimizers[o], batches[b], micros[b], STEPS);
                for (int p = 2; p <= 4; p++) {
                    if (!ranks_fit(p) || (ranks_short() && p != 3))
                        continue;
                    pipe_case_cut(&c, &config, p, NULL);
                    struct cut cut = {&c, &config, heights + 4 - p};
                    count += check_all(&cut);
                }
            }
        pipe_case_close(&c);
    }
    printf("count: %d runs of asynchronous chains are the formulas, bit for bit%s\n", count,
           ranks_text());
}

/* ---- graphs of stages ---- */

static void test_graphs(void **state) {
    (void)state;
    static const struct {
        const char *model;
        int stages, height[5], worker_of[5];
    } cases[] = {
        {pipe_model_bare, 4, {2, 2, 1, 0}, {0, 1, 2, 3}},
        {pipe_model_branches, 4, {2, 1, 1, 0}, {0, 1, 2, 3}},
        {pipe_model_branches, 4, {2, 1, 1, 0}, {0, 0, 1, 1}},
        {pipe_model_branches, 4, {2, 1, 1, 0}, {0, 1, 2, 2}},
        {pipe_model_diamond, 5, {3, 2, 1, 1, 0}, {0, 1, 2, 3, 4}},
        {pipe_model_diamond, 5, {3, 2, 1, 1, 0}, {0, 1, 1, 2, 2}},
    };
    int count = 0;
    for (int i = 0; i < SL_COUNT(cases); i++) {
        struct pipe_case c;
        pipe_case_open(&c, cases[i].model);
        for (int o = 0; o < SL_COUNT(optimizers); o++)
            for (int b = 0; b < SL_COUNT(batches); b++) {
                if (is_left_out(o, b))
                    continue;
                struct sl_train_config config =
                    pipe_case_config(&c, optimizers[o], batches[b], micros[b], STEPS);
                pipe_case_cut_by_name(&c, &config, cases[i].stages, cases[i].worker_of);
                struct cut cut = {&c, &config, cases[i].height};
                if (ranks_fit(c.plan->worker_count) && !(ranks_short() && i != 3))
                    count += check_all(&cut);
            }
        pipe_case_close(&c);
    }
    printf("count: %d runs of asynchronous graphs of stages are the formulas, bit for bit%s\n",
           count, ranks_text());
}

/* Sabotage: where two version rules differ, the wrong rule is detected. */
static void test_wrong_formulas(void **state) {
    (void)state;
    static const int heights[] = {3, 2, 1, 0};
    struct pipe_case c;
    int count = 0;
    pipe_case_open(&c, pipe_model_gpt);
    struct sl_train_config config = pipe_case_config(&c, "adam", 4, 2, STEPS);
    pipe_case_cut(&c, &config, 4, NULL);
    struct cut cut = {&c, &config, heights};
    for (int a = 0; a < loop_rule_count; a++)
        for (int b = 0; b < loop_rule_count; b++) {
            if (ranks_short() && (a + b) % 5 != 0)
                continue;
            if (loop_rules[a].forward == loop_rules[b].forward &&
                loop_rules[a].backward == loop_rules[b].backward)
                continue;
            if (check_rule(&cut, &loop_rules[a], STEPS, loop_rules[b].schedule, false) == 0)
                fail_msg("%s runs as %s", loop_rules[b].schedule, loop_rules[a].schedule);
            count++;
        }
    pipe_case_close(&c);
    printf("count: %d wrong formulas noticed%s\n", count, ranks_text());
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_chains),
                                       cmocka_unit_test(test_wrong_formulas),
                                       cmocka_unit_test(test_graphs)};
    ranks_open();
    return ranks_close(cmocka_run_group_tests(tests, NULL, NULL));
}
