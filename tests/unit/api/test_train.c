/* Training from C: the same defaults, the same config.json and the same losses as the same job from
 * the command line, which fills a job by sl_job_set. */
#include "job/train.h"
#include "sluice/net.h"
#include "sluice/train.h"

#include <ftw.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

static const char *const dirs[] = {SL_MODELS_SRC_DIR, NULL};
static char work_dir[] = "/tmp/sluice-api-train-XXXXXX";

static void must(sl_err err) {
    if (err != SL_OK)
        fail_msg("%s", sl_err_message());
}

static const char *path_of(const char *name, char out[256]) {
    snprintf(out, 256, "%s/%s", work_dir, name);
    return out;
}

static char *read_file(const char *name) {
    char path[256], *text;
    size_t length;
    must(sl_file_read(path_of(name, path), 1 << 20, &text, &length));
    return text;
}

/* Pairs of key and value, ends with NULL. */
static double train_job(const char *const *fields) {
    struct sl_job job;
    struct sl_job_work work;
    struct sl_job_outcome outcome;
    sl_job_init(&job);
    must(sl_job_set(&job, "model", "gpt-nano"));
    for (int i = 0; fields[i]; i += 2)
        must(sl_job_set(&job, fields[i], fields[i + 1]));
    must(sl_job_open(&job, &(struct sl_job_host){.model_dirs = dirs}, &work));
    must(sl_job_train(&work, &(struct sl_job_watch){0}, &outcome));
    double loss = outcome.result.last_loss;
    sl_job_outcome_free(&outcome);
    sl_job_close(&work);
    sl_job_free(&job);
    return loss;
}

static double train_net(struct sl_train_request *request) {
    struct sl_net *net;
    double loss;
    request->size = sizeof *request;
    must(sl_net_read(SL_MODELS_SRC_DIR "/gpt-nano.model", SL_MODELS_SRC_DIR, NULL, &net));
    must(sl_net_autodiff(net));
    must(sl_train_net(net, request, NULL, NULL, &loss));
    sl_net_close(net);
    return loss;
}

static void same_config(const char *one, const char *other) {
    char *a = read_file(one), *b = read_file(other);
    assert_string_equal(a, b);
    free(a);
    free(b);
}

static void test_one_worker(void **state) {
    (void)state;
    char a[256], b[256];
    const char *const fields[] = {"steps", "2", "out", path_of("one", a), NULL};
    struct sl_train_request request = {.steps = 2, .run = path_of("one-c", b)};
    double loss = train_job(fields);
    assert_true(loss == train_net(&request));
    same_config("one/config.json", "one-c/config.json");
}

/* Version 0.1.0 took slack 0 from C. */
static void test_2bw(void **state) {
    (void)state;
    char a[256], b[256], c[256], plan[256];
    struct sl_pipeline *pipeline;
    const char *const cut[] = {"steps",    "2",   "batch",  "16", "micro", "8",
                               "schedule", "2bw", "stages", "3",  "out",   path_of("cut", a),
                               NULL};
    double loss = train_job(cut);
    const char *const planned[] = {"steps",    "2",
                                   "batch",    "16",
                                   "micro",    "8",
                                   "schedule", "2bw",
                                   "plan",     path_of("cut/plan.plan", plan),
                                   "out",      path_of("planned", b),
                                   NULL};
    assert_true(loss == train_job(planned));
    must(sl_pipeline_read(plan, &pipeline));
    struct sl_train_request request = {.pipeline = pipeline,
                                       .schedule = "2bw",
                                       .steps = 2,
                                       .batch = 16,
                                       .micros = 8,
                                       .run = path_of("planned-c", c)};
    assert_true(loss == train_net(&request));
    sl_pipeline_close(pipeline);
    same_config("planned/config.json", "planned-c/config.json");
    char *config = read_file("planned-c/config.json");
    assert_non_null(strstr(config, "\"slack\": 1,"));
    assert_non_null(strstr(config, "\"schedule\": \"2bw\""));
    assert_non_null(strstr(config, "\"policy\": \"none\""));
    assert_non_null(strstr(config, "\"dtype\": \"fp32\""));
    assert_non_null(strstr(config, "\"plan\": \"plan.plan\""));
    assert_non_null(strstr(config, "\"V\": 256"));
    free(config);
}

/* A run directory is a job: it opens with its own plan. */
static void test_read_run(void **state) {
    (void)state;
    char run[256], out[256];
    struct sl_job job;
    struct sl_job_work work;
    sl_job_init(&job);
    must(sl_job_read_run(&job, path_of("planned-c", run)));
    must(sl_job_set(&job, "out", path_of("again", out)));
    must(sl_job_open(&job, &(struct sl_job_host){.model_dirs = dirs}, &work));
    assert_int_equal(work.pipe.plan->stage_count, 3);
    assert_int_equal(work.pipe.slack, 1);
    sl_job_close(&work);
    sl_job_free(&job);
}

static void test_refusals(void **state) {
    (void)state;
    struct sl_net *net;
    double loss = 0;
    must(sl_net_read(SL_MODELS_SRC_DIR "/mlp.model", NULL, NULL, &net));
    struct sl_train_request request = {.size = sizeof request, .schedule = "2bw"};
    assert_int_equal(sl_train_net(net, &request, NULL, NULL, &loss), SL_ERR_USAGE);
    must(sl_net_autodiff(net));
    assert_int_equal(sl_train_net(net, &request, NULL, NULL, &loss), SL_ERR_USAGE);
    assert_non_null(strstr(sl_err_message(), "`schedule` needs a pipeline"));
    assert_true(isnan(loss));
    request = (struct sl_train_request){.size = sizeof request, .batch = -1};
    assert_int_equal(sl_train_net(net, &request, NULL, NULL, &loss), SL_ERR_USAGE);
    assert_non_null(strstr(sl_err_message(), "`batch`: expected"));
    request = (struct sl_train_request){.size = sizeof request, .optimizer = "adamx"};
    assert_int_equal(sl_train_net(net, &request, NULL, NULL, &loss), SL_ERR_USAGE);
    sl_net_close(net);
}

/* One step of a run, then one more, of a model with `op` between its products. */
static sl_err resume_small(const char *op, struct sl_train_request request) {
    struct sl_net *net;
    double loss;
    char text[512];
    snprintf(text, sizeof text,
             "input x : float[B,4]\ninput y : float[B,1]\nparam w[4,4] ~ normal(0.3)\n"
             "param v[4,1] ~ normal(0.3)\nloss mse(matmul(%s(matmul(x, w)), v), y)\n",
             op);
    must(sl_net_read_text("small", text, strlen(text), NULL, &net));
    must(sl_net_autodiff(net));
    request.size = sizeof request;
    char path[256];
    request.run = path_of("resumed", path);
    sl_err err = sl_train_net(net, &request, NULL, NULL, &loss);
    sl_net_close(net);
    return err;
}

static void test_resume(void **state) {
    (void)state;
    struct sl_job job;
    must(resume_small("relu", (struct sl_train_request){.steps = 1, .batch = 4, .lr = 3e-3}));
    assert_int_equal(resume_small("relu", (struct sl_train_request){.steps = 2}), SL_ERR_REFUSED);
    must(resume_small("relu", (struct sl_train_request){.steps = 2, .resume = 1}));
    sl_job_init(&job);
    char path[256];
    must(sl_job_read_run(&job, path_of("resumed", path)));
    assert_true(job.batch == 4 && job.lr == 3e-3 && job.steps == 2);
    sl_job_free(&job);
    assert_int_equal(resume_small("tanh", (struct sl_train_request){.steps = 3, .resume = 1}),
                     SL_ERR_INPUT);
    assert_non_null(strstr(sl_err_message(), "trained with another model"));
    struct sl_train_request other = {.steps = 3, .resume = 1, .lr = 1e-4};
    assert_int_equal(resume_small("relu", other), SL_ERR_REFUSED);
    assert_non_null(strstr(sl_err_message(), "`lr` was 0.003 and is 0.0001"));
    other.allow_change = 1;
    must(resume_small("relu", other));
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at) {
    (void)st;
    (void)kind;
    (void)at;
    return remove(path);
}

static int make_dir(void **state) {
    (void)state;
    return mkdtemp(work_dir) ? 0 : -1;
}

static int remove_dir(void **state) {
    (void)state;
    return nftw(work_dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_worker), cmocka_unit_test(test_2bw),
        cmocka_unit_test(test_read_run),   cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_resume),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
