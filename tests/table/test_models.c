/* Every model of models/: it has a row here, its parameters are as many as published, and, shrunk
 * to a few numbers, the gradient that autodiff built agrees with a central difference of the loss
 * along a random direction, in double. */
#include "base/rng.h"
#include "graph/model.h"
#include "graph/stats.h"
#include "op/registry.h"
#include "pass/program.h"

#include <dirent.h>
#include <math.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

static const struct model {
    const char *name;
    int64_t parameters;
    const char *source; /* of the number */
    const char *small;  /* sizes for the gradient */
} models[] = {
    /* Encoder of d layers: d (12 C^2 + 13 C); embeddings (V + P + 2) C + 2 C; head C^2 + 3 C + V.
     */
    {"bert-base", 109514298, "transformers BertForMaskedLM, bert-base-uncased",
     "V=11,T=5,P=7,L=2,C=6,H=3"},
    {"bert-large", 335174458, "transformers BertForMaskedLM, bert-large-uncased",
     "V=11,T=5,P=5,L=1,C=6,H=2,drop=0.25,classes=3"},
    /* Inputs 1, 1, 942, 5270, 2048, 5270, 2048: sum (n + 1) W; then 7 x 3 (W + 1) W; 7 W + 1. */
    {"candle-uno", 416280577,
     "GraphPipe appendix A.2, derived: 15580 W + 7 W + 21 (W + 1) W + 7 W + 1",
     "branches=5,L=2,W=5,top=1,shrink=1000"},
    {"clip", 151277313, "OpenAI CLIP ViT-B/32 (github.com/openai/CLIP)",
     "G=3,S=8,patch=4,VC=6,VL=1,VH=2,V=11,T=5,TC=4,TL=2,TH=2,E=5"},
    {"deepseek-moe", 16375728128, "transformers DeepseekForCausalLM, deepseek-moe-16b-base",
     "V=11,T=5,L=2,C=8,H=2,K=2,F=3,E=5,A=3,S=4,dense=1,D=6"},
    /* 7 tables of 10^6 x 64; 28 layers (W + 1) W; 73472 W + W; 3 (W + 1) W; W + 1 */
    {"dlrm", 1269170177, "GraphPipe appendix A.2, derived from its shapes",
     "dense_branches=2,sparse_branches=2,L=2,W=5,N=3,rows=7,E=3,bag=4,top=2"},
    /* GPT: V C + P C + L (12 C^2 + 13 C) + 2 C */
    {"gpt-1.3b", 1312577536,
     "PipeDream-2BW's driver: 24 x 2048, derived; the paper says 1.3 billion",
     "V=11,T=5,P=5,L=1,C=6,H=3"},
    {"gpt-2.2b", 2156366592,
     "PipeDream-2BW's driver: 32 x 2304, derived; the paper says 2.2 billion",
     "V=11,T=5,P=5,L=1,C=6,H=3"},
    {"gpt-3.8b", 3781125120,
     "PipeDream-2BW's driver: 32 x 3072, derived; the paper says 3.8 billion",
     "V=11,T=5,P=5,L=1,C=6,H=3"},
    {"gpt-355m", 354298880,
     "PipeDream-2BW's driver: 24 x 1024, derived; the paper says 355 million",
     "V=11,T=5,P=5,L=1,C=6,H=3"},
    {"gpt-nano", 366432, "ours", "V=11,T=5,P=5,L=1,C=6,H=3"},
    {"gpt-tiny", 2743296, "ours", "V=11,T=5,P=5,L=1,C=6,H=3"},
    {"gpt2", 124439808, "transformers GPT2LMHeadModel, gpt2 (124M)",
     "V=11,T=5,P=7,L=2,C=6,H=3,drop=0.25"},
    {"gpt2-1.5b", 1557611200, "transformers GPT2LMHeadModel, gpt2-xl", "V=11,T=5,P=5,L=1,C=6,H=3"},
    {"gpt2-355m", 354823168, "transformers GPT2LMHeadModel, gpt2-medium",
     "V=11,T=5,P=5,L=1,C=6,H=3"},
    {"gpt2-774m", 774030080, "transformers GPT2LMHeadModel, gpt2-large",
     "V=11,T=5,P=5,L=1,C=6,H=3"},
    {"inception-v4", 42679816, "timm inception_v4", "S=75,W=1,A=1,M=1,C=1,classes=3"},
    {"lenet", 61706, "LeCun et al. 1998 with full connections, as commonly counted",
     "W=3,classes=5"},
    {"llama", 8030261248, "transformers LlamaForCausalLM, Meta-Llama-3-8B",
     "V=11,T=5,L=2,C=12,H=3,K=1,F=7"},
    {"mlp", 669706, "ours: 784 x 512, 512 x 512, 512 x 10", "N=7,W=5,classes=3"},
    /* 4 (8 (12 C^2 + 13 C) + 2 C) + (4 C + 1) classes */
    {"mmt", 407184360, "GraphPipe appendix A.2, derived; about 0.4 billion there",
     "branches=3,T=5,L=1,C=6,H=2,F=7,classes=3"},
    {"moe", 46702792704, "transformers MixtralForCausalLM, Mixtral-8x7B-v0.1",
     "V=11,T=5,L=2,C=12,H=3,K=1,F=7,E=4,A=2"},
    /* V C + 8 (8 C^2 + 8 C) + 2 C + 2 */
    {"residual-lstm", 27051010, "ours, derived", "V=11,T=5,L=2,C=4,classes=0"},
    {"resnet152", 60192808, "torchvision resnet152",
     "cifar=1,S=9,W=2,N1=1,N2=1,N3=1,N4=1,classes=3"},
    {"resnet18", 11689512, "torchvision resnet18", "cifar=1,S=9,W=2,N1=1,N2=1,N3=0,N4=0,classes=3"},
    {"resnet50", 25557032, "torchvision resnet50", "S=37,W=2,N1=1,N2=1,N3=1,N4=1,classes=3"},
    /* (3072 + 1) W + 15 (W + 1) W + 10 (W + 1) */
    {"snn", 69259274, "ours, derived", "N=7,L=3,W=5,classes=3"},
    {"tinyllama", 1100048384, "transformers LlamaForCausalLM, TinyLlama-1.1B",
     "V=11,T=5,L=1,C=12,H=3,K=3,F=7,tied=1"},
    /* (V + T) C + 6 (12 C^2 + 13 C) + 2 C + 2 C + 2 */
    {"transformer-classifier", 29287426, "Vaswani et al. 2017 base encoder, derived",
     "V=11,T=5,L=2,C=6,H=3,F=7,classes=3"},
    {"u-net", 31037698, "github.com/milesial/Pytorch-UNet, 3 channels, 2 classes, not bilinear",
     "S=8,L=2,W=2"},
    {"vgg16", 138357544, "torchvision vgg16", "S=32,W=1,hidden=5,classes=3"},
    /* ViT-B/16 without class token 85797888 - 768, projector 768 x 2048 and 2048 x 2048, TinyLlama
     */
    {"vlm", 1191616768, "ViT-B/16 and TinyLlama, derived",
     "S=8,patch=4,VC=6,VL=1,VH=2,V=11,T=5,L=1,C=12,H=3,K=1,F=7"},
};

static struct sl_graph *open_model(const char *name, const char *sets, bool eval) {
    static const char *const dirs[] = {SL_MODELS_SRC_DIR, NULL};
    struct sl_arena arena = {0};
    struct sl_graph *graph = NULL;
    struct sl_model_options options = {.find_op = sl_op_find,
                                       .nearest_op = sl_op_nearest,
                                       .eval = eval,
                                       .find_used = sl_graph_model_find_used,
                                       .find_ctx = dirs};
    const char *file = sl_arena_printf(&arena, "%s/%s.model", SL_MODELS_SRC_DIR, name);
    sl_err err = sl_graph_model_parse_sets(sets, &arena, &options);
    if (err == SL_OK)
        err = sl_graph_model_read_file(file, &options, &graph);
    if (err == SL_OK)
        err = sl_graph_autodiff(graph);
    if (err != SL_OK)
        fail_msg("%s --set %s: %s", name, sets, sl_err_message());
    sl_arena_free(&arena);
    return graph;
}

static void test_parameters(void **state) {
    (void)state;
    for (int i = 0; i < SL_COUNT(models); i++) {
        struct sl_graph *graph = open_model(models[i].name, "", false);
        struct sl_graph_stats stats;
        sl_graph_stats(graph, &stats);
        assert_string_equal(graph->name, models[i].name);
        if (stats.parameters != models[i].parameters)
            fail_msg("%s has %lld parameters, %s has %lld", models[i].name,
                     (long long)stats.parameters, models[i].source,
                     (long long)models[i].parameters);
        sl_graph_close(graph);
    }
    print_message("count: %d models with their published number of parameters\n", SL_COUNT(models));
}

static void test_classification_heads(void **state) {
    (void)state;
    struct sl_graph_stats stats;
    struct sl_graph *graph = open_model("bert-base", "classes=2", false);
    sl_graph_stats(graph, &stats);
    /* transformers BertForSequenceClassification, bert-base-uncased, two labels */
    assert_int_equal(stats.parameters, 109483778);
    sl_graph_close(graph);
    graph = open_model("resnet18", "cifar=1", false);
    sl_graph_stats(graph, &stats);
    /* github.com/kuangliu/pytorch-cifar ResNet18 */
    assert_int_equal(stats.parameters, 11173962);
    sl_graph_close(graph);
}

static void test_every_file_has_a_row(void **state) {
    (void)state;
    DIR *dir = opendir(SL_MODELS_SRC_DIR);
    const struct dirent *entry;
    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL) {
        size_t length = strlen(entry->d_name);
        bool found = length < 7 || strcmp(entry->d_name + length - 6, ".model") != 0 ||
                     strcmp(entry->d_name, "layers.model") == 0 ||
                     strncmp(entry->d_name, "hf-", 3) == 0; /* libraries: see test_hf.c */
        for (int i = 0; !found && i < SL_COUNT(models); i++)
            found = strlen(models[i].name) == length - 6 &&
                    strncmp(models[i].name, entry->d_name, length - 6) == 0;
        if (!found)
            fail_msg("models/%s has no row in tests/table/test_models.c", entry->d_name);
    }
    closedir(dir);
}

/* ---- gradients ---- */

enum { BATCH = 3, SEED = 7 };

static void fill_inputs(struct sl_ref_run *run) {
    for (int64_t i = 0; i < run->graph->inputs.count; i++) {
        const struct sl_input *input = &run->graph->inputs.at[i];
        struct sl_array *array = &run->arrays[input->value];
        int64_t count = sl_graph_shape_numel(&array->shape, 1);
        for (int64_t j = 0; j < count; j++) {
            double u = sl_rng_uniform(SEED, 1000 + (uint64_t)i, (uint64_t)j);
            if (array->i)
                array->i[j] = input->below ? (int32_t)(u * (double)input->below) : 1;
            else
                array->f[j] = 2 * u - 1;
        }
    }
}

static double direction(int64_t param, int64_t element) {
    return sl_rng_normal(SEED, 5000 + (uint64_t)param, (uint64_t)element);
}

/* Biases that start at 0 would leave relu at its kink for inputs that are 0: move everything. */
static void move_params(struct sl_ref_run *run, double by) {
    for (int64_t p = 0; p < run->graph->params.count; p++) {
        struct sl_array *array = &run->arrays[run->graph->params.at[p].value];
        int64_t count = sl_graph_shape_numel(&array->shape, 1);
        for (int64_t j = 0; j < count; j++)
            array->f[j] += by * direction(p, j);
    }
}

static double loss_at(struct sl_ref_run *run, double by) {
    move_params(run, by);
    sl_op_ref_nodes(run, 0, run->graph->forward_count);
    move_params(run, -by);
    return sl_op_ref_loss(run);
}

/* The loss must not change along a straight line faster or slower than the gradient says. */
static void check_gradient(const struct model *model, const struct sl_graph *graph) {
    struct sl_ref_run *run = sl_op_ref_open(graph, BATCH, SEED);
    double slope = 0, scale = 0, measured = 0;
    bool agrees = false;
    fill_inputs(run);
    move_params(run, 0.05);
    sl_op_ref_nodes(run, 0, graph->nodes.count);
    assert_true(isfinite(sl_op_ref_loss(run)));
    for (int64_t g = 0; g < graph->grads.count; g++) {
        const struct sl_param_grad *grad = &graph->grads.at[g];
        const struct sl_array *array = &run->arrays[grad->value];
        int64_t count = sl_graph_shape_numel(&array->shape, 1);
        for (int64_t j = 0; j < count; j++) {
            slope += array->f[j] * direction(grad->param, j);
            scale += fabs(array->f[j] * direction(grad->param, j));
        }
    }
    /* A kink of relu or maxpool between the two points spoils a step, a smaller one avoids it. */
    for (double step = 1e-6; !agrees && step > 5e-9; step /= 10) {
        measured = (loss_at(run, step) - loss_at(run, -step)) / (2 * step);
        agrees = fabs(slope - measured) <= 1e-6 + 1e-5 * scale;
    }
    if (!agrees || scale == 0)
        fail_msg("%s: slope %.12g by autodiff, %.12g by difference (scale %g)", model->name, slope,
                 measured, scale);
    sl_op_ref_close(run);
}

static void test_gradients(void **state) {
    (void)state;
    for (int i = 0; i < SL_COUNT(models); i++) {
        struct sl_graph *graph = open_model(models[i].name, models[i].small, false);
        check_gradient(&models[i], graph);
        sl_graph_close(graph);
        sl_graph_close(open_model(models[i].name, models[i].small, true));
    }
    static const struct model switched[] = {
        {"dlrm", 0, "", "dot=1,dense_branches=2,sparse_branches=2,L=1,W=5,N=3,rows=7,E=3,bag=4"},
        {"residual-lstm", 0, "", "V=11,T=5,L=2,C=4,classes=3"},
        {"bert-base", 0, "", "V=11,T=5,P=5,L=1,C=6,H=2,classes=3"},
    };
    for (int i = 0; i < SL_COUNT(switched); i++) {
        struct sl_graph *graph = open_model(switched[i].name, switched[i].small, false);
        check_gradient(&switched[i], graph);
        sl_graph_close(graph);
    }
    print_message("count: %d models against central differences\n",
                  SL_COUNT(models) + SL_COUNT(switched));
}

/* ---- programs ---- */

/* Texts of the programs of three stages. */
static void write_programs(const struct sl_graph *graph, bool recompute, struct sl_text *out) {
    enum { STAGES = 3 };
    int64_t nodes = graph->forward_count;
    struct sl_arena arena = {0};
    int *group = SL_NEW(&arena, int, nodes + 1), *stage_of = SL_NEW(&arena, int, nodes + 1);
    sl_pass_glue(graph, NULL, group);
    for (int64_t n = 0; n < nodes; n++)
        stage_of[n] = group[n] == n ? (int)(n * STAGES / nodes) : stage_of[group[n]];
    for (int s = 0; s < STAGES; s++) {
        struct sl_program *p;
        struct sl_program_spec spec = {.graph = graph,
                                       .stage_of = stage_of,
                                       .stage = s,
                                       .samples = BATCH,
                                       .recompute = recompute};
        if (sl_pass_program_build(&spec, &p) != SL_OK)
            fail_msg("%s: %s", graph->name, sl_err_message());
        sl_pass_program_write(p, out);
        sl_pass_program_close(p);
    }
    sl_arena_free(&arena);
}

/* A run directory has the flat form of a model, in which inputs and parameters come first. A resumed
 * run reads memory of the first one, so the flat form must have the same programs. */
static void test_flat_programs(void **state) {
    (void)state;
    for (int i = 0; i < SL_COUNT(models); i++) {
        struct sl_graph *graph = open_model(models[i].name, models[i].small, false), *flat;
        struct sl_model_options options = {.find_op = sl_op_find, .nearest_op = sl_op_nearest};
        struct sl_text model = {0}, texts[2] = {{0}, {0}};
        sl_graph_model_write(graph, &model);
        assert_int_equal(
            sl_graph_model_read("flat", model.at, (size_t)model.length, &options, &flat), SL_OK);
        assert_int_equal(sl_graph_autodiff(flat), SL_OK);
        for (int recompute = 0; recompute < 2; recompute++) {
            write_programs(graph, recompute, &texts[0]);
            write_programs(flat, recompute, &texts[1]);
        }
        if (strcmp(texts[0].at, texts[1].at) != 0)
            fail_msg("%s: its flat form has other programs", models[i].name);
        sl_text_free(&texts[0]);
        sl_text_free(&texts[1]);
        sl_text_free(&model);
        sl_graph_close(graph);
        sl_graph_close(flat);
    }
    print_message("count: %d models whose flat form has the same programs\n", SL_COUNT(models));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parameters),           cmocka_unit_test(test_classification_heads),
        cmocka_unit_test(test_every_file_has_a_row), cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_flat_programs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
