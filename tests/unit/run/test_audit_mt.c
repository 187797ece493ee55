/* The audit repeats actions and compares the bits. Healthy runs do not change. If one bit flips
 * after an instruction, a full audit finds every flip that changes an update; an audit of one in N
 * finds one in N. */
#include "base/hash.h"
#include "base/rng.h"
#include "run/audit.h"
#include "support/data_files.h"
#include "support/pipe_case.h"
#include "support/pipe_models.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BATCH = 6, MICROS = 3, STAGES = 3, STEPS = 2 };

/* Flips one bit behind the n-th instruction or action. */
struct flip {
    struct sl_train *train; /* of the norms that a flip may hit */
    int64_t at, seen;       /* -1: none */
    uint64_t seed;
};

static void flip_in(struct flip *f, void *memory, int64_t size_bytes) {
    if (size_bytes <= 0)
        return;
    int64_t bit = sl_rng_below(f->seed, 1, (uint64_t)f->at, 8 * size_bytes);
    ((uint8_t *)memory)[bit / 8] ^= (uint8_t)(1 << bit % 8);
}

static void flip_after(void *ctx, struct sl_worker *w, const struct sl_audited *audited,
                       const struct sl_worker_pass *pass, int instr) {
    struct flip *f = ctx;
    if (f->seen++ != f->at)
        return;
    if (pass) {
        const struct sl_instr *in = &w->programs[pass->program]->instrs[instr];
        int which = (int)sl_rng_below(f->seed, 0, (uint64_t)f->at, in->out_count);
        const struct sl_operand *out = &in->out[which];
        flip_in(f, sl_run_worker_operand(w, pass, out), (out->run ? out->run : out->numel) * 4);
    } else if (audited->region_count) {
        const struct sl_audit_region *r =
            &audited->regions[sl_rng_below(f->seed, 0, (uint64_t)f->at, audited->region_count)];
        flip_in(f, r->at, r->size_bytes);
    } else {
        flip_in(f, f->train->norm_sums, (int64_t)sizeof *f->train->norm_sums);
    }
}

static struct sl_train_config config_of(const struct pipe_case *c, int64_t audit) {
    struct sl_train_config config = pipe_case_config(c, "adamw", BATCH, MICROS, STEPS);
    config.audit = audit;
    config.clip = 0.01; /* so that the norm matters */
    return config;
}

/* All weights and the optimizer's state. */
static uint64_t sum_of(const struct sl_worker *w) {
    const struct sl_program *p = w->programs[SL_WORKER_FULL];
    uint64_t hash = sl_hash(w->param[0], (size_t)p->param_bytes);
    for (int s = 0; s < w->state_count; s++)
        hash = hash * 31 + sl_hash(w->opt[s], (size_t)p->param_bytes);
    return hash * 31 + sl_hash(w->state, (size_t)p->state_bytes);
}

struct outcome {
    bool caught;
    uint64_t sum;
    int64_t calls;
};

/* One step with a flip. every 0: no audit. */
static struct outcome run_flipped(const struct pipe_case *c, int64_t every, int64_t at,
                                  uint64_t seed) {
    struct sl_train_config config = config_of(c, 0);
    struct outcome out = {0};
    struct sl_train *train;
    struct sl_step_report report;
    SL_TEST_OK(sl_run_train_open(&config, &train));
    struct flip flip = {.train = train, .at = at, .seed = seed};
    SL_TEST_OK(sl_run_audit_open(train->worker, every, seed));
    sl_run_audit_harm(train->worker, &(struct sl_harm){flip_after, &flip});
    sl_err err = sl_run_train_step(train, &report);
    out.caught = err != SL_OK;
    if (out.caught)
        assert_non_null(strstr(sl_err_message(), "audit: stage 0"));
    out.sum = sum_of(train->worker);
    out.calls = flip.seen;
    sl_run_train_close(train);
    return out;
}

static int trials_of(int max) {
    return getenv("SL_TEST_FULL") && *getenv("SL_TEST_FULL") == '1' ? 50 * max : max;
}

/* Sabotage: without an audit flips pass unnoticed; with a full one no flip that matters does. */
static void every_flip_is_caught(void **state) {
    int trials = trials_of(200), changed = 0, caught = 0;
    struct pipe_case c;
    (void)state;
    pipe_case_open(&c, pipe_model_image);
    struct outcome clean = run_flipped(&c, 0, -1, 1);
    assert_false(clean.caught);
    for (int t = 0; t < trials; t++) {
        int64_t at = sl_rng_below(3, 7, (uint64_t)t, clean.calls);
        struct outcome blind = run_flipped(&c, 0, at, (uint64_t)t);
        struct outcome seen = run_flipped(&c, 1, at, (uint64_t)t);
        assert_false(blind.caught);
        changed += blind.sum != clean.sum;
        caught += seen.caught;
        if (blind.sum != clean.sum && !seen.caught)
            fail_msg("flip %d behind action %d changed the update and was not caught", t, (int)at);
    }
    assert_true(changed > trials / 4);
    printf("count: %d flips, %d changed an update, %d caught (all that changed one)\n", trials,
           changed, caught);
    pipe_case_close(&c);
}

static void one_of_n_is_caught(void **state) {
    enum { EVERY = 4 };
    int trials = trials_of(400), changed = 0, caught = 0;
    struct pipe_case c;
    (void)state;
    pipe_case_open(&c, pipe_model_image);
    struct outcome clean = run_flipped(&c, 0, -1, 1);
    for (int t = 0; t < trials; t++) {
        int64_t at = sl_rng_below(5, 7, (uint64_t)t, clean.calls);
        if (run_flipped(&c, 0, at, (uint64_t)t).sum == clean.sum)
            continue;
        changed++;
        caught += run_flipped(&c, EVERY, at, (uint64_t)t).caught;
    }
    double want = (double)changed / EVERY, off = (double)caught - want;
    printf("count: --audit %d caught %d of %d flips that changed an update (stated: 1 of %d)\n",
           EVERY, caught, changed, EVERY);
    assert_true(off * off < 16 * want); /* four standard deviations */
    pipe_case_close(&c);
}

/* With and without an audit: the same bits, on one worker and in pipelines. */
static void an_audit_changes_nothing(void **state) {
    static const char *const schedules[] = {"1f1b", "zb-h1", "2bw"};
    struct pipe_case c;
    (void)state;
    pipe_case_open(&c, pipe_model_image);
    for (int i = 0; i < SL_COUNT(schedules); i++) {
        uint64_t sums[2][STAGES];
        for (int audited = 0; audited < 2; audited++) {
            struct sl_train_config config = config_of(&c, audited);
            struct sl_step_report reports[STEPS];
            struct sl_pipe *pipe;
            config.clip = 0;
            c.split = i == 1;
            pipe_case_cut(&c, &config, STAGES, NULL);
            struct sl_pipe_config options = {
                .train = &config, .plan = c.plan, .stage_of = c.stage_of, .schedule = schedules[i]};
            SL_TEST_OK(sl_pipe_open(&options, &pipe));
            SL_TEST_OK(sl_pipe_run(pipe, STEPS, reports));
            for (int s = 0; s < STAGES; s++)
                sums[audited][s] = sum_of(sl_pipe_worker(pipe, s));
            if (audited) {
                struct sl_run_audit_count count = sl_pipe_audit_count(pipe);
                assert_true(count.seen > 0 && count.seen == count.twice);
            }
            sl_pipe_close(pipe);
        }
        assert_memory_equal(sums[0], sums[1], sizeof sums[0]);
    }
    pipe_case_close(&c);
}

/* The error of a pipeline names the stage. */
static void a_pipeline_names_the_stage(void **state) {
    struct pipe_case c;
    (void)state;
    pipe_case_open(&c, pipe_model_image);
    struct sl_train_config config = config_of(&c, 1);
    pipe_case_cut(&c, &config, STAGES, NULL);
    struct sl_pipe_config options = {
        .train = &config, .plan = c.plan, .stage_of = c.stage_of, .schedule = "1f1b"};
    for (int s = 0; s < STAGES; s++) {
        struct flip flip = {.at = 1, .seed = 2};
        struct sl_step_report report;
        struct sl_pipe *pipe;
        char want[64];
        SL_TEST_OK(sl_pipe_open(&options, &pipe));
        sl_run_audit_harm(sl_pipe_worker(pipe, s), &(struct sl_harm){flip_after, &flip});
        assert_int_equal(sl_pipe_run(pipe, 1, &report), SL_ERR_SYSTEM);
        snprintf(want, sizeof want, "audit: stage %d did a forward", s);
        assert_non_null(strstr(sl_err_message(), want));
        sl_pipe_close(pipe);
    }
    pipe_case_close(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_flip_is_caught),
        cmocka_unit_test(one_of_n_is_caught),
        cmocka_unit_test(an_audit_changes_nothing),
        cmocka_unit_test(a_pipeline_names_the_stage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
