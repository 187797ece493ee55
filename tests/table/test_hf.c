/* Models of transformers against PyTorch: every folder of tests/fixtures/hf is read, starts from its
 * weights and takes ten steps; loss, scores and every gradient of step 1 and the losses of all steps
 * are compared. The same with frozen parameters and adapters, tests/fixtures/tune. Written by
 * tests/fixtures/make_hf.py and make_tune.py, which compute in double. */
#include "fixture.h"
#include "hf/folder.h"
#include "job/model.h"
#include "job/parts.h"
#include "run/train.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

#define FOLDERS SL_TEST_SRC_DIR "/tests/fixtures/hf"
#define TUNES SL_TEST_SRC_DIR "/tests/fixtures/tune"

enum { STEPS = 10, BATCH = 4, MICROS = 2, CASES = 64 };

struct folder {
    char path[512];
    struct sl_fixture expected;
    struct sl_graph *graph, *eval;
    struct sl_data *data;
    struct sl_train *train;
    double
        gradient_off; /* relative; large adapters are worse conditioned, also in PyTorch's fp32 */
};

static void must(sl_err err, const char *what) {
    if (err != SL_OK)
        fail_msg("%s: %s", what, sl_err_message());
}

static const struct sl_fixture_tensor *find(const struct folder *f, const char *what,
                                            const char *name) {
    char key[256];
    snprintf(key, sizeof key, "%s%s", what, name);
    const struct sl_fixture_tensor *tensor = sl_fixture_find(&f->expected, key);
    if (!tensor || !tensor->f)
        fail_msg("%s: nothing is expected of '%s'; run tests/fixtures/make_hf.py", f->path, key);
    return tensor;
}

/* Relative distance; of vectors that are nearly zero, the distance. */
static double distance(const float *a, const float *b, int64_t count) {
    double off = 0, norm = 0;
    for (int64_t i = 0; i < count; i++) {
        off += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        norm += (double)b[i] * (double)b[i];
    }
    return norm > 1e-10 ? sqrt(off / norm) : sqrt(off);
}

static void open_data(struct folder *f) {
    static struct sl_data_input inputs[16];
    const struct sl_fixture_tensor *rows = find(f, "rows", "");
    for (int64_t i = 0; i < f->graph->inputs.count; i++) {
        const struct sl_value *v = sl_graph_value(f->graph, f->graph->inputs.at[i].value);
        inputs[i] = (struct sl_data_input){
            .name = f->graph->inputs.at[i].name,
            .dtype = v->dtype == SL_INT ? SL_DATA_INT : SL_DATA_FLOAT,
            .rank = v->shape.rank - 1,
            .below = f->graph->inputs.at[i].below,
        };
        for (int k = 1; k < v->shape.rank; k++)
            inputs[i].dim[k - 1] = v->shape.dim[k];
    }
    struct sl_data_spec spec = {.source = "f32:",
                                .inputs = inputs,
                                .input_count = (int)f->graph->inputs.count,
                                .in_order = true,
                                .threads = 1};
    struct sl_data_file file = {"rows", rows->f, rows->count * 4};
    must(sl_data_open_memory(&spec, &file, 1, &f->data), f->path);
    assert_int_equal(sl_data_count(f->data, SL_DATA_TRAIN), BATCH);
}

/* Adapters start from the values of the fixture: with their own B, which is zero, A has no gradient. */
static void set_adapters(struct folder *f) {
    const struct sl_program *p = f->train->worker->programs[SL_WORKER_FULL];
    for (int i = 0; i < p->param_count; i++) {
        const char *name = f->graph->params.at[p->params[i].param].name;
        if (strstr(name, ".lora_"))
            memcpy(sl_run_worker_weight(f->train->worker, 0, i), find(f, "init/", name)->f,
                   (size_t)p->params[i].numel * 4);
    }
}

/* `tune`: a file of tests/fixtures/tune, or NULL. */
static void open_folder(struct folder *f, const char *name, const char *tune) {
    static const char *const dirs[] = {SL_TEST_SRC_DIR "/models", NULL};
    char path[768];
    *f = (struct folder){.gradient_off = tune ? 1e-4 : 1e-5};
    snprintf(f->path, sizeof f->path, "%s/%s", FOLDERS, name);
    if (tune)
        snprintf(path, sizeof path, "%s/%s", TUNES, tune);
    else
        snprintf(path, sizeof path, "%s/expected.safetensors", f->path);
    must(sl_fixture_open(&f->expected, path), f->path);
    if (tune)
        snprintf(f->path, sizeof f->path, "%s/%s", FOLDERS,
                 sl_fixture_text(&f->expected, "folder"));
    struct sl_job_model_request request = {.name = f->path,
                                           .dirs = dirs,
                                           .sizes = sl_fixture_text(&f->expected, "sets"),
                                           .freeze = sl_fixture_text(&f->expected, "freeze"),
                                           .lora = sl_fixture_text(&f->expected, "lora")};
    must(sl_job_model_open(&request, &f->graph, &f->eval), f->path);
    must(sl_graph_autodiff(f->graph), f->path);
    must(sl_job_init_attach(f->graph, f->graph->folder, false), f->path);
    open_data(f);
    struct sl_train_config config = {.graph = f->graph,
                                     .eval_graph = f->eval,
                                     .eval_every = 1,
                                     .data = f->data,
                                     .device = sl_device_find("cpu"),
                                     .threads = 1,
                                     .base_lr = 1e-2,
                                     .batch = BATCH,
                                     .micros = MICROS,
                                     .steps = STEPS,
                                     .seed = 3};
    must(sl_optim_parse("adamw:beta1=0.9,beta2=0.95,wd=0.1,wd_all=1", &config.optim), name);
    must(sl_optim_lr_parse("constant", STEPS, &config.lr), name);
    must(sl_run_train_open(&config, &f->train), f->path);
    set_adapters(f);
}

static void close_folder(struct folder *f) {
    sl_run_train_close(f->train);
    sl_data_close(f->data);
    sl_graph_close(f->graph);
    sl_graph_close(f->eval);
    sl_fixture_close(&f->expected);
}

static double worst_gradient(const struct folder *f) {
    const struct sl_program *p = f->train->worker->programs[SL_WORKER_FULL];
    double worst = 0;
    for (int i = 0; i < p->param_count; i++) {
        const char *name = f->graph->params.at[p->params[i].param].name;
        const struct sl_fixture_tensor *g = find(f, "grad/", name);
        assert_int_equal(g->count, p->params[i].numel);
        double off = distance(sl_run_worker_grad(f->train->worker, 0, i), g->f, g->count);
        if (!(off <= f->gradient_off))
            fail_msg("%s: the gradient of %s is off by %g", f->path, name, off);
        worst = fmax(worst, off);
    }
    return worst;
}

/* Scores of the first micro-batch with the initial weights. */
static double check_logits(struct folder *f) {
    struct sl_worker *worker = f->train->worker;
    const struct sl_program_port *port = sl_run_train_find_output(f->train, "logits");
    const struct sl_fixture_tensor *want = find(f, "logits", "");
    enum sl_worker_program program = sl_run_train_eval_program(f->train);
    int slot = program == SL_WORKER_EVAL ? worker->slots : 0;
    struct sl_feed feed = {SL_DATA_TRAIN, program, 0, BATCH / MICROS, slot};
    struct sl_worker_pass pass = {.program = program, .slot = slot};
    assert_non_null(port);
    assert_int_equal(port->operand.numel * MICROS, want->count);
    float *got = sl_realloc(NULL, sizeof *got * (size_t)port->operand.numel);
    must(sl_run_train_count(f->train, SL_DATA_TRAIN, 0, BATCH / MICROS, f->train->counts), f->path);
    must(sl_run_train_feed(f->train, &feed), f->path);
    must(sl_run_worker_pass(worker, &pass), f->path);
    must(sl_run_worker_get(worker, slot, port, got), f->path);
    double off = distance(got, want->f, port->operand.numel);
    free(got);
    if (!(off <= 2e-6))
        fail_msg("%s: the scores are off by %g", f->path, off);
    return off;
}

/* As many gradients as PyTorch has. */
static void check_count(const struct folder *f) {
    int count = 0;
    for (int64_t i = 0; i < f->expected.tensors.count; i++)
        count += strncmp(f->expected.tensors.at[i].name, "grad/", 5) == 0;
    assert_int_equal(count, f->train->worker->programs[SL_WORKER_FULL]->param_count);
}

static void check_folder(const char *name, const char *tune) {
    struct folder f;
    double gradient = 0, last = 0;
    open_folder(&f, name, tune);
    if (tune)
        check_count(&f);
    double logits = check_logits(&f);
    const struct sl_fixture_tensor *loss = find(&f, "loss", "");
    for (int step = 0; step < STEPS; step++) {
        struct sl_step_report report;
        must(sl_run_train_step(f.train, &report), f.path);
        last = fabs(report.loss / (double)loss->f[step] - 1);
        if (!(last <= (step ? 1e-4 : 1e-6)))
            fail_msg("%s: the loss of step %d is %.9g, PyTorch's is %.9g", f.path, step + 1,
                     report.loss, (double)loss->f[step]);
        if (step == 0)
            gradient = worst_gradient(&f);
    }
    print_message("%-20s scores %.1e, gradients %.1e, loss of step 10 %.1e\n", tune ? tune : name,
                  logits, gradient, last);
    close_folder(&f);
}

static int check_all(const char *where, bool tunes) {
    struct dirent **list;
    int count = scandir(where, &list, NULL, alphasort), folders = 0;
    assert_true(count > 0);
    for (int i = 0; i < count; i++) {
        if (list[i]->d_name[0] != '.') {
            check_folder(tunes ? "" : list[i]->d_name, tunes ? list[i]->d_name : NULL);
            folders++;
        }
        free(list[i]);
    }
    free(list);
    return folders;
}

static void folders_agree_with_torch(void **state) {
    (void)state;
    print_message("count: %d folders as in PyTorch\n", check_all(FOLDERS, false));
}

static void tuned_models_agree_with_torch(void **state) {
    (void)state;
    print_message("count: %d tuned models as in PyTorch\n", check_all(TUNES, true));
}

/* Every architecture has a folder. */
static void every_row_has_a_folder(void **state) {
    (void)state;
    for (int i = 0; sl_hf_arch_at(i); i++) {
        const struct sl_hf_arch *arch;
        struct sl_text text = {0};
        char path[512];
        snprintf(path, sizeof path, "%s/%s", FOLDERS, sl_hf_arch_at(i)->model_type);
        must(sl_hf_folder_read(path, &arch, &text), path);
        assert_ptr_equal(arch, sl_hf_arch_at(i));
        sl_text_free(&text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folders_agree_with_torch),
        cmocka_unit_test(tuned_models_agree_with_torch),
        cmocka_unit_test(every_row_has_a_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
