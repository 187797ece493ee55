/* The public interface to evaluation, prediction and text, with the weights of a run. */
#include "sluice/predictor.h"

#include "api/request.h"
#include "api/trainer.h"
#include "job/predict.h"
#include "job/sample.h"

#include <stdlib.h>
#include <string.h>

struct sl_predictor {
    struct sl_trainer *trainer; /* trainer whose data it uses; NULL: it has its own */
    struct sl_job_predictor job;
    struct sl_api_samples samples;
};

static sl_err check(const struct sl_predictor *p, const char *function) {
    SL_TRY(sl_api_check(p, SL_API_IS_PREDICTOR, function));
    if (!p->trainer)
        return SL_OK;
    sl_err err = sl_api_check(p->trainer, SL_API_IS_TRAINER, function);
    return err == SL_OK ? err : sl_err_context(err, "the trainer of this predictor");
}

/* ---- opening ---- */

/* Placeholder for samples of a program that are not given here; only evaluation needs them. */
static int no_samples(void *ctx, int64_t sample, const char *input, void *out, int64_t values) {
    (void)ctx, (void)sample, (void)input, (void)out, (void)values;
    return 1;
}

static sl_err set_all(struct sl_job *job, const char *const *settings) {
    for (int i = 0; settings && settings[i]; i += 2) {
        if (!settings[i + 1])
            return sl_fail(SL_ERR_USAGE, "settings: '%s' has no value", settings[i]);
        SL_TRY(sl_job_set(job, settings[i], settings[i + 1]));
    }
    return SL_OK;
}

/* Opens the samples of the caller, or the placeholder. */
static sl_err open_samples(struct sl_predictor *p, const char *run, const struct sl_job *job,
                           const struct sl_samples *samples, struct sl_job_host *host) {
    struct sl_samples none = {.size = sizeof none, .count = 16, .fill = no_samples};
    struct sl_job stored;
    sl_job_init(&stored);
    sl_err err = sl_job_read_run(&stored, run);
    bool provided = err == SL_OK && !sl_job_has(job, "data") && sl_data_is_provided(stored.data);
    sl_job_free(&stored);
    SL_TRY(err);
    if (!samples && !provided)
        return SL_OK;
    SL_TRY(sl_api_samples_open(samples ? samples : &none, &p->samples));
    host->data = &p->samples.provider;
    return SL_OK;
}

static sl_err open_run(struct sl_predictor *p, const char *run, const char *const *settings,
                       const struct sl_samples *samples) {
    struct sl_job_host host = {0};
    struct sl_job job;
    sl_job_init(&job);
    sl_err err = set_all(&job, settings);
    if (err == SL_OK)
        err = open_samples(p, run, &job, samples, &host);
    if (err == SL_OK)
        err = sl_job_predictor_open(&job, run, &host, &p->job);
    sl_job_free(&job);
    return err;
}

static sl_err finish(struct sl_predictor *p, sl_err err, struct sl_predictor **out) {
    if (err != SL_OK)
        sl_predictor_close(p);
    else
        *out = p;
    return err;
}

sl_err sl_predictor_open(const char *run, const char *const *settings,
                         const struct sl_samples *samples, struct sl_predictor **out) {
    SL_API_GIVEN(out);
    *out = NULL;
    SL_API_GIVEN(run);
    struct sl_predictor *p = sl_api_handle_new(SL_API_IS_PREDICTOR, sizeof *p);
    return finish(p, open_run(p, run, settings, samples), out);
}

sl_err sl_trainer_predictor(struct sl_trainer *trainer, struct sl_predictor **out) {
    SL_API_GIVEN(out);
    *out = NULL;
    SL_API_TRAINER(trainer, SL_TRAINER_OPEN);
    struct sl_predictor *p = sl_api_handle_new(SL_API_IS_PREDICTOR, sizeof *p);
    p->trainer = trainer;
    return finish(
        p,
        sl_job_predictor_copy(&trainer->work, sl_job_training_runner(trainer->training), &p->job),
        out);
}

void sl_predictor_close(struct sl_predictor *p) {
    if (!sl_api_handle_end(p, SL_API_IS_PREDICTOR, __func__))
        return;
    sl_job_predictor_close(&p->job);
    sl_api_samples_close(&p->samples);
    free(p);
}

/* ---- evaluation ---- */

sl_err sl_predictor_evaluate(struct sl_predictor *predictor, int64_t samples,
                             struct sl_evaluation *out) {
    enum { SAMPLES = 1024 };
    struct sl_eval_report report = {0};
    SL_TRY(check(predictor, __func__));
    if (samples < 0)
        return sl_fail(SL_ERR_USAGE, "sl_predictor_evaluate: %lld samples", (long long)samples);
    SL_TRY(sl_run_train_eval(predictor->job.train, samples ? samples : SAMPLES, &report));
    struct sl_evaluation result = {.step = report.step,
                                   .samples = report.samples,
                                   .dur_ns = report.dur_ns,
                                   .loss = report.loss,
                                   .accuracy = report.accuracy};
    return sl_api_result_put("sl_evaluation", out, &result, SL_EVALUATION_FIRST, sizeof result);
}

/* ---- prediction ---- */

sl_err sl_predictor_output(struct sl_predictor *predictor, int index, struct sl_tensor *out) {
    struct sl_tensor found = {.kind = SL_TENSOR_STATISTIC};
    SL_TRY(check(predictor, __func__));
    const struct sl_program_port *port =
        sl_job_predictor_output(&predictor->job, index, &found.name);
    if (!port)
        return sl_fail(SL_ERR_USAGE, "the model has no output %d", index);
    const struct sl_graph *graph = predictor->job.train->config.graph;
    const struct sl_shape *shape = &sl_graph_value(graph, port->value)->shape;
    found.rank = shape->rank;
    for (int i = 0; i < shape->rank; i++)
        found.dim[i] = shape->dim[i];
    found.count = sl_graph_shape_numel(shape, 1);
    return sl_api_result_put("sl_tensor", out, &found, SL_TENSOR_FIRST, sizeof found);
}

struct inputs {
    const struct sl_graph *graph;
    const struct sl_sample_array *arrays;
    int count;
};

static const struct sl_sample_array *find_array(const struct inputs *in, const char *name) {
    for (int i = 0; i < in->count; i++)
        if (strcmp(in->arrays[i].input, name) == 0)
            return &in->arrays[i];
    return NULL;
}

static sl_err fill(void *ctx, int64_t sample, int input, void *dst) {
    const struct inputs *in = ctx;
    const struct sl_input *of = &in->graph->inputs.at[input];
    const struct sl_value *value = sl_graph_value(in->graph, of->value);
    const struct sl_sample_array *array = find_array(in, of->name);
    int64_t numel = sl_graph_shape_numel(&value->shape, 1);
    if (!array) { /* targets of the loss, which do not change an output */
        memset(dst, 0, (size_t)numel * 4);
        return SL_OK;
    }
    SL_TRY(sl_api_array_fill(array, sample, value->dtype == SL_INT, dst));
    for (int64_t i = 0; value->dtype == SL_INT && of->below && i < numel; i++)
        if (((const int32_t *)dst)[i] < 0 || ((const int32_t *)dst)[i] >= of->below)
            return sl_fail(SL_ERR_INPUT, "array '%s', sample %lld: %d is not in [0, %lld)",
                           of->name, (long long)sample, ((const int32_t *)dst)[i],
                           (long long)of->below);
    return SL_OK;
}

static sl_err check_arrays(const struct inputs *in) {
    for (int i = 0; i < in->count; i++) {
        const struct sl_sample_array *a = &in->arrays[i];
        int64_t numel = -1;
        SL_TRY(sl_api_array_check(a, i ? in->arrays[0].samples : -1));
        for (int64_t k = 0; k < in->graph->inputs.count; k++)
            if (strcmp(in->graph->inputs.at[k].name, a->input) == 0)
                numel = sl_graph_shape_numel(
                    &sl_graph_value(in->graph, in->graph->inputs.at[k].value)->shape, 1);
        if (numel < 0)
            return sl_fail(SL_ERR_USAGE, "the model has no input '%s'", a->input);
        if (numel != a->values)
            return sl_fail(SL_ERR_USAGE,
                           "array '%s' has %lld values a sample, the input of the model %lld",
                           a->input, (long long)a->values, (long long)numel);
    }
    return SL_OK;
}

static sl_err find_output(const struct sl_predictor *p, const char *output,
                          const struct sl_program_port **out) {
    const char *name;
    for (int i = 0; (*out = sl_job_predictor_output(&p->job, i, &name)) != NULL; i++)
        if (strcmp(name, output) == 0)
            return SL_OK;
    return sl_fail(SL_ERR_USAGE, "the model has no output '%.200s'", output);
}

sl_err sl_predictor_run(struct sl_predictor *predictor, const struct sl_sample_array *inputs,
                        int input_count, const char *output, float *values, int64_t count) {
    SL_TRY(check(predictor, __func__));
    SL_API_GIVEN(inputs);
    SL_API_GIVEN(output);
    SL_API_GIVEN(values);
    if (input_count < 1)
        return sl_fail(SL_ERR_USAGE, "sl_predictor_run: %d inputs", input_count);
    struct inputs in = {predictor->job.train->config.graph, inputs, input_count};
    struct sl_job_prediction request = {.fill = fill, .ctx = &in, .out = values};
    SL_TRY(check_arrays(&in));
    SL_TRY(find_output(predictor, output, &request.output));
    request.samples = inputs[0].samples;
    const struct sl_shape *shape = &sl_graph_value(in.graph, request.output->value)->shape;
    int64_t numel = sl_graph_shape_numel(shape, 1);
    if (count / numel != request.samples || count % numel)
        return sl_fail(SL_ERR_USAGE,
                       "'%s' of %lld samples has %lld values, the array has room for %lld", output,
                       (long long)request.samples, (long long)(request.samples * numel),
                       (long long)count);
    return sl_job_predict(&predictor->job, &request);
}

/* ---- text ---- */

static sl_err write_all(struct sl_job_sampler *sampler, int64_t tokens, sl_on_text callback,
                        void *ctx) {
    for (int64_t i = 0; i < tokens; i++) {
        struct sl_str text;
        SL_TRY(sl_job_sampler_next(sampler, &text));
        if (callback(ctx, text.at, text.length) != 0)
            break;
    }
    return SL_OK;
}

sl_err sl_predictor_write(struct sl_predictor *predictor, const char *prompt,
                          const struct sl_writing *writing, sl_on_text callback, void *ctx) {
    enum { TOKENS = 200, TOP = 40 };
    struct sl_writing w;
    struct sl_job_sampler sampler;
    SL_TRY(check(predictor, __func__));
    SL_API_GIVEN(prompt);
    SL_TRY(sl_api_request_copy("sl_writing", writing, &w, SL_WRITING_FIRST, sizeof w));
    if (!callback)
        return sl_fail(SL_ERR_USAGE, "sl_predictor_write: callback is NULL");
    if (w.tokens < 0 || !(w.temperature <= 100))
        return sl_fail(SL_ERR_USAGE, "struct sl_writing: %lld tokens at temperature %g",
                       (long long)w.tokens, w.temperature);
    struct sl_job_sample_options options = {
        .temperature = w.temperature < 0    ? 0
                       : w.temperature != 0 ? w.temperature
                                            : 0.8,
        .top = w.top < 0 ? 0
               : w.top   ? w.top
                         : TOP,
        .seed = w.seed ? w.seed : 1,
    };
    sl_err err = sl_job_sampler_open_on(predictor->job.train, &options, prompt, &sampler);
    if (err == SL_OK)
        err = write_all(&sampler, w.tokens ? w.tokens : TOKENS, callback, ctx);
    sl_job_sampler_close(&sampler);
    return err;
}
