/* Profile of a training step on a device: the time of each instruction, summed per kernel, and the
 * time of the whole step with graphs.
 *
 *   bench/step MODELS/gpt2.model "V=50304" BATCH DTYPE [DEVICE]     DTYPE: fp32, tf32, bf16, fp16
 *
 *   RESULT bench=step model=... batch=... dtype=... step_ms=... items... kernels_ms=... gflop=...
 *   KERNEL name count ms share gflops
 */
#include "base/clock.h"
#include "base/par.h"
#include "graph/model.h"
#include "op/registry.h"
#include "run/inputs.h"
#include "run/train.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WARM = 3, TIMED = 15, MAX_KERNELS = 128 };

static void must(sl_err err) {
    if (err == SL_OK)
        return;
    fprintf(stderr, "bench step: %s\n", sl_err_message());
    exit(1);
}

static struct sl_graph *open_model(const char *file, const char *sets, const char **dirs) {
    struct sl_arena arena = {0};
    struct sl_graph *graph = NULL;
    struct sl_model_options options = {.find_op = sl_op_find,
                                       .nearest_op = sl_op_nearest,
                                       .find_used = sl_graph_model_find_used,
                                       .find_ctx = dirs};
    must(sl_graph_model_parse_sets(sets, &arena, &options));
    must(sl_graph_model_read_file(file, &options, &graph));
    must(sl_graph_autodiff(graph));
    sl_arena_free(&arena);
    return graph;
}

static struct sl_data *open_data(const struct sl_graph *graph, struct sl_arena *arena) {
    struct sl_data_spec spec = {.source = "synthetic",
                                .input_count = (int)graph->inputs.count,
                                .validation = 0.1,
                                .seed = 1};
    struct sl_data_input *inputs;
    struct sl_data *data;
    must(sl_run_describe_inputs(arena, graph, &inputs));
    spec.inputs = inputs;
    must(sl_data_open(&spec, &data));
    return data;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Forward and backward of one micro-batch, and the step. The inputs are sent before the clock starts,
 * in every step: a pass reuses their memory after the last reader. */
static double one_step(struct sl_train *train, const struct sl_feed *feed, int64_t *op_ns) {
    struct sl_step_report report = {0};
    struct sl_worker_pass pass = {.program = SL_WORKER_FULL, .op_ns = op_ns};
    must(sl_run_train_feed(train, feed));
    for (int s = 0; s < SL_STREAM_COUNT; s++)
        must(train->device->row->sync(train->device, (enum sl_stream)s));
    int64_t start = sl_clock_ns();
    must(sl_run_worker_pass(train->worker, &pass));
    pass.phase = SL_PHASE_B;
    must(sl_run_worker_pass(train->worker, &pass));
    must(sl_run_train_apply(train, &report));
    must(train->device->row->sync(train->device, SL_STREAM_COMPUTE));
    return (double)(sl_clock_ns() - start) * 1e-6;
}

struct row {
    const char *name;
    int count;
    double ms, flops;
};

static int by_time(const void *a, const void *b) {
    return compare(&((const struct row *)b)->ms, &((const struct row *)a)->ms);
}

static double put_table(const struct sl_program *p, const int64_t *op_ns, int runs) {
    struct row rows[MAX_KERNELS] = {{0}};
    int count = 0;
    double total = 0;
    for (int i = 0; i < p->instr_count; i++) {
        int r = 0;
        while (r < count && strcmp(rows[r].name, p->instrs[i].kernel) != 0)
            r++;
        if (r == MAX_KERNELS)
            continue;
        count = r == count ? count + 1 : count;
        rows[r].name = p->instrs[i].kernel;
        rows[r].count++;
        rows[r].ms += (double)op_ns[i] * 1e-6 / runs;
        rows[r].flops += p->instrs[i].flops;
        total += (double)op_ns[i] * 1e-6 / runs;
    }
    qsort(rows, (size_t)count, sizeof *rows, by_time);
    for (int r = 0; r < count; r++)
        printf("KERNEL %-20s %4d %9.3f ms %5.1f %% %8.1f TFLOP/s\n", rows[r].name, rows[r].count,
               rows[r].ms, 100 * rows[r].ms / total, rows[r].flops / (rows[r].ms * 1e-3) * 1e-12);
    return total;
}

/* The largest products, one by one. */
static void put_products(const struct sl_program *p, const int64_t *op_ns, int runs) {
    for (int i = 0; i < p->instr_count; i++) {
        const struct sl_instr *instr = &p->instrs[i];
        char a[SL_SHAPE_TEXT], b[SL_SHAPE_TEXT];
        double ms = (double)op_ns[i] * 1e-6 / runs;
        if (strncmp(instr->kernel, "matmul", 6) != 0 || (i > 40 && i < p->instr_count - 40))
            continue;
        printf("PRODUCT %-15s %s %s t=%d%d %8.3f ms %7.1f TFLOP/s\n", instr->kernel,
               sl_graph_shape_text(&instr->in[0].shape, a),
               sl_graph_shape_text(&instr->in[1].shape, b), (int)instr->attr[0].i,
               (int)instr->attr[1].i, ms, instr->flops / (ms * 1e-3) * 1e-12);
    }
}

int main(int argc, char **argv) {
    struct sl_arena arena = {0};
    struct sl_train *train;
    double ms[TIMED];
    if (argc < 5) {
        fprintf(stderr, "usage: step FILE.model SETS BATCH fp32|tf32|bf16|fp16 [DEVICE]\n");
        return 2;
    }
    char *folder = sl_arena_dup(&arena, argv[1], strlen(argv[1]));
    char *slash = strrchr(folder, '/');
    if (slash)
        *slash = 0;
    const char *dirs[] = {slash ? folder : ".", NULL};
    struct sl_graph *graph = open_model(argv[1], argv[2], dirs);
    struct sl_train_config config = {.graph = graph,
                                     .data = open_data(graph, &arena),
                                     .device = sl_device_find(argc > 5 ? argv[5] : "cuda"),
                                     .threads = sl_par_cores(), /* for the first weights */
                                     .dtype = strcmp(argv[4], "bf16") == 0   ? SL_BF16
                                              : strcmp(argv[4], "fp16") == 0 ? SL_FP16
                                                                             : SL_FLOAT,
                                     .tf32 = strcmp(argv[4], "tf32") == 0,
                                     .base_lr = 3e-4,
                                     .clip = 1,
                                     .batch = strtoll(argv[3], NULL, 10),
                                     .micros = 1,
                                     .steps = 100,
                                     .seed = 1};
    if (!config.device || config.device->missing()) {
        printf("skipped: %s\n", config.device ? config.device->missing() : "no such device");
        return 77;
    }
    if (config.dtype == SL_FP16) /* fixed loss scale: no step is skipped */
        must(sl_optim_loss_scale_parse("1024", &config.loss_scale));
    must(sl_optim_parse("adamw:wd=0.1", &config.optim));
    must(sl_optim_lr_parse("constant", 100, &config.lr));
    must(sl_run_train_open(&config, &train));
    const struct sl_program *p = train->worker->programs[SL_WORKER_FULL];
    struct sl_feed feed = {SL_DATA_TRAIN, SL_WORKER_FULL, 0, config.batch, 0};
    must(sl_run_train_count(train, SL_DATA_TRAIN, 0, config.batch, train->counts));
    for (int i = 0; i < WARM; i++)
        one_step(train, &feed, NULL);
    for (int i = 0; i < TIMED; i++)
        ms[i] = one_step(train, &feed, NULL);
    qsort(ms, TIMED, sizeof *ms, compare);
    int64_t *op_ns = SL_NEW(&arena, int64_t, p->instr_count);
    for (int i = 0; i < 3; i++)
        one_step(train, &feed, op_ns);
    double total = put_table(p, op_ns, 3), flops = 0;
    if (argc > 6)
        put_products(p, op_ns, 3);
    for (int i = 0; i < p->instr_count; i++)
        flops += p->instrs[i].flops;
    printf("RESULT bench=step model=%s batch=%lld dtype=%s step_ms=%.3f low_ms=%.3f high_ms=%.3f "
           "samples_per_s=%.2f kernels_ms=%.3f tflops=%.1f gib=%.3f\n",
           graph->name, (long long)config.batch, argv[4], ms[TIMED / 2], ms[0], ms[TIMED - 1],
           (double)config.batch / (ms[TIMED / 2] * 1e-3), total,
           flops / (ms[TIMED / 2] * 1e-3) * 1e-12, (double)train->worker->bytes / 1073741824.0);
    sl_run_train_close(train);
    sl_data_close((struct sl_data *)config.data);
    sl_graph_close(graph);
    sl_arena_free(&arena);
    return 0;
}
