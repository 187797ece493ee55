/* Pipelines against one worker: synchronous schedules give the same weights, bit for bit, for every
 * number of stages, with ties, running statistics, skip edges, two losses and a short last
 * micro-batch. On the cpu device with real threads. */
#include "pipe/pipe.h"
#include "plan/model.h"
#include "support/model_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 4 };

static const char *const models[] = {
    "model gpt\nsize V = 13, T = 4, C = 8, H = 2\n"
    "input tokens : int[B, T] < V\ninput targets : int[B, T] < V\n"
    "param wte[V, C] ~ normal(0.5)\nparam wpe[T, C] ~ normal(0.5)\n"
    "fn linear(x, n) {\nparam w[n, dim(x, -1)] ~ normal(0.3)\nparam b[n] ~ normal(0.1)\n"
    "return matmul(x, w, b, tb = 1)\n}\n"
    "fn norm(x) {\nparam w[C] ~ ones\nparam b[C] ~ zeros\nreturn layernorm(x, w, b)\n}\n"
    "x = dropout(embed(wte, tokens) + wpe, 0.1)\n"
    "repeat i in 0..4 as h {\n"
    "n = norm(x) as ln1\nq, k, v = split(linear(n, 3 * C) as qkv, parts = 3)\n"
    "q = reshape(q, [B, T, H, C / H])\nk = reshape(k, [B, T, H, C / H])\n"
    "v = reshape(v, [B, T, H, C / H])\n"
    "x = x + linear(reshape(attention(q, k, v, causal = 1), [B, T, C]), C) as proj\n"
    "x = x + linear(gelu(linear(norm(x) as ln2, 4 * C) as up), C) as down\n}\n"
    "loss cross_entropy(matmul(norm(x) as lnf, wte, tb = 1), targets)\n",
    "model u\nsize C = 3, N = 8\ninput image : float[B, 2, N, N]\ninput label : int[B] < 5\n"
    "fn bn(x) {\nparam w[dim(x, 1)] ~ ones\nparam b[dim(x, 1)] ~ zeros\n"
    "state mean[dim(x, 1)] ~ zeros\nstate var[dim(x, 1)] ~ ones\n"
    "return batchnorm(x, w, b, mean, var)\n}\n"
    "fn mix(x) {\nparam w[dim(x, 1), 1, 1] ~ normal(0.5)\nreturn relu(bn(x * w) as bn)\n}\n"
    "a = mix(image) as m1\nb = mix(a) as m2\nc = mix(b) as m3\nd = mix(c) as m4\n"
    "u = concat([d, a, b], axis = 1)\ne = mix(u) as m5\n"
    "param wl[5, 6] ~ normal(0.4)\nparam wm[5, 2] ~ normal(0.4)\n"
    "loss cross_entropy(matmul(global_avgpool(e), wl, tb = 1), label) weight 0.7\n"
    "loss cross_entropy(matmul(global_avgpool(c), wm, tb = 1), label) weight 0.3\n",
};

static struct sl_data *open_data(const struct sl_graph *graph, struct sl_data_input *inputs) {
    struct sl_data *data = NULL;
    for (int64_t i = 0; i < graph->inputs.count; i++) {
        const struct sl_value *v = sl_graph_value(graph, graph->inputs.at[i].value);
        inputs[i] = (struct sl_data_input){
            .name = graph->inputs.at[i].name,
            .dtype = v->dtype == SL_INT ? SL_DATA_INT : SL_DATA_FLOAT,
            .rank = v->shape.rank - 1,
            .below = graph->inputs.at[i].below,
        };
        for (int k = 1; k < v->shape.rank; k++)
            inputs[i].dim[k - 1] = v->shape.dim[k];
    }
    struct sl_data_spec spec = {.source = "synthetic",
                                .inputs = inputs,
                                .input_count = (int)graph->inputs.count,
                                .seed = 3,
                                .validation = 0.1,
                                .threads = 1};
    if (sl_data_open(&spec, &data) != SL_OK)
        fail_msg("%s", sl_err_message());
    return data;
}

static struct sl_train_config make_config(const struct sl_graph *graph, const struct sl_data *data,
                                          int64_t batch, int64_t micros) {
    struct sl_train_config config = {
        .graph = graph,
        .data = data,
        .device = sl_device_find("cpu"),
        .threads = 1,
        .base_lr = 0.01,
        .clip = 0.5,
        .batch = batch,
        .micros = micros,
        .steps = STEPS,
        .seed = 5,
    };
    assert_int_equal(sl_optim_parse("adamw", &config.optim), SL_OK);
    assert_int_equal(sl_optim_lr_parse("cosine:warmup=2", STEPS, &config.lr), SL_OK);
    return config;
}

/* The weights of one worker after STEPS steps, parameter by parameter. */
static float **one_worker(const struct sl_train_config *config) {
    struct sl_train *train;
    struct sl_step_report report;
    if (sl_run_train_open(config, &train) != SL_OK)
        fail_msg("%s", sl_err_message());
    for (int i = 0; i < STEPS; i++)
        assert_int_equal(sl_run_train_step(train, &report), SL_OK);
    const struct sl_program *p = train->worker->programs[SL_WORKER_FULL];
    float **weights = calloc((size_t)p->param_count, sizeof *weights);
    for (int i = 0; i < p->param_count; i++) {
        size_t bytes = (size_t)p->params[i].numel * 4;
        weights[i] = malloc(bytes);
        memcpy(weights[i], sl_run_worker_weight(train->worker, 0, i), bytes);
    }
    sl_run_train_close(train);
    return weights;
}

static void compare(const struct sl_pipe *pipe, const struct sl_graph *graph, float **weights,
                    const char *what) {
    for (int s = 0; s < sl_pipe_stage_count(pipe); s++) {
        const struct sl_worker *w = sl_pipe_worker(pipe, s);
        const struct sl_program *p = w->programs[SL_WORKER_FULL];
        for (int i = 0; i < p->param_count; i++)
            if (memcmp(sl_run_worker_weight(w, sl_pipe_newest(pipe, s), i),
                       weights[p->params[i].param], (size_t)p->params[i].numel * 4) != 0)
                fail_msg("%s: %s differs on stage %d", what,
                         graph->params.at[p->params[i].param].name, s);
    }
}

/* false: the schedule does not support this case. */
static bool check_pipe(const struct sl_train_config *config, const char *schedule, int stages,
                       int workers, float **weights) {
    struct sl_arena arena = {0};
    struct sl_pipe *pipe = NULL;
    struct sl_step_report reports[STEPS];
    const struct sl_graph *graph = config->graph;
    int *stage_of = SL_NEW(&arena, int, graph->forward_count);
    int *worker_of = SL_NEW(&arena, int, stages);
    bool v = strcmp(schedule, "zb-v") == 0 || strcmp(schedule, "dualpipe-v") == 0;
    char what[128];
    for (int s = 0; s < stages; s++)
        worker_of[s] = v ? (s < workers ? s : 2 * workers - 1 - s) : s % workers;
    snprintf(what, sizeof what, "%s %s, %d stages on %d workers", graph->name, schedule, stages,
             workers);
    if (sl_plan_cut_even(graph, config->device->has_kernel, stages, stage_of) != SL_OK)
        fail_msg("%s: %s", what, sl_err_message());
    struct sl_model_plan_spec spec = {
        .graph = graph,
        .stage_of = stage_of,
        .stage_count = stages,
        .micro_size = sl_run_train_full_samples(config->batch, config->micros),
        .optim = &config->optim,
        .worker_count = workers,
        .worker_of = worker_of,
        .has_kernel = config->device->has_kernel,
    };
    struct sl_pipe_config pc = {.train = config, .stage_of = stage_of, .schedule = schedule};
    if (sl_plan_from_model(&arena, &spec, &pc.plan) != SL_OK)
        fail_msg("%s: %s", what, sl_err_message());
    sl_err err = sl_pipe_open(&pc, &pipe);
    if (err != SL_OK && err != SL_ERR_REFUSED)
        fail_msg("%s: %s", what, sl_err_message());
    bool ran = err == SL_OK;
    if (!ran)
        printf("%s: %s\n", what, sl_err_message());
    if (ran && sl_pipe_run(pipe, 1, reports) != SL_OK)
        fail_msg("%s: %s", what, sl_err_message());
    if (ran && sl_pipe_run(pipe, STEPS - 1, reports) != SL_OK)
        fail_msg("%s: %s", what, sl_err_message());
    if (ran)
        compare(pipe, graph, weights, what);
    sl_pipe_close(pipe);
    sl_arena_free(&arena);
    return ran;
}

static void test_synchronous(void **state) {
    (void)state;
    static const char *const schedules[] = {"gpipe", "1f1b", "kfkb",  "interleaved", "zb-h1",
                                            "zb-h2", "zb-v", "graph", "zb-graph",    "dualpipe-v"};
    int ran = 0, refused = 0;
    for (int m = 0; m < SL_COUNT(models); m++) {
        struct sl_graph *graph = model_of_text(models[m]);
        struct sl_data_input inputs[8] = {{0}};
        struct sl_data *data = open_data(graph, inputs);
        for (int shape = 0; shape < 3; shape++) {
            static const int64_t batches[] = {8, 11, 2}, micros[] = {8, 4, 2};
            struct sl_train_config config = make_config(graph, data, batches[shape], micros[shape]);
            float **weights = one_worker(&config);
            for (int s = 0; s < SL_COUNT(schedules); s++) {
                bool chunks = strcmp(schedules[s], "interleaved") == 0 ||
                              strcmp(schedules[s], "zb-v") == 0 ||
                              strcmp(schedules[s], "dualpipe-v") == 0;
                for (int p = 1; p <= 4; p++) {
                    bool ok = check_pipe(&config, schedules[s], chunks ? 2 * p : p, p, weights);
                    ran += ok;
                    refused += !ok;
                }
            }
            for (int64_t i = 0; i < graph->params.count; i++)
                free(weights[i]);
            free(weights);
        }
        sl_data_close(data);
        sl_graph_close(graph);
    }
    printf("count: %d pipelines bit-identical to one worker, %d outside a schedule's domain\n", ran,
           refused);
    assert_true(ran > refused);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_synchronous)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
