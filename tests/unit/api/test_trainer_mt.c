/* Trainers from C: the bits of the command line's job for every way to supply data and to run; two
 * trainers in two threads; gradients, tensors, prediction. */
#include "job/train.h"
#include "sluice.h"

#include <ftw.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

enum { SAMPLES = 50, WIDE = 5, CLASSES = 3, STEPS = 6 };

static const char model[] = "model small\ninput x : float[B, 5]\ninput label : int[B] < 3\n"
                            "param fc0.w[7, 5] ~ normal(0.4)\nparam fc1.w[6, 7] ~ normal(0.4)\n"
                            "param fc2.w[3, 6] ~ normal(0.4)\n"
                            "h = relu(matmul(x, fc0.w, tb = 1))\n"
                            "h = relu(matmul(h, fc1.w, tb = 1))\n"
                            "logits = matmul(h, fc2.w, tb = 1)\noutput logits = logits\n"
                            "loss cross_entropy(logits, label)\n";
static char work_dir[] = "/tmp/sluice-api-trainer-XXXXXX";
static float x[SAMPLES][WIDE];
static int64_t label[SAMPLES];

static void must(sl_err err) {
    if (err != SL_OK)
        fail_msg("%s (%s)", sl_err_message(), sl_err_trail(0) ? sl_err_trail(0) : "no trail");
}

static void refused(sl_err err, sl_err code, const char *part) {
    assert_int_equal(err, code);
    if (!strstr(sl_err_message(), part))
        fail_msg("'%s' does not contain '%s'", sl_err_message(), part);
    assert_int_equal(sl_err_code(), code);
    assert_non_null(sl_err_trail(0));
}

static const char *path_of(const char *name, char out[256]) {
    snprintf(out, 256, "%s/%s", work_dir, name);
    return out;
}

/* ---- trainers ---- */

static const struct sl_sample_array arrays[] = {
    {"x", SL_ARRAY_F32, x, SAMPLES, WIDE, 0},
    {"label", SL_ARRAY_I64, label, SAMPLES, 1, 0},
};

static int fill(void *ctx, int64_t sample, const char *input, void *out, int64_t values) {
    (void)ctx;
    if (strcmp(input, "x") == 0)
        memcpy(out, x[sample], (size_t)values * sizeof **x);
    else
        *(int32_t *)out = (int32_t)label[sample];
    return 0;
}

static const struct sl_samples in_memory = {
    .size = sizeof in_memory, .arrays = arrays, .array_count = 2, .fingerprint = 7};
static const struct sl_samples by_callback = {
    .size = sizeof by_callback, .count = SAMPLES, .fill = fill, .fingerprint = 7};

struct way {
    const char *const *settings; /* pairs, ends with NULL */
    const struct sl_samples *samples;
    const char *out;
    sl_on_event on_event;
    void *ctx;
    int keeps_gradients;
};

static const char *const one[] = {NULL};
static const char *const sync3[] = {"stages", "3", NULL};
static const char *const bw3[] = {"stages", "3", "schedule", "2bw", NULL};

static struct sl_trainer *start(const struct way *way) {
    struct sl_trainer *t;
    struct sl_net *net;
    char path[256];
    must(sl_net_read_text("small", model, strlen(model), NULL, &net));
    must(sl_trainer_new(&t));
    must(sl_trainer_use_net(t, net));
    sl_net_close(net); /* the trainer has a copy */
    must(sl_trainer_use_samples(t, way->samples ? way->samples : &in_memory));
    static const char *const common[] = {"batch", "8",  "micro", "4",          "steps", "6", "seed",
                                         "11",    "lr", "0.02",  "validation", "10",    NULL};
    for (int i = 0; common[i]; i += 2)
        must(sl_trainer_set(t, common[i], common[i + 1]));
    for (int i = 0; way->settings[i]; i += 2)
        must(sl_trainer_set(t, way->settings[i], way->settings[i + 1]));
    if (way->out)
        must(sl_trainer_set(t, "out", path_of(way->out, path)));
    must(sl_trainer_on_event(t, way->on_event, way->ctx));
    if (way->keeps_gradients)
        must(sl_trainer_keep_gradients(t));
    return t;
}

struct weights {
    float w0[7 * 5], w1[6 * 7], w2[3 * 6];
};

static struct weights weights_of(struct sl_trainer *t) {
    struct weights w;
    must(sl_trainer_get_tensor(t, "fc0.w", w.w0, 35));
    must(sl_trainer_get_tensor(t, "fc1.w", w.w1, 42));
    must(sl_trainer_get_tensor(t, "fc2.w", w.w2, 18));
    return w;
}

static struct weights train(const struct way *way, int64_t each) {
    struct sl_trainer *t = start(way);
    struct sl_evaluation eval = {.size = sizeof eval};
    must(sl_trainer_open(t));
    while (sl_trainer_step(t) < STEPS) {
        must(sl_trainer_run(t, each));
        if (each)
            must(sl_trainer_evaluate(t, &eval)); /* watching changes nothing */
    }
    struct weights w = weights_of(t);
    sl_trainer_close(t);
    return w;
}

static void same(const struct weights *a, const struct weights *b) {
    assert_memory_equal(a, b, sizeof *a);
}

/* ---- tests ---- */

/* The same samples in a file, by the job that the command line opens. */
static void test_bits_of_the_job(void **state) {
    (void)state;
    char csv[256], run[256], file[300];
    FILE *out = fopen(path_of("d.f32", csv), "wb");
    for (int i = 0; i < SAMPLES; i++) {
        float row = (float)label[i];
        assert_int_equal(fwrite(x[i], sizeof **x, WIDE, out), WIDE);
        assert_int_equal(fwrite(&row, sizeof row, 1, out), 1);
    }
    assert_int_equal(fclose(out), 0);
    snprintf(file, sizeof file, "%s/small.model", work_dir);
    must(sl_file_write(file, model, strlen(model)));
    static const char *const *const kinds[] = {one, sync3, bw3};
    for (int k = 0; k < 3; k++) {
        struct way way = {.settings = kinds[k]};
        struct weights want, all = train(&way, 0), each = train(&way, 1);
        way.samples = &by_callback;
        struct weights called = train(&way, 4);
        struct sl_job job;
        struct sl_job_work work;
        struct sl_job_outcome outcome;
        sl_job_init(&job);
        snprintf(run, sizeof run, "%s/job%d", work_dir, k);
        const char *const fields[] = {"model",      file,    "data", csv,    "batch", "8",  "micro",
                                      "4",          "steps", "6",    "seed", "11",    "lr", "0.02",
                                      "validation", "10",    "out",  run,    NULL};
        for (int i = 0; fields[i]; i += 2)
            must(sl_job_set(&job, fields[i], fields[i + 1]));
        for (int i = 0; kinds[k][i]; i += 2)
            must(sl_job_set(&job, kinds[k][i], kinds[k][i + 1]));
        must(sl_job_open(&job, &(struct sl_job_host){0}, &work));
        must(sl_job_train(&work, &(struct sl_job_watch){0}, &outcome));
        sl_job_outcome_free(&outcome);
        sl_job_close(&work);
        sl_job_free(&job);
        struct sl_predictor *p;
        float logits[SAMPLES * CLASSES], ours[SAMPLES * CLASSES];
        must(sl_predictor_open(run, NULL, NULL, &p));
        must(sl_predictor_run(p, arrays, 1, "logits", logits, SAMPLES * CLASSES));
        sl_predictor_close(p);
        struct sl_trainer *t = start(&way);
        must(sl_trainer_open(t));
        must(sl_trainer_run(t, 0));
        want = weights_of(t);
        must(sl_trainer_predictor(t, &p));
        must(sl_predictor_run(p, arrays, 1, "logits", ours, SAMPLES * CLASSES));
        sl_predictor_close(p);
        sl_trainer_close(t);
        assert_memory_equal(logits, ours, sizeof ours);
        same(&want, &all);
        same(&want, &each);
        same(&want, &called);
    }
}

/* A run in two processes' worth of trainers, one step at a time, saved in the middle. */
static void test_resume(void **state) {
    (void)state;
    static const char *const *const kinds[] = {one, sync3, bw3};
    static const char *const names[] = {"r0", "r1", "r2"};
    for (int k = 0; k < 3; k++) {
        struct way way = {.settings = kinds[k]};
        struct weights want = train(&way, 0);
        way.out = names[k];
        way.samples = &by_callback;
        struct sl_trainer *t = start(&way);
        must(sl_trainer_open(t));
        must(sl_trainer_run(t, 2));
        must(sl_trainer_save(t));
        must(sl_trainer_run(t, 1)); /* lost: not saved */
        sl_trainer_close(t);
        way.samples = &in_memory;
        t = start(&way);
        must(sl_trainer_set(t, "resume", "true"));
        must(sl_trainer_open(t));
        assert_int_equal(sl_trainer_step(t), 2);
        must(sl_trainer_run(t, 0));
        struct weights got = weights_of(t);
        sl_trainer_close(t);
        same(&want, &got);
    }
}

struct heard {
    int start, step, evaluation, checkpoint;
    int64_t stop_after; /* 0: never */
};

static int hear(void *ctx, const struct sl_trainer_event *event) {
    struct heard *h = ctx;
    h->start += event->kind == SL_EVENT_START;
    h->step += event->kind == SL_EVENT_STEP;
    h->evaluation += event->kind == SL_EVENT_EVALUATION;
    h->checkpoint += event->kind == SL_EVENT_CHECKPOINT;
    assert_int_equal(event->size, sizeof *event);
    if (event->kind == SL_EVENT_STEP)
        assert_true(event->loss > 0 && event->norm > 0 && event->samples == 8);
    return event->kind == SL_EVENT_STEP && event->step == h->stop_after;
}

static void test_events(void **state) {
    (void)state;
    static const char *const often[] = {"stages",           "2", "eval_every", "3",
                                        "checkpoint_every", "2", NULL};
    struct heard h = {.stop_after = 4};
    struct way way = {.settings = often, .out = "events", .on_event = hear, .ctx = &h};
    struct sl_trainer *t = start(&way);
    must(sl_trainer_open(t));
    must(sl_trainer_run(t, 0));
    assert_int_equal(sl_trainer_step(t), 4); /* cancelled by the callback */
    h.stop_after = 0;
    must(sl_trainer_run(t, 0));
    assert_int_equal(sl_trainer_step(t), STEPS);
    assert_non_null(strstr(sl_trainer_report(t), "\"step_s\""));
    assert_string_equal(sl_trainer_get(t, "stages"), "2");
    sl_trainer_close(t);
    assert_int_equal(h.start, 1);
    assert_int_equal(h.step, STEPS);
    assert_int_equal(h.evaluation, 2);
    assert_true(h.checkpoint >= 3);
}

/* Kept gradients against differences of the loss: one step of SGD with rate 1 and no clipping. */
static void test_gradients(void **state) {
    (void)state;
    static const char *const sgd1[] = {"optimizer", "sgd", "clip", "0", "stages", "3", NULL};
    struct way way = {.settings = sgd1, .keeps_gradients = 1};
    struct sl_trainer *t = start(&way);
    float grad[42];
    must(sl_trainer_open(t));
    assert_int_equal(sl_trainer_tensor_count(t), 6); /* SGD has no state */
    refused(sl_trainer_get_tensor(t, "fc1.w:gradient", grad, 42), SL_ERR_USAGE, "before a step");
    struct weights before = weights_of(t);
    must(sl_trainer_run(t, 1));
    struct weights after = weights_of(t);
    must(sl_trainer_get_tensor(t, "fc1.w:gradient", grad, 42));
    for (int i = 0; i < 42; i++)
        assert_true(fabs((double)(before.w1[i] - 0.02F * grad[i] - after.w1[i])) < 1e-6);
    struct sl_tensor tensor = {.size = sizeof tensor};
    must(sl_trainer_tensor(t, 5, &tensor));
    assert_string_equal(tensor.name, "fc2.w:gradient");
    assert_true(tensor.kind == SL_TENSOR_GRADIENT && tensor.rank == 2 && tensor.dim[0] == 3 &&
                tensor.count == 18);
    refused(sl_trainer_set_tensor(t, "fc1.w:gradient", grad, 42), SL_ERR_REFUSED, "only be read");
    sl_trainer_close(t);
}

static int freeze_first(void *ctx, const char *parameter, float *gradient, int64_t count) {
    (void)ctx;
    if (strcmp(parameter, "fc0.w") == 0)
        memset(gradient, 0, (size_t)count * sizeof *gradient);
    return 0;
}

static int give_up(void *ctx, const char *parameter, float *gradient, int64_t count) {
    (void)ctx, (void)parameter, (void)gradient, (void)count;
    return 3;
}

static void test_gradient_callback(void **state) {
    (void)state;
    static const char *const *const kinds[] = {one, sync3, bw3};
    for (int k = 0; k < 3; k++) {
        struct way way = {.settings = kinds[k]};
        struct sl_trainer *t = start(&way);
        must(sl_trainer_set(t, "optimizer", "sgd"));
        must(sl_trainer_on_gradient(t, freeze_first, NULL));
        must(sl_trainer_open(t));
        struct weights before = weights_of(t);
        must(sl_trainer_run(t, 0));
        struct weights after = weights_of(t);
        sl_trainer_close(t);
        assert_memory_equal(before.w0, after.w0, sizeof before.w0);
        assert_memory_not_equal(before.w1, after.w1, sizeof before.w1);
        t = start(&way);
        must(sl_trainer_on_gradient(t, give_up, NULL));
        must(sl_trainer_open(t));
        refused(sl_trainer_run(t, 0), SL_ERR_INPUT, "returned 3");
        refused(sl_trainer_run(t, 0), SL_ERR_USAGE, "failed before");
        sl_trainer_close(t);
    }
}

/* Weights and optimizer state of one trainer put into another continue it with the same bits. */
static void test_set_tensors(void **state) {
    (void)state;
    struct way way = {.settings = sync3};
    struct sl_trainer *a = start(&way), *b = start(&(struct way){.settings = one});
    must(sl_trainer_open(a));
    must(sl_trainer_open(b));
    must(sl_trainer_run(a, 1));
    must(sl_trainer_run(b, 1));
    float values[64] = {0};
    must(sl_trainer_set_tensor(b, "fc0.w", values, 35)); /* spoil it */
    for (int64_t i = 0; i < sl_trainer_tensor_count(a); i++) {
        struct sl_tensor tensor = {.size = sizeof tensor};
        must(sl_trainer_tensor(a, i, &tensor));
        must(sl_trainer_get_tensor(a, tensor.name, values, tensor.count));
        must(sl_trainer_set_tensor(b, tensor.name, values, tensor.count));
    }
    must(sl_trainer_run(a, 0));
    must(sl_trainer_run(b, 0));
    struct weights x_ = weights_of(a), y = weights_of(b);
    same(&x_, &y);
    refused(sl_trainer_get_tensor(a, "fc9.w", values, 35), SL_ERR_USAGE, "did you mean 'fc");
    refused(sl_trainer_get_tensor(a, "fc0.w", values, 36), SL_ERR_USAGE, "35 values");
    sl_trainer_close(a);
    sl_trainer_close(b);
    a = start(&(struct way){.settings = bw3});
    must(sl_trainer_open(a));
    must(sl_trainer_set_tensor(a, "fc0.w", values, 35));
    must(sl_trainer_run(a, 1));
    refused(sl_trainer_set_tensor(a, "fc0.w", values, 35), SL_ERR_REFUSED, "in flight");
    sl_trainer_close(a);
}

struct job {
    pthread_t thread;
    const char *const *settings;
    struct weights result;
};

static void *run_job(void *ctx) {
    struct job *job = ctx;
    job->result = train(&(struct way){.settings = job->settings}, 2);
    return NULL;
}

static void test_two_threads(void **state) {
    (void)state;
    struct weights want[] = {train(&(struct way){.settings = bw3}, 0),
                             train(&(struct way){.settings = sync3}, 0)};
    struct job jobs[] = {{.settings = bw3}, {.settings = sync3}};
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&jobs[i].thread, NULL, run_job, &jobs[i]), 0);
    for (int i = 0; i < 2; i++) {
        pthread_join(jobs[i].thread, NULL);
        same(&want[i], &jobs[i].result);
    }
}

static void *cancel(void *trainer) {
    sl_trainer_cancel(trainer);
    return NULL;
}

static int cancel_at_3(void *ctx, const struct sl_trainer_event *event) {
    pthread_t *thread = ctx;
    if (event->kind == SL_EVENT_STEP && event->step == 3)
        pthread_join(*thread, NULL); /* the other thread has cancelled */
    return 0;
}

static void test_cancel(void **state) {
    (void)state;
    static const char *const long_run[] = {"steps", "100000", NULL};
    pthread_t thread;
    struct way way = {
        .settings = long_run, .out = "cancel", .on_event = cancel_at_3, .ctx = &thread};
    struct sl_trainer *t = start(&way);
    must(sl_trainer_open(t));
    assert_int_equal(pthread_create(&thread, NULL, cancel, t), 0);
    must(sl_trainer_run(t, 0));
    int64_t step = sl_trainer_step(t);
    assert_true(step <= 3);
    if (step < 3)
        pthread_join(thread, NULL);
    sl_trainer_close(t);
    way = (struct way){.settings = long_run, .out = "cancel"};
    t = start(&way);
    must(sl_trainer_set(t, "resume", "true"));
    must(sl_trainer_open(t));
    assert_int_equal(sl_trainer_step(t), step); /* it was saved */
    sl_trainer_close(t);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at) {
    (void)st, (void)kind, (void)at;
    return remove(path);
}

static int set_up(void **state) {
    (void)state;
    uint32_t draw = 1;
    for (int i = 0; i < SAMPLES; i++) {
        for (int k = 0; k < WIDE; k++) {
            draw = draw * 1664525 + 1013904223;
            x[i][k] = (float)(draw >> 8) / (1 << 23) - 1;
        }
        label[i] = x[i][0] > 0 ? 2 : x[i][1] > 0;
    }
    return mkdtemp(work_dir) ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    return nftw(work_dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits_of_the_job),
        cmocka_unit_test(test_resume),
        cmocka_unit_test(test_events),
        cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_gradient_callback),
        cmocka_unit_test(test_set_tensors),
        cmocka_unit_test(test_two_threads),
        cmocka_unit_test(test_cancel),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
