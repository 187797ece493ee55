/* 2bw on every device of this machine against W(t+1) = W(t) - f(g(W(t-1))) (Narayanan et al. 2021,
 * PipeDream-2BW): one worker and a list of all weight versions on the host, with the same kernels
 * and no code of sched or pipe. Pipelines of 1 to 4 stages have its bits. */
#include "device_here.h"
#include "pipe/pipe.h"
#include "support/pipe_case.h"
#include "support/pipe_models.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 7, BATCH = 11, MICROS = 4 };

static void must(sl_err err) {
    if (err != SL_OK)
        fail_msg("%s", sl_err_message());
}

static void fetch(struct sl_device *device, void *to, const void *from, int64_t bytes) {
    must(device->row->download(device, SL_STREAM_COMPUTE, to, from, bytes));
    must(device->row->sync(device, SL_STREAM_COMPUTE));
}

struct reference {
    struct sl_train *train;
    char *version[STEPS + 1];
    int64_t bytes; /* of one */
};

static void use_version(struct reference *r, int64_t v) {
    struct sl_device *device = r->train->device;
    must(device->row->upload(device, SL_STREAM_COMPUTE, r->train->worker->param[0], r->version[v],
                             r->bytes));
    must(device->row->sync(device, SL_STREAM_COMPUTE));
}

static void keep_version(struct reference *r, int64_t v) {
    r->version[v] = malloc((size_t)r->bytes + 1);
    fetch(r->train->device, r->version[v], r->train->worker->param[0], r->bytes);
}

/* Forward and backward of micro-batch j of step t (from 0), with one version. */
static void run_micro(struct reference *r, int64_t t, int64_t j, int64_t version) {
    struct sl_train *train = r->train;
    int64_t full = (BATCH + MICROS - 1) / MICROS, first = t * BATCH + j * full;
    int64_t count = j == MICROS - 1 ? BATCH - j * full : full;
    struct sl_feed feed = {SL_DATA_TRAIN, sl_run_worker_program_for(train->worker, count), first,
                           count, 0};
    struct sl_worker_pass pass = {.program = feed.program,
                                  .accumulate = j > 0,
                                  .seed = sl_run_train_seed(train->config.seed, t),
                                  .first_sample = first};
    use_version(r, version);
    must(sl_run_train_feed(train, &feed));
    must(sl_run_worker_pass(train->worker, &pass));
    pass.phase = SL_PHASE_B;
    must(sl_run_worker_pass(train->worker, &pass));
}

static void run_reference(struct reference *r, const struct sl_train_config *config) {
    struct sl_step_report report;
    must(sl_run_train_open(config, &r->train));
    r->bytes = r->train->worker->programs[SL_WORKER_FULL]->param_bytes;
    keep_version(r, 0);
    for (int64_t t = 0; t < STEPS; t++) {
        must(sl_run_train_count(r->train, SL_DATA_TRAIN, t * BATCH, BATCH, r->train->counts));
        for (int64_t j = 0; j < MICROS; j++) {
            int64_t k = t * MICROS + j + 1;
            run_micro(r, t, j, k > 2 * MICROS ? (k - 1) / MICROS - 1 : 0);
        }
        use_version(r, t);
        must(sl_run_train_apply(r->train, &report));
        assert_false(report.skipped);
        keep_version(r, t + 1);
    }
}

static void close_reference(struct reference *r) {
    for (int t = 0; t <= STEPS; t++)
        free(r->version[t]);
    sl_run_train_close(r->train);
}

static bool same(struct sl_device *a, const void *x, struct sl_device *b, const void *y,
                 int64_t bytes) {
    char *p = malloc((size_t)bytes + 1), *q = malloc((size_t)bytes + 1);
    fetch(a, p, x, bytes);
    fetch(b, q, y, bytes);
    bool equal = memcmp(p, q, (size_t)bytes) == 0;
    free(p);
    free(q);
    return equal;
}

/* Number of tensors that differ from the reference. */
static int differing(const struct reference *r, const struct sl_pipe *pipe, int stages) {
    const struct sl_worker *one = r->train->worker;
    const struct sl_program *whole = one->programs[SL_WORKER_FULL];
    int count = 0;
    for (int s = 0; s < stages; s++) {
        const struct sl_worker *w = sl_pipe_worker(pipe, s);
        const struct sl_program *p = w->programs[SL_WORKER_FULL];
        for (int i = 0; i < p->param_count; i++) {
            int64_t bytes = p->params[i].numel * 4;
            int at =
                (int)(sl_run_worker_find(whole->params, whole->param_count, p->params[i].param) -
                      whole->params);
            count += !same(w->device, sl_run_worker_weight(w, sl_pipe_newest(pipe, s), i),
                           one->device, sl_run_worker_weight(one, 0, at), bytes);
            for (int o = 0; o < one->state_count; o++)
                count += !same(w->device, sl_run_worker_opt(w, o, i), one->device,
                               sl_run_worker_opt(one, o, at), bytes);
        }
    }
    return count;
}

static int try_pipe(struct pipe_case *c, const struct reference *r,
                    const struct sl_train_config *config, int stages, const char *schedule) {
    struct sl_step_report reports[STEPS];
    struct sl_pipe *pipe;
    pipe_case_cut(c, config, stages, NULL);
    struct sl_pipe_config pc = {
        .train = config, .plan = c->plan, .stage_of = c->stage_of, .schedule = schedule};
    must(sl_pipe_open(&pc, &pipe));
    must(sl_pipe_run(pipe, STEPS, reports));
    int count = differing(r, pipe, stages);
    sl_pipe_close(pipe);
    return count;
}

static void try_device(const struct sl_device_row *row, enum sl_dtype dtype,
                       const char *optimizer) {
    struct pipe_case c;
    struct reference r = {0};
    pipe_case_open(&c, pipe_model_gpt);
    struct sl_train_config config = pipe_case_config(&c, optimizer, BATCH, MICROS, STEPS);
    config.device = row;
    config.dtype = dtype;
    run_reference(&r, &config);
    for (int stages = 1; stages <= 4; stages++) {
        int count = try_pipe(&c, &r, &config, stages, "2bw");
        if (count)
            fail_msg("%s, %s, %s: 2bw on %d stages: %d tensors are not the reference's", row->name,
                     dtype == SL_FLOAT  ? "fp32"
                     : dtype == SL_FP16 ? "fp16"
                                        : "bf16",
                     optimizer, stages, count);
    }
    assert_true(try_pipe(&c, &r, &config, 2, "1f1b") > 0); /* the comparison can fail */
    close_reference(&r);
    pipe_case_close(&c);
}

static void test_2bw(void **state) {
    (void)state;
    const struct sl_device_row *row;
    for (int at = 0; (row = next_device(&at));)
        for (int i = 0; i < SL_COUNT(device_dtypes); i++) {
            if (!sl_device_takes(row, device_dtypes[i]))
                continue;
            try_device(row, device_dtypes[i], "sgd");
            try_device(row, device_dtypes[i], "adamw");
            printf("count: 2bw pipelines on %s 10\n", row->name);
        }
}

int main(void) {
    for (int i = 0; sl_device_rows[i]; i++)
        if (sl_device_rows[i]->missing())
            printf("without '%s': %s\n", sl_device_rows[i]->name, sl_device_rows[i]->missing());
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_2bw)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
