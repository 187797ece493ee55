/* Shared code of the pipeline benches: a model with synthetic data, plans, timed runs. */
#ifndef SL_BENCH_PIPE_BENCH_H
#define SL_BENCH_PIPE_BENCH_H

#include "base/clock.h"
#include "base/rng.h"
#include "base/sort.h"
#include "device/bind.h"
#include "device/cpu/cpu.h"
#include "graph/model.h"
#include "op/registry.h"
#include "pipe/state.h"
#include "plan/cut.h"
#include "plan/model.h"
#include "sched/deps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static inline void must(sl_err err) {
    if (err == SL_OK)
        return;
    fprintf(stderr, "bench: %s\n", sl_err_message());
    exit(1);
}

/* The best instruction set with a steady speed. AMX units of a shared machine switch between two
 * speeds, three times apart. */
static inline const char *steady_isa(void) {
    return sl_device_cpu_has_avx512() ? "avx512" : sl_device_cpu_has_avx2() ? "avx2" : "any";
}

/* Binds every thread of a pipeline to a core of its own if there are enough cores. */
static inline enum sl_bind_mode bind_all(int64_t threads) {
    return threads <= sl_device_bind_count() ? SL_BIND_CORES : SL_BIND_NONE;
}

struct bench { /* a model with data */
    struct sl_graph *graph;
    struct sl_data *data;
    struct sl_data_input inputs[16];
    struct sl_train_config train;
    struct sl_arena arena;
    int *stage_of;
};

static inline void open_data(struct bench *b) {
    for (int64_t i = 0; i < b->graph->inputs.count; i++) {
        const struct sl_value *v = sl_graph_value(b->graph, b->graph->inputs.at[i].value);
        b->inputs[i] = (struct sl_data_input){
            .name = b->graph->inputs.at[i].name,
            .dtype = v->dtype == SL_INT ? SL_DATA_INT : SL_DATA_FLOAT,
            .rank = v->shape.rank - 1,
            .below = b->graph->inputs.at[i].below,
        };
        for (int k = 1; k < v->shape.rank; k++)
            b->inputs[i].dim[k - 1] = v->shape.dim[k];
    }
    struct sl_data_spec spec = {.source = "synthetic",
                                .inputs = b->inputs,
                                .input_count = (int)b->graph->inputs.count,
                                .seed = 3,
                                .validation = 0.1,
                                .threads = 1};
    must(sl_data_open(&spec, &b->data));
}

/* sets: "L=4,C=128", or "". */
static inline void open_bench(struct bench *b, const char *file, const char *sets, int threads) {
    static const char *const dirs[] = {"models", NULL};
    struct sl_model_options options = {.find_op = sl_op_find,
                                       .nearest_op = sl_op_nearest,
                                       .find_used = sl_graph_model_find_used,
                                       .find_ctx = dirs};
    *b = (struct bench){0};
    must(sl_graph_model_parse_sets(sets, &b->arena, &options));
    must(sl_graph_model_read_file(file, &options, &b->graph));
    must(sl_graph_autodiff(b->graph));
    open_data(b);
    b->train = (struct sl_train_config){
        .graph = b->graph,
        .data = b->data,
        .device = sl_device_find("cpu"),
        .threads = threads,
        .base_lr = 3e-4,
        .seed = 1,
    };
    must(sl_optim_parse("adamw", &b->train.optim));
    must(sl_optim_lr_parse("constant", 1, &b->train.lr));
    b->stage_of = SL_NEW(&b->arena, int, b->graph->forward_count);
}

static inline void close_bench(struct bench *b) {
    sl_data_close(b->data);
    sl_graph_close(b->graph);
    sl_arena_free(&b->arena);
}

/* A plan with the stages of b->stage_of; b->train gives the size of a micro-batch. */
static inline const struct sl_plan *plan_of(struct bench *b, int stages, int workers,
                                            const int *worker_of, bool recompute) {
    struct sl_model_plan_spec spec = {
        .graph = b->graph,
        .stage_of = b->stage_of,
        .stage_count = stages,
        .micro_size = sl_run_train_full_samples(b->train.batch, b->train.micros),
        .recompute = recompute,
        .optim = &b->train.optim,
        .policy = &b->train.policy,
        .worker_count = workers,
        .worker_of = worker_of,
        .has_kernel = b->train.device->has_kernel,
    };
    const struct sl_plan *plan;
    must(sl_plan_from_model(&b->arena, &spec, &plan));
    return plan;
}

/* An even cut, one worker per stage. */
static inline const struct sl_plan *even_plan(struct bench *b, int stages, bool recompute) {
    int *worker_of = SL_NEW(&b->arena, int, stages);
    must(sl_plan_cut_even(b->graph, b->train.device->has_kernel, stages, b->stage_of));
    for (int s = 0; s < stages; s++)
        worker_of[s] = s;
    return plan_of(b, stages, stages, worker_of, recompute);
}

/* Seconds of a step: wall time, and CPU time of all threads. */
struct cost {
    double wall, cpu;
};

static inline struct cost run_steps(struct sl_pipe *pipe, int64_t steps) {
    struct sl_step_report *reports = calloc((size_t)steps, sizeof *reports);
    int64_t start = sl_clock_ns(), cpu = sl_clock_process_ns();
    must(sl_pipe_run(pipe, steps, reports));
    struct cost cost = {(double)(sl_clock_ns() - start) / 1e9 / (double)steps,
                        (double)(sl_clock_process_ns() - cpu) / 1e9 / (double)steps};
    free(reports);
    return cost;
}

/* CPU seconds since boot that the host of this virtual machine gave to others (steal), all CPUs. */
static inline double stolen_seconds(void) {
    FILE *stat = fopen("/proc/stat", "r");
    double ticks[8] = {0}; /* user nice system idle iowait irq softirq steal */
    if (stat && fscanf(stat, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &ticks[0], &ticks[1], &ticks[2],
                       &ticks[3], &ticks[4], &ticks[5], &ticks[6], &ticks[7]) != 8)
        ticks[7] = 0;
    if (stat)
        fclose(stat);
    return ticks[7] / (double)sysconf(_SC_CLK_TCK);
}

static inline int by_number(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts `at`. 0 if count is 0. */
static inline double median_of(double *at, int64_t count) {
    sl_sort(at, count, sizeof *at, by_number);
    return count ? (at[(count - 1) / 2] + at[count / 2]) / 2 : 0;
}

/* (largest - smallest) / median; `at` is sorted. */
static inline double spread_of(const double *at, int64_t count) {
    return count ? (at[count - 1] - at[0]) * 2 / (at[(count - 1) / 2] + at[count / 2]) : 0;
}

struct interval {
    double middle, low, high;
};

enum { RESAMPLES = 2000 };

/* Of the median, by bootstrap: one in `tail` resamples is below `low`, one above `high`. Sorts. */
static inline struct interval interval_with(double *at, int64_t count, int tail) {
    double *drawn = calloc((size_t)count, sizeof *drawn), middles[RESAMPLES];
    uint64_t number = 0;
    for (int k = 0; k < RESAMPLES; k++) {
        for (int64_t i = 0; i < count; i++)
            drawn[i] = at[sl_rng_below(1, 1, number++, count)];
        middles[k] = median_of(drawn, count);
    }
    free(drawn);
    median_of(middles, RESAMPLES);
    return (struct interval){median_of(at, count), middles[RESAMPLES / tail],
                             middles[RESAMPLES - 1 - RESAMPLES / tail]};
}

/* The 95 % interval. */
static inline struct interval interval_of(double *at, int64_t count) {
    return interval_with(at, count, 40);
}

/* reached: the whole interval is above the goal; missed: below it; open: this run cannot tell. goal
 * 0: none. */
static inline void put_interval(struct interval i, double goal) {
    printf(" low=%.4f high=%.4f", i.low, i.high);
    if (goal > 0)
        printf(" goal=%.2f verdict=%s", goal,
               i.low >= goal    ? "reached"
               : i.high >= goal ? "open"
                                : "missed");
}

/* Is the name one of "a,b,c"? */
static inline bool is_listed(const char *list, const char *name) {
    size_t length = strlen(name);
    for (const char *at = strstr(list, name); at; at = strstr(at + 1, name))
        if ((at == list || at[-1] == ',') && (at[length] == ',' || at[length] == 0))
            return true;
    return false;
}

/* Options of a bench: pairs of a name and a value. */
struct bench_option {
    const char *name;
    int64_t *number; /* or */
    const char **text;
};

static inline bool read_options(int argc, char **argv, const struct bench_option *options) {
    for (int i = 1; i < argc; i += 2) {
        const struct bench_option *o = options;
        while (o->name && strcmp(o->name, argv[i]) != 0)
            o++;
        if (!o->name || i + 1 == argc) {
            fprintf(stderr, "options:");
            for (o = options; o->name; o++)
                fprintf(stderr, " %s %s", o->name, o->number ? "N" : "TEXT");
            fprintf(stderr, "\n");
            return false;
        }
        if (o->number)
            *o->number = atoll(argv[i + 1]);
        else
            *o->text = argv[i + 1];
    }
    return true;
}

#endif
