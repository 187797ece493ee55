/* sluice profile: measure kernels of a training step, or the costs for the planner. */
#include "base/clock.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/job_options.h"
#include "job/op_times.h"
#include "profile/measure.h"
#include "report/profile.h"

#include <stdlib.h>
#include <string.h>

static sl_err fill_job(const struct sl_args *args, struct sl_job *job, struct sl_job_host *host) {
    sl_job_init(job);
    host->model_dirs = sl_cli_model_dirs(args, &job->text);
    SL_TRY(sl_job_set(job, "model", args->positional[0]));
    return sl_cli_job_fill(args, job);
}

static sl_err run_ops(const struct sl_args *args) {
    struct sl_arena arena = {0};
    struct sl_text text = {0};
    const struct sl_report_op_time *rows;
    struct sl_job job;
    struct sl_job_host host = {0};
    int64_t rounds = 3;
    int count;
    sl_err err = SL_OK;
    SL_TRY_OUT(fill_job(args, &job, &host));
    SL_TRY_OUT(sl_args_int(args, "--rounds", 1, 1 << 20, &rounds));
    SL_TRY_OUT(sl_job_op_times(&job, &host, rounds, &arena, &rows, &count));
    if (sl_args_has(args, "--json"))
        sl_report_ops_json(rows, count, &text);
    else
        sl_report_ops(rows, count, &text);
    SL_TRY_OUT(sl_cli_print(&text));
out:
    sl_text_free(&text);
    sl_arena_free(&arena);
    sl_job_free(&job);
    return err;
}

/* ---- the cost table ---- */

enum { SIZES_MAX = 16 };

static sl_err read_sizes(const char *list, int64_t *sizes, int *count) {
    char item[32];
    for (const char *at = list;; at++) {
        size_t length = strcspn(at, ",");
        if (!length || length >= sizeof item || *count == SIZES_MAX)
            return sl_fail(SL_ERR_USAGE, "profile: --micro-batch: '%s' is not 1,2,4 (at most %d)",
                           list, SIZES_MAX);
        memcpy(item, at, length);
        item[length] = 0;
        SL_TRY(sl_parse_int(item, "--micro-batch", &sizes[*count]));
        if (sizes[*count] < 1 || sizes[*count] > 1 << 20)
            return sl_fail(SL_ERR_USAGE, "profile: --micro-batch: %s is not in 1..%d", item,
                           1 << 20);
        for (int i = 0; i < *count; i++)
            if (sizes[i] == sizes[*count])
                return sl_fail(SL_ERR_USAGE, "profile: --micro-batch: %s is given twice", item);
        ++*count;
        at += length;
        if (!*at)
            return SL_OK;
    }
}

struct measuring {
    struct sl_profile_spec spec;
    int64_t start_ns;
};

/* Shows progress; assumes that the time of a size is proportional to it. */
static void show_progress(void *ctx, int done, int all) {
    const struct measuring *m = ctx;
    const struct sl_profile_spec *spec = &m->spec;
    double before = 0, behind = 0;
    char left[SL_HUMAN_BYTES];
    for (int i = 0; i < all; i++)
        *(i < done ? &before : &behind) += (double)spec->sizes[i];
    double left_ns = (double)(sl_clock_ns() - m->start_ns) * behind / (before > 0 ? before : 1);
    sl_log_status(false, "profile: micro-batch %lld (%d of %d), %d worker%s%s%s",
                  (long long)spec->sizes[done], done + 1, all, spec->busy,
                  spec->busy == 1 ? "" : "s", done ? ", left " : "",
                  done ? sl_human_ns((int64_t)left_ns, left) : "");
}

static sl_err fill_input(const void *data, int64_t first, int64_t count, int input, void *out) {
    return sl_data_fill(data, SL_DATA_TRAIN, first, count, input, out);
}

/* Runs -o X.cost: measures every unit at every size, with all workers busy. */
static sl_err run_cost(const struct sl_args *args, const char *path) {
    struct sl_job job;
    struct sl_job_host host = {0};
    struct sl_job_work work = {0};
    struct sl_arena arena = {0};
    struct sl_text text = {0}, table = {0};
    const struct sl_cost *cost;
    int64_t rounds = 9, busy = 1, sizes[SIZES_MAX];
    double seconds = 0;
    int count = 0;
    sl_err err = SL_OK;
    SL_TRY_OUT(fill_job(args, &job, &host));
    SL_TRY_OUT(sl_args_int(args, "--rounds", 1, 1 << 20, &rounds));
    SL_TRY_OUT(sl_args_double(args, "--seconds", 0, 3600, &seconds));
    SL_TRY_OUT(sl_args_int(args, "--busy", 1, 1024, &busy));
    SL_TRY_OUT(read_sizes(sl_args_text(args, "--micro-batch", "1,2,4,8"), sizes, &count));
    SL_TRY_OUT(sl_job_open(&job, &host, &work));
    struct measuring m = {.start_ns = sl_clock_ns()};
    m.spec = (struct sl_profile_spec){.graph = work.graph,
                                      .device = work.train.device,
                                      .optim = &work.train.optim,
                                      .threads = work.train.threads,
                                      .dtype = work.train.dtype,
                                      .tf32 = work.train.tf32,
                                      .busy = (int)busy,
                                      .rounds = (int)rounds,
                                      .seconds = seconds,
                                      .sizes = sizes,
                                      .size_count = count,
                                      .progress = show_progress,
                                      .fill = fill_input,
                                      .data = work.train.data,
                                      .ctx = &m};
    SL_TRY_OUT(sl_profile_run(&arena, &m.spec, &cost));
    sl_cost_write(cost, &text);
    SL_TRY_OUT(sl_file_write(path, text.at, text.length));
    if (sl_args_has(args, "--json"))
        sl_report_cost_json(cost, &table);
    else
        sl_report_cost(cost, &table);
    if (strcmp(path, "-") != 0)
        SL_TRY_OUT(sl_cli_print(&table));
out:
    sl_text_free(&text);
    sl_text_free(&table);
    sl_job_close(&work);
    sl_job_free(&job);
    sl_arena_free(&arena);
    return err;
}

static sl_err run(const struct sl_args *args) {
    const char *path = sl_args_text(args, "-o", NULL);
    return path ? run_cost(args, path) : run_ops(args);
}

static const struct sl_option options[] = {
    SL_RUN_OPTIONS,
    {"--ops", NULL, "print a table of kernels (default without -o)", false},
    {"--rounds", "N", "micro-batches to measure (default 3; with -o 9)", false},
    {"--seconds", "S", "with -o: measure for at least S seconds (default 0)", false},
    {"-o", "X.cost", "measure every unit for 'sluice plan --cost'; '-': standard output", false},
    {"--micro-batch", "1,2,...", "with -o: micro-batch sizes (default 1,2,4,8)", false},
    {"--busy", "N", "with -o: workers that compute at the same time (default 1)", false},
    {"--optimizer", "O", "with -o: optimizer to measure (default adamw)", false},
    {0},
};

const struct sl_command sl_cli_cmd_profile = {
    .name = "profile",
    .synopsis = "MODEL [--ops] [--batch B] [--threads T] [-o X.cost --micro-batch 1,2 --busy N]",
    .brief = "measure where the time of a training step goes",
    .detail =
        "Measures forward and backward of one micro-batch of --batch samples, kernel by kernel.\n"
        "-o writes a cost table for 'sluice plan': the times of every unit of the model; equal "
        "blocks\n"
        "share one median.\n"
        "\n"
        "  sluice profile gpt-nano --micro-batch 1,2,4 --busy 2 -o nano.cost\n"
        "  sluice plan gpt-nano --cost nano.cost --machine here",
    .options = options,
    .min_args = 1,
    .max_args = 1,
    .run = run,
};
