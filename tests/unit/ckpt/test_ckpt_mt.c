/* Writers and readers as threads: p threads write one checkpoint, q threads read one sl_ckpt. */
#include "support/ckpt_tree.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { WRITERS = 8, TENSORS = 40, COUNT = 3001 };

struct worker {
    pthread_t thread;
    const char *run;
    int rank;
    int64_t step;
    struct sl_ckpt_writer *writer;
    struct sl_text report;
    const struct sl_ckpt *ckpt;
    sl_err err;
    char message[256];
    float values[TENSORS / WRITERS][COUNT];
};

static float value(int64_t step, int tensor, int i) {
    return (float)(step * 1000 + tensor) + (float)i / 4096;
}

static sl_err write_part(struct worker *worker) {
    struct sl_ckpt_options options = {.run = worker->run,
                                      .step = worker->step,
                                      .rank = worker->rank,
                                      .ranks = WRITERS,
                                      .keep = 1};
    SL_TRY(sl_ckpt_begin(&options, &worker->writer));
    for (int k = 0; k < TENSORS / WRITERS; k++) {
        int tensor = k * WRITERS + worker->rank;
        char name[32];
        snprintf(name, sizeof name, "t%02d", tensor);
        for (int i = 0; i < COUNT; i++)
            worker->values[k][i] = value(worker->step, tensor, i);
        struct sl_ckpt_item item = {
            .name = name, .dtype = SL_ST_F32, .rank = 1, .dim = {COUNT}, .data = worker->values[k]};
        SL_TRY(sl_ckpt_put(worker->writer, &item));
    }
    return sl_ckpt_write(worker->writer, &worker->report);
}

static sl_err read_all(struct worker *worker) {
    static _Thread_local float got[COUNT];
    for (int t = 0; t < TENSORS; t++) {
        int tensor = (t + worker->rank * 5) % TENSORS;
        char name[32];
        snprintf(name, sizeof name, "t%02d", tensor);
        SL_TRY(sl_ckpt_read(worker->ckpt, sl_ckpt_find(worker->ckpt, name), got));
        for (int i = 0; i < COUNT; i++)
            if (got[i] != value(worker->step, tensor, i))
                return sl_fail(SL_ERR_REFUSED, "%s differs at %d", name, i);
    }
    return SL_OK;
}

static void *work(void *ctx) {
    struct worker *worker = ctx;
    worker->err = worker->ckpt ? read_all(worker) : write_part(worker);
    if (worker->err != SL_OK)
        snprintf(worker->message, sizeof worker->message, "%s", sl_err_message());
    return NULL;
}

static void run_all(struct worker *workers) {
    for (int i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    for (int i = 0; i < WRITERS; i++)
        pthread_join(workers[i].thread, NULL);
    for (int i = 0; i < WRITERS; i++)
        if (workers[i].err != SL_OK)
            fail_msg("worker %d: %s", i, workers[i].message);
}

static void threads_write_and_read_global_step(void **state) {
    (void)state;
    struct sl_arena arena = {0};
    const char *run = sl_tree_make(&arena);
    struct worker *workers = calloc(WRITERS, sizeof *workers);
    for (int64_t step = 1; step <= 5; step++) {
        struct sl_str reports[WRITERS];
        struct sl_ckpt *ckpt;
        for (int i = 0; i < WRITERS; i++)
            workers[i] = (struct worker){.run = run, .rank = i, .step = step};
        run_all(workers);
        for (int i = 0; i < WRITERS; i++)
            reports[i] = (struct sl_str){workers[i].report.at, workers[i].report.length};
        sl_err err = sl_ckpt_commit(workers[0].writer, reports, WRITERS);
        for (int i = WRITERS - 1; i >= 0; i--) {
            sl_ckpt_end(workers[i].writer, err == SL_OK);
            sl_text_free(&workers[i].report);
        }
        if (err != SL_OK || sl_ckpt_open(run, -1, &ckpt) != SL_OK)
            fail_msg("step %d: %s", (int)step, sl_err_message());
        for (int i = 0; i < WRITERS; i++)
            workers[i].ckpt = ckpt;
        run_all(workers);
        sl_ckpt_close(ckpt);
    }
    free(workers);
    sl_tree_remove(run);
    sl_arena_free(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(threads_write_and_read_global_step)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
