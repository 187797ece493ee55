/* sluice profile: where the time of a training step goes, kernel by kernel. */
#include "base/clock.h"
#include "base/json.h"
#include "cli/command.h"
#include "cli/run_options.h"

#include <stdlib.h>
#include <string.h>

struct row { /* all instructions of one kernel */
    const char *kernel;
    int count;
    int64_t dur_ns;
    double flops;
};

static int compare_rows(const void *a, const void *b) {
    const struct row *x = a, *y = b;
    return (x->dur_ns < y->dur_ns) - (x->dur_ns > y->dur_ns);
}

static struct row *find_row(struct row *rows, int *count, const char *kernel) {
    for (int i = 0; i < *count; i++)
        if (strcmp(rows[i].kernel, kernel) == 0)
            return &rows[i];
    rows[*count] = (struct row){.kernel = kernel};
    return &rows[(*count)++];
}

/* Forward and backward of one micro-batch `rounds` times, after one that warms up. */
static sl_err measure(struct sl_train *train, int64_t rounds, int64_t *op_ns) {
    struct sl_feed feed = {.split = SL_DATA_TRAIN,
                           .count = train->worker->programs[SL_WORKER_FULL]->samples};
    SL_TRY(sl_train_count(train, SL_DATA_TRAIN, 0, feed.count, train->counts));
    for (int64_t r = -1; r < rounds; r++) {
        struct sl_pass pass = {.op_ns = r < 0 ? NULL : op_ns};
        SL_TRY(sl_train_feed(train, &feed));
        SL_TRY(sl_worker_pass(train->worker, &pass));
        pass.phase = SL_PHASE_B;
        SL_TRY(sl_worker_pass(train->worker, &pass));
    }
    return SL_OK;
}

static void put_rows(struct sl_text *text, const struct row *rows, int count, int64_t total) {
    char time[SL_HUMAN_BYTES];
    sl_text_printf(text, "%-20s %6s %12s %7s %10s\n", "kernel", "calls", "time", "share",
                   "GFLOP/s");
    for (int i = 0; i < count; i++)
        sl_text_printf(text, "%-20s %6d %12s %6.1f%% %10.1f\n", rows[i].kernel, rows[i].count,
                       sl_human_ns(rows[i].dur_ns, time),
                       100.0 * (double)rows[i].dur_ns / (double)(total ? total : 1),
                       rows[i].dur_ns ? rows[i].flops / (double)rows[i].dur_ns : 0.0);
    sl_text_printf(text, "%-20s %6s %12s\n", "all", "", sl_human_ns(total, time));
}

static void put_json(struct sl_text *text, const struct row *rows, int count, int64_t total) {
    struct sl_json_out json = {.text = text, .indent = 2};
    sl_json_open(&json, '{');
    sl_json_put_int(&json, "total_ns", total);
    sl_json_key(&json, "kernels");
    sl_json_open(&json, '[');
    for (int i = 0; i < count; i++) {
        sl_json_open(&json, '{');
        sl_json_put_string(&json, "kernel", rows[i].kernel);
        sl_json_put_int(&json, "calls", rows[i].count);
        sl_json_put_int(&json, "ns", rows[i].dur_ns);
        sl_json_put_double(&json, "flops", rows[i].flops);
        sl_json_close(&json, '}');
    }
    sl_json_close(&json, ']');
    sl_json_close(&json, '}');
    sl_text_put(text, "\n");
}

static sl_err report(const struct sl_args *args, const struct sl_program *p, const int64_t *op_ns,
                     int64_t rounds) {
    struct sl_arena arena = {0};
    struct sl_text text = {0};
    struct row *rows = SL_NEW(&arena, struct row, p->instr_count);
    int count = 0;
    int64_t total = 0;
    for (int i = 0; i < p->instr_count; i++) {
        struct row *row = find_row(rows, &count, p->instrs[i].kernel);
        row->count++;
        row->dur_ns += op_ns[i] / rounds;
        row->flops += p->instrs[i].flops;
        total += op_ns[i] / rounds;
    }
    qsort(rows, (size_t)count, sizeof *rows, compare_rows);
    if (sl_args_has(args, "--json"))
        put_json(&text, rows, count, total);
    else
        put_rows(&text, rows, count, total);
    sl_err err = sl_print(&text);
    sl_text_free(&text);
    sl_arena_free(&arena);
    return err;
}

static sl_err run(const struct sl_args *args) {
    struct sl_run_inputs inputs;
    struct sl_train_config config;
    struct sl_train *train = NULL;
    int64_t rounds = 3, *op_ns = NULL;
    sl_err err = SL_OK;
    SL_TRY_OUT(sl_args_int(args, "--rounds", 1, 1 << 20, &rounds));
    SL_TRY_OUT(sl_run_open(args, args->positional[0], &inputs));
    SL_TRY_OUT(sl_run_config(args, &inputs, &config));
    config.eval_graph = NULL;
    SL_TRY_OUT(sl_train_open(&config, &train));
    const struct sl_program *p = train->worker->programs[SL_WORKER_FULL];
    op_ns = SL_NEW(&inputs.arena, int64_t, p->instr_count);
    SL_TRY_OUT(measure(train, rounds, op_ns));
    SL_TRY_OUT(report(args, p, op_ns, rounds));
out:
    sl_train_close(train);
    sl_run_close(&inputs);
    return err;
}

static const struct sl_option options[] = {
    SL_RUN_OPTIONS,
    {"--ops", NULL, "a table of kernels (the only report so far)", false},
    {"--rounds", "N", "micro-batches to average over (default 3)", false},
    {0},
};

const struct sl_command sl_cmd_profile = {
    .name = "profile",
    .synopsis = "MODEL [--ops] [--batch B] [--threads T]",
    .brief = "where the time of a training step goes",
    .detail = "Forward and backward of one micro-batch of --batch samples, kernel by kernel.",
    .options = options,
    .min_args = 1,
    .max_args = 1,
    .run = run,
};
