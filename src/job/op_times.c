/* Measures the time of a micro-batch, kernel by kernel. */
#include "job/op_times.h"

#include "base/sort.h"

#include <string.h>

static int compare_rows(const void *a, const void *b) {
    const struct sl_report_op_time *x = a, *y = b;
    return (x->dur_ns < y->dur_ns) - (x->dur_ns > y->dur_ns);
}

static struct sl_report_op_time *find_row(struct sl_report_op_time *rows, int *count,
                                          const char *kernel) {
    for (int i = 0; i < *count; i++)
        if (strcmp(rows[i].kernel, kernel) == 0)
            return &rows[i];
    rows[*count] = (struct sl_report_op_time){.kernel = kernel};
    return &rows[(*count)++];
}

static sl_err measure(struct sl_train *train, int64_t rounds, int64_t *op_ns) {
    struct sl_feed feed = {.split = SL_DATA_TRAIN,
                           .count = train->worker->programs[SL_WORKER_FULL]->samples};
    SL_TRY(sl_run_train_count(train, SL_DATA_TRAIN, 0, feed.count, train->counts));
    for (int64_t r = -1; r < rounds; r++) {
        struct sl_worker_pass pass = {.op_ns = r < 0 ? NULL : op_ns};
        SL_TRY(sl_run_train_feed(train, &feed));
        SL_TRY(sl_run_worker_pass(train->worker, &pass));
        pass.phase = SL_PHASE_B;
        SL_TRY(sl_run_worker_pass(train->worker, &pass));
    }
    return SL_OK;
}

static void add_up(struct sl_arena *arena, const struct sl_program *p, const int64_t *op_ns,
                   int64_t rounds, const struct sl_report_op_time **out, int *count) {
    struct sl_report_op_time *rows = SL_NEW(arena, struct sl_report_op_time, p->instr_count);
    *count = 0;
    for (int i = 0; i < p->instr_count; i++) {
        struct sl_report_op_time *row = find_row(rows, count, p->instrs[i].kernel);
        row->calls++;
        row->dur_ns += op_ns[i] / rounds;
        row->flops += p->instrs[i].flops;
    }
    for (int i = 0; i < *count; i++) /* copies the names, because the rows outlive the program */
        rows[i].kernel = sl_arena_dup(arena, rows[i].kernel, strlen(rows[i].kernel));
    sl_sort(rows, *count, sizeof *rows, compare_rows);
    *out = rows;
}

sl_err sl_job_op_times(const struct sl_job *job, const struct sl_job_host *host, int64_t rounds,
                       struct sl_arena *arena, const struct sl_report_op_time **out, int *count) {
    struct sl_job_work work;
    struct sl_train *train = NULL;
    sl_err err = SL_OK;
    SL_TRY_OUT(sl_job_open(job, host, &work));
    work.train.eval_graph = NULL;
    work.train.optim = (struct sl_optim){0}; /* no optimizer: only passes are measured */
    SL_TRY_OUT(sl_run_train_open(&work.train, &train));
    const struct sl_program *p = train->worker->programs[SL_WORKER_FULL];
    int64_t *op_ns = SL_NEW(arena, int64_t, p->instr_count);
    SL_TRY_OUT(measure(train, rounds, op_ns));
    add_up(arena, p, op_ns, rounds, out, count);
out:
    sl_run_train_close(train);
    sl_job_close(&work);
    return err;
}
