/* No mismatch between training and generation: the scores after every generated token have the bits
 * of the evaluation graph on the same tokens, for random batches, lengths of prompts, chunks, threads
 * and stages. SL_TEST_FULL=1: 100,000 tokens of gpt2 and of llama. */
#include "base/rng.h"
#include "decode/engine.h"
#include "job/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

#define HF SL_TEST_SRC_DIR "/tests/fixtures/hf/"

enum { MAX_BATCH = 5, MAX_CHUNK = 9 };

static const struct layout {
    int stages, threads;
} layouts[] = {{1, 1}, {1, 3}, {2, 1}, {2, 2}, {3, 1}};

static uint64_t seed = 20261119, drawn;

static int64_t draw(int64_t below) {
    return (int64_t)(sl_rng_uniform(seed, 1, drawn++) * (double)below);
}

static void must(sl_err err, const char *what) {
    if (err != SL_OK)
        fail_msg("%s: %s", what, sl_err_message());
}

/* Weights of any model: of the size that keeps activations near 1. */
static sl_err read_weights(void *ctx, const char *name, int64_t from, int64_t count, float *out) {
    uint64_t stream = 7;
    (void)ctx;
    for (const char *at = name; *at; at++)
        stream = stream * 131 + (unsigned char)*at;
    for (int64_t i = 0; i < count; i++)
        out[i] = (float)(sl_rng_uniform(seed, stream, (uint64_t)(from + i)) - 0.5) * 0.7F;
    return SL_OK;
}

static bool has_weights(void *ctx, const char *name) {
    (void)ctx;
    (void)name;
    return true;
}

/* ---- the reference: the evaluation graph on whole texts ---- */

struct whole {
    struct sl_device *device;
    struct sl_program *program;
    struct sl_exec *exec;
    void *param, *state, *slot, *work;
    float *logits; /* [batch, T, V] */
};

static void open_whole(const struct sl_graph *graph, int64_t batch, struct whole *w) {
    const struct sl_device_row *row = sl_device_find("cpu");
    struct sl_program_spec spec = {.graph = graph, .samples = batch, .has_kernel = row->has_kernel};
    *w = (struct whole){0};
    must(row->open(&(struct sl_device_config){.threads = 1 + (int)draw(3)}, &w->device), "device");
    must(sl_pass_program_build(&spec, &w->program), "program");
    must(row->bind(w->device, w->program, &w->exec), "bind");
    must(row->alloc(w->device, w->program->param_bytes + 64, &w->param), "param");
    must(row->alloc(w->device, w->program->state_bytes + 64, &w->state), "state");
    must(row->alloc(w->device, w->program->slot_bytes + 64, &w->slot), "slot");
    must(row->alloc(w->device, w->program->work_bytes + 64, &w->work), "work");
    for (int i = 0; i < w->program->param_count; i++) {
        const struct sl_program_param *p = &w->program->params[i];
        must(read_weights(NULL, graph->params.at[p->param].name, 0, p->numel,
                          (float *)((char *)w->param + p->offset)),
             "weights");
    }
}

static void run_whole(struct whole *w, const int32_t *text) {
    const struct sl_program *p = w->program;
    struct sl_device_args args = {.phase = SL_PHASE_F,
                                  .base = {[SL_SPACE_PARAM] = w->param,
                                           [SL_SPACE_STATE] = w->state,
                                           [SL_SPACE_SLOT] = w->slot,
                                           [SL_SPACE_WORK] = w->work}};
    for (int i = 0; i < p->inputs.count; i++)
        memcpy((char *)w->slot + p->inputs.at[i].operand.offset, text,
               sizeof *text * (size_t)p->inputs.at[i].operand.numel);
    must(w->device->row->run(w->device, w->exec, &args), "forward");
    w->logits = (float *)(void *)((char *)w->slot + p->outputs.at[0].operand.offset);
}

static void close_whole(struct whole *w) {
    const struct sl_device_row *row = w->device->row;
    row->unbind(w->device, w->exec);
    sl_pass_program_close(w->program);
    row->free(w->device, w->param);
    row->free(w->device, w->state);
    row->free(w->device, w->slot);
    row->free(w->device, w->work);
    row->close(w->device);
}

/* ---- generation ---- */

struct run {
    const char *name;
    struct sl_graph *graph;
    struct sl_decode_engine *gen;
    struct sl_decode_config config;
    struct sl_decode_sizes sizes;
    int32_t text[MAX_BATCH * 64];
    float *rows;  /* [batch, T, V] scores that were computed */
    bool *filled; /* [batch, T] */
    int64_t tokens;
    unsigned used; /* layouts */
    double kl;
};

/* Writes random texts, in chunks of random lengths, until all are full. */
static void generate(struct run *r) {
    int64_t t = r->sizes.context, v = r->sizes.vocab, batch = r->config.batch;
    int32_t past[MAX_BATCH] = {0}, count[MAX_BATCH], prompt[MAX_BATCH],
            tokens[MAX_BATCH * MAX_CHUNK];
    float *logits = sl_realloc(NULL, sizeof *logits * (size_t)(batch * v));
    memset(r->text, 0, sizeof r->text);
    memset(r->filled, 0, sizeof *r->filled * (size_t)(batch * t));
    for (int64_t b = 0; b < batch; b++)
        prompt[b] = 1 + (int32_t)draw(t - 1);
    for (bool more = true; more;) {
        int64_t length = draw(3) ? 1 + draw(r->config.chunk) : 1;
        length = length > r->config.chunk ? r->config.chunk : length;
        more = false;
        for (int64_t b = 0; b < batch; b++) {
            int64_t left = t - past[b], most = past[b] < prompt[b] ? prompt[b] - past[b] : 1;
            most = most < length ? most : length;
            count[b] =
                (int32_t)(left == 0 || draw(8) == 0 ? 0 : 1 + draw(most < left ? most : left));
            for (int64_t i = 0; i < count[b]; i++)
                r->text[b * t + past[b] + i] = tokens[b * length + i] = (int32_t)draw(v);
        }
        must(sl_decode_step(
                 r->gen, &(struct sl_decode_tokens){length, tokens, past, count, r->text}, logits),
             r->name);
        for (int64_t b = 0; b < batch; b++) {
            past[b] += count[b];
            more |= past[b] < t;
            if (!count[b])
                continue;
            memcpy(r->rows + (b * t + past[b] - 1) * v, logits + b * v, sizeof *logits * (size_t)v);
            r->filled[b * t + past[b] - 1] = true;
        }
    }
    free(logits);
}

static double divergence(const float *a, const float *b, int64_t v) {
    double top = -INFINITY, za = 0, zb = 0, kl = 0;
    for (int64_t k = 0; k < v; k++)
        top = fmax(top, fmax((double)a[k], (double)b[k]));
    for (int64_t k = 0; k < v; k++) {
        za += exp((double)a[k] - top);
        zb += exp((double)b[k] - top);
    }
    for (int64_t k = 0; k < v; k++)
        kl += exp((double)a[k] - top) / za *
              ((double)a[k] - top - log(za) - ((double)b[k] - top - log(zb)));
    return kl;
}

static void compare(struct run *r, const struct whole *w) {
    int64_t t = r->sizes.context, v = r->sizes.vocab;
    for (int64_t i = 0; i < r->config.batch * t; i++) {
        if (!r->filled[i])
            continue;
        r->tokens++;
        r->kl += fabs(divergence(r->rows + i * v, w->logits + i * v, v));
        for (int64_t k = 0; k < v; k++)
            if (memcmp(&r->rows[i * v + k], &w->logits[i * v + k], 4) != 0)
                fail_msg("%s: score %lld of token %lld of sequence %lld is %.9g, in training %.9g "
                         "(batch %lld, chunk %lld, %d threads, %d stages)",
                         r->name, (long long)k, (long long)(i % t), (long long)(i / t),
                         (double)r->rows[i * v + k], (double)w->logits[i * v + k],
                         (long long)r->config.batch, (long long)r->config.chunk, r->config.threads,
                         r->config.stages);
    }
}

static void open_graph(struct run *r, const char *name, const char *sizes) {
    static const char *const dirs[] = {SL_TEST_SRC_DIR "/models", NULL};
    *r = (struct run){.name = name};
    must(sl_job_model_open(
             &(struct sl_job_model_request){.name = name, .dirs = dirs, .sizes = sizes}, NULL,
             &r->graph),
         name);
    if (r->graph->stored.close)
        r->graph->stored.close(r->graph->stored.ctx);
    r->graph->stored = (struct sl_stored_values){.has = has_weights, .read = read_weights};
    must(sl_decode_sizes_of(r->graph, &r->sizes), name);
    assert_true(r->sizes.context <= 64);
}

/* Batches of texts in one layout. */
static void try_layout(struct run *r, const struct layout *layout, int64_t texts) {
    unsigned bit = 1U << (layout - layouts);
    struct whole w;
    int64_t scores;
    r->config = (struct sl_decode_config){.graph = r->graph,
                                          .device = sl_device_find("cpu"),
                                          .threads = layout->threads,
                                          .stages = layout->stages,
                                          .batch = 1 + draw(MAX_BATCH),
                                          .chunk = 1 + draw(MAX_CHUNK)};
    sl_err err = sl_decode_open(&r->config, &r->gen);
    if (err == SL_ERR_REFUSED && layout->stages > 1)
        return;
    must(err, r->name);
    r->used |= bit;
    r->config.chunk = r->config.chunk < r->sizes.context ? r->config.chunk : r->sizes.context;
    scores = r->config.batch * r->sizes.context;
    r->rows = sl_realloc(NULL, sizeof *r->rows * (size_t)(scores * r->sizes.vocab));
    r->filled = sl_realloc(NULL, sizeof *r->filled * (size_t)scores);
    open_whole(r->graph, r->config.batch, &w);
    for (int64_t i = 0; i < texts; i++) {
        generate(r);
        run_whole(&w, r->text);
        compare(r, &w);
    }
    close_whole(&w);
    sl_decode_close(r->gen);
    free(r->rows);
    free(r->filled);
}

static void try_model(const char *name, const char *sizes, int64_t tokens) {
    struct run r;
    open_graph(&r, name, sizes);
    for (int i = 0; r.tokens < tokens; i++)
        try_layout(&r, &layouts[i % SL_COUNT(layouts)], 4);
    assert_true(r.kl == 0);
    assert_true(!*sizes || !strstr(sizes, "L=3") || r.used == (1U << SL_COUNT(layouts)) - 1);
    print_message("%-40s %6lld tokens, KL %g\n", strrchr(name, '/') ? strrchr(name, '/') + 1 : name,
                  (long long)r.tokens, r.kl);
    sl_graph_close(r.graph);
}

static void generation_has_the_bits_of_training(void **state) {
    const char *full = getenv("SL_TEST_FULL");
    int64_t tokens = full && *full == '1' ? 100000 : 2000;
    (void)state;
    try_model("gpt2", "V=61,T=40,P=40,L=3,C=48,H=3", tokens);
    try_model("llama", "V=61,T=40,L=3,C=48,H=4,K=2,F=70", tokens);
}

/* Attention of several operators, windows, capped scores, parallel blocks, partial rotation. */
static void all_architectures_agree(void **state) {
    static const char *const models[] = {"gpt2",  "gpt2-odd", "gpt_neox", "llama", "mistral",
                                         "qwen2", "qwen3",    "phi3",     "gemma2"};
    char path[512];
    (void)state;
    for (int i = 0; i < SL_COUNT(models); i++) {
        snprintf(path, sizeof path, "%s%s", HF, models[i]);
        try_model(path, "", 150);
        try_model(path, "dropout=0", 150);
    }
}

/* Models whose tokens read later ones are refused by name. */
static void other_models_are_refused(void **state) {
    struct run r;
    (void)state;
    open_graph(&r, HF "gpt2", "");
    r.config = (struct sl_decode_config){.graph = r.graph,
                                         .device = sl_device_find("reference"),
                                         .threads = 1,
                                         .stages = 1,
                                         .batch = 1,
                                         .chunk = 1};
    assert_int_equal(sl_decode_open(&r.config, &r.gen), SL_ERR_REFUSED);
    assert_non_null(strstr(sl_err_message(), "decode_attention"));
    r.config.device = sl_device_find("cpu");
    r.config.stages = 40;
    assert_int_equal(sl_decode_open(&r.config, &r.gen), SL_ERR_REFUSED);
    assert_non_null(strstr(sl_err_message(), "stages"));
    sl_graph_close(r.graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(generation_has_the_bits_of_training),
        cmocka_unit_test(all_architectures_agree),
        cmocka_unit_test(other_models_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
