/* Speed of generation with cached keys: the share of the memory bandwidth at batch 1, and the ratio to
 * generation without a cache at batch 16.
 *
 *   sample [--model NAME] [--set SIZES] [--threads N] [--steps N]
 *
 * Bytes of a token: all weights but the embedding tables that are only looked up. The bandwidth is that
 * of reading a buffer of 1 GiB on the same threads. Without a cache, a token costs a forward pass over
 * the T tokens of the model. Weights are random; times are medians.
 *
 *   RESULT bench=sample model=gpt2 batch=1 threads=1 tokens_s=49.6 gb_s=13.35 bandwidth_gb_s=36.47
 *          share=0.37
 *   RESULT bench=sample model=gpt2 batch=16 threads=1 tokens_s=97.3 plain_tokens_s=0.33 ratio=296
 */
#include "base/clock.h"
#include "base/rng.h"
#include "decode/engine.h"
#include "device/cpu/cpu.h"
#include "job/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MODELS "models"

enum { READ_BYTES = 1 << 30, MAX_STEPS = 512 };

static void must(sl_err err) {
    if (err == SL_OK)
        return;
    fprintf(stderr, "sample: %s\n", sl_err_message());
    exit(1);
}

static sl_err read_weights(void *ctx, const char *name, int64_t from, int64_t count, float *out) {
    (void)ctx;
    for (int64_t i = 0; i < count; i++)
        out[i] = (float)((from + i + (int64_t)strlen(name)) * 7919 % 1009 - 504) * 1e-4F;
    return SL_OK;
}

static int compare(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static double median(int64_t *ns, int count) {
    qsort(ns, (size_t)count, sizeof *ns, compare);
    return (double)ns[count / 2] * 1e-9;
}

/* ---- bandwidth ---- */

struct reading {
    const float *from;
    double sum[256];
};

static void read_part(void *ctx, int thread, int threads) {
    struct reading *r = ctx;
    int64_t from, to;
    float sum[16] = {0};
    sl_device_pool_range(READ_BYTES / 4, 16, thread, threads, &from, &to);
    for (int64_t i = from; i + 16 <= to; i += 16)
        for (int k = 0; k < 16; k++)
            sum[k] += r->from[i + k];
    for (int k = 0; k < 16; k++)
        r->sum[thread % 256] += (double)sum[k];
}

static double bandwidth(int threads) {
    struct reading r = {0};
    struct sl_device_pool *pool;
    int64_t ns[5];
    float *buffer = malloc(READ_BYTES);
    if (!buffer)
        exit(1);
    memset(buffer, 0, READ_BYTES);
    r.from = buffer;
    must(sl_device_pool_open(threads, &pool));
    for (int i = 0; i < 5; i++) {
        int64_t start = sl_clock_ns();
        sl_device_pool_run(pool, read_part, &r);
        ns[i] = sl_clock_ns() - start;
    }
    sl_device_pool_close(pool);
    free(buffer);
    return READ_BYTES / median(ns, 5) + (r.sum[0] > 1 ? 1 : 0);
}

/* ---- generation ---- */

struct bench {
    const char *model;
    struct sl_graph *graph;
    int threads, steps;
    double bandwidth;
};

/* Seconds of a step with one token of each sequence, at the end of the context. */
static double time_cached(const struct bench *b, int64_t batch) {
    struct sl_decode_config config = {.graph = b->graph,
                                      .device = sl_device_find("cpu"),
                                      .threads = b->threads,
                                      .stages = 1,
                                      .batch = batch,
                                      .chunk = 2};
    struct sl_decode_engine *engine;
    must(sl_decode_open(&config, &engine));
    struct sl_decode_sizes sizes = sl_decode_sizes(engine);
    int32_t tokens[16], past[16], count[16];
    int32_t *text = calloc((size_t)(batch * sizes.context), sizeof *text);
    float *logits = malloc(sizeof *logits * (size_t)(batch * sizes.vocab));
    int64_t ns[MAX_STEPS];
    if (!text || !logits)
        exit(1);
    for (int i = 0; i < b->steps; i++) { /* all positions alike */
        for (int64_t k = 0; k < batch; k++) {
            tokens[k] = (int32_t)((i * 31 + k) % sizes.vocab);
            past[k] = (int32_t)(i * sizes.context / b->steps);
            count[k] = 1;
        }
        int64_t start = sl_clock_ns();
        must(sl_decode_step(engine, &(struct sl_decode_tokens){1, tokens, past, count, text},
                            logits));
        ns[i] = sl_clock_ns() - start;
    }
    sl_decode_close(engine);
    free(text);
    free(logits);
    return median(ns, b->steps);
}

/* Seconds of a forward pass over whole texts. */
static double time_plain(const struct bench *b, int64_t batch) {
    const struct sl_device_row *row = sl_device_find("cpu");
    struct sl_program_spec spec = {
        .graph = b->graph, .samples = batch, .has_kernel = row->has_kernel};
    struct sl_device_args args = {.phase = SL_PHASE_F};
    struct sl_program *program;
    struct sl_device *device;
    struct sl_exec *exec;
    must(row->open(&(struct sl_device_config){.threads = b->threads}, &device));
    must(sl_pass_program_build(&spec, &program));
    must(row->bind(device, program, &exec));
    int64_t sizes[SL_SPACE_COUNT] = {[SL_SPACE_PARAM] = program->param_bytes,
                                     [SL_SPACE_STATE] = program->state_bytes,
                                     [SL_SPACE_SLOT] = program->slot_bytes,
                                     [SL_SPACE_WORK] = program->work_bytes};
    for (int s = 0; s < SL_SPACE_COUNT; s++)
        must(row->alloc(device, sizes[s] + 64, &args.base[s]));
    int64_t start = sl_clock_ns();
    must(row->run(device, exec, &args));
    double seconds = (double)(sl_clock_ns() - start) * 1e-9;
    row->unbind(device, exec);
    sl_pass_program_close(program);
    for (int s = 0; s < SL_SPACE_COUNT; s++)
        row->free(device, args.base[s]);
    row->close(device);
    return seconds;
}

/* Weights that a token reads: not the tables of which it looks up a row. */
static double token_bytes(const struct sl_graph *graph) {
    double bytes = 0;
    for (int64_t i = 0; i < graph->params.count; i++) {
        int value = graph->params.at[i].value, readers = 0, lookups = 0;
        for (int64_t n = 0; n < graph->nodes.count; n++)
            for (int k = 0; k < graph->nodes.at[n].in_count; k++)
                if (graph->nodes.at[n].in[k] == value) {
                    readers++;
                    lookups += graph->nodes.at[n].op->layer == SL_LAYER_EMBED;
                }
        if (readers > lookups)
            bytes += 4.0 * (double)sl_graph_shape_numel(&sl_graph_value(graph, value)->shape, 1);
    }
    return bytes;
}

static void report(const struct bench *b) {
    double one = time_cached(b, 1), rate = token_bytes(b->graph) / one;
    printf("RESULT bench=sample model=%s batch=1 threads=%d tokens_s=%.1f gb_s=%.2f "
           "bandwidth_gb_s=%.2f share=%.2f\n",
           b->model, b->threads, 1 / one, rate * 1e-9, b->bandwidth * 1e-9, rate / b->bandwidth);
    fflush(stdout);
    double many = time_cached(b, 16), plain = time_plain(b, 16);
    printf("RESULT bench=sample model=%s batch=16 threads=%d tokens_s=%.1f plain_tokens_s=%.2f "
           "ratio=%.0f\n",
           b->model, b->threads, 16 / many, 16 / plain, plain / many);
}

int main(int argc, char **argv) {
    static const char *const dirs[] = {MODELS, NULL};
    static const char *const models[][2] = {{"gpt2", "T=512,P=512"},
                                            {"llama", "V=32000,T=512,L=8,C=1024,H=16,K=4,F=2816"}};
    const char *model = NULL, *sizes = "";
    struct bench b = {.threads = 1, .steps = 24};
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--model") == 0)
            model = argv[i + 1];
        else if (strcmp(argv[i], "--set") == 0)
            sizes = argv[i + 1];
        else if (strcmp(argv[i], "--threads") == 0)
            b.threads = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--steps") == 0)
            b.steps = atoi(argv[i + 1]) < MAX_STEPS ? atoi(argv[i + 1]) : MAX_STEPS;
    }
    b.bandwidth = bandwidth(b.threads);
    for (int i = 0; i < (model ? 1 : SL_COUNT(models)); i++) {
        b.model = model ? model : models[i][0];
        must(sl_job_model_open(
            &(struct sl_job_model_request){
                .name = b.model, .dirs = dirs, .sizes = model ? sizes : models[i][1]},
            NULL, &b.graph));
        b.graph->stored = (struct sl_stored_values){.read = read_weights};
        report(&b);
        sl_graph_close(b.graph);
    }
    return 0;
}
