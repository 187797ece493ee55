/* sluice predict: outputs of a model for all samples of a data source. */
#include "base/json.h"
#include "base/outfile.h"
#include "cli/command.h"
#include "cli/job_options.h"
#include "job/predict.h"
#include "run/inputs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- results that are computed from the scores of a row ---- */

static void keep(const float *row, int64_t count, float *out) {
    memmove(out, row, sizeof *row * (size_t)count);
}

static void classify(const float *row, int64_t count, float *out) {
    int64_t best = 0;
    for (int64_t i = 1; i < count; i++)
        if (row[i] > row[best])
            best = i;
    *out = (float)best;
}

static void normalize(const float *row, int64_t count, float *out) {
    double top = -INFINITY, sum = 0;
    for (int64_t i = 0; i < count; i++)
        top = fmax(top, (double)row[i]);
    for (int64_t i = 0; i < count; i++)
        sum += exp((double)row[i] - top);
    for (int64_t i = 0; i < count; i++)
        out[i] = (float)(exp((double)row[i] - top) / sum);
}

static const struct what {
    const char *name, *output;
    bool one; /* the result is one integer per row */
    void (*make)(const float *row, int64_t count, float *out);
} whats[] = {
    {"classes", "logits", true, classify},
    {"embeddings", "embeddings", false, keep},
    {"logits", "logits", false, keep},
    {"probabilities", "logits", false, normalize},
};

static const char *what_name(const void *ctx, int i) {
    (void)ctx;
    return whats[i].name;
}

static sl_err find_what(const char *name, const struct what **out) {
    for (int i = 0; i < SL_COUNT(whats); i++)
        if (strcmp(whats[i].name, name) == 0) {
            *out = &whats[i];
            return SL_OK;
        }
    const char *near = sl_nearest(name, SL_COUNT(whats), what_name, NULL);
    return sl_fail(SL_ERR_USAGE,
                   "--what: expected classes, embeddings, logits or probabilities, "
                   "found '%s'%s%s%s",
                   name, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

/* ---- the prediction ---- */

struct prediction {
    struct sl_arena arena;
    struct sl_job_predictor predictor;
    struct sl_data *data; /* all samples, in the order of the source */
    const struct what *what;
    struct sl_job_prediction job;
    int64_t first, samples, row, rows; /* a sample has `rows` rows of `row` numbers */
    struct sl_shape shape;             /* shape of the result of a sample */
    struct sl_outfile file;
    bool npy;
};

static sl_err fill(void *ctx, int64_t sample, int input, void *dst) {
    const struct prediction *p = ctx;
    return sl_data_fill(p->data, SL_DATA_TRAIN, p->first + sample, 1, input, dst);
}

static sl_err open_data(struct prediction *p) {
    const struct sl_job_work *work = &p->predictor.eval.work;
    struct sl_data_input *inputs;
    SL_TRY(sl_run_describe_inputs(&p->arena, work->graph, &inputs));
    struct sl_data_spec spec = {
        .source = work->job.data,
        .tokenizer = *work->job.tokenizer ? work->job.tokenizer : NULL,
        .chat_template = work->job.chat_template,
        .images = work->job.images,
        .categories = work->categories,
        .inputs = inputs,
        .input_count = (int)work->graph->inputs.count,
        .in_order = true,
        .seed = (uint64_t)work->job.seed,
    };
    SL_TRY(sl_data_open(&spec, &p->data));
    p->samples = sl_data_count(p->data, SL_DATA_TRAIN);
    return SL_OK;
}

static sl_err find_output(struct prediction *p) {
    const struct sl_program_port *port;
    const char *name;
    for (int i = 0; (port = sl_job_predictor_output(&p->predictor, i, &name)) != NULL; i++) {
        if (strcmp(name, p->what->output) != 0)
            continue;
        const struct sl_shape *shape = &port->operand.shape;
        int64_t all = port->operand.numel / shape->dim[0];
        p->job.output = port;
        p->row = shape->rank > 1 ? shape->dim[shape->rank - 1] : 1;
        p->rows = all / p->row;
        p->shape.rank = shape->rank - 1 - (p->what->one && shape->rank > 1);
        for (int k = 0; k < p->shape.rank; k++)
            p->shape.dim[k] = shape->dim[k + 1];
        return SL_OK;
    }
    return sl_fail(SL_ERR_REFUSED, "this model has no output '%s'", p->what->output);
}

static sl_err open_prediction(const struct sl_args *args, const struct sl_job *job,
                              struct prediction *p) {
    struct sl_job_host host = {.model_dirs = sl_cli_model_dirs(args, &p->arena)};
    SL_TRY(find_what(sl_args_text(args, "--what", "logits"), &p->what));
    host.embeddings = strcmp(p->what->output, "embeddings") == 0;
    SL_TRY(sl_job_predictor_open(job, args->positional[0], &host, &p->predictor));
    SL_TRY(find_output(p));
    SL_TRY(open_data(p));
    int64_t samples = p->samples;
    SL_TRY(sl_args_int(args, "--samples", 1, INT64_MAX, &samples));
    p->samples = samples < p->samples ? samples : p->samples;
    return SL_OK;
}

static void close_prediction(struct prediction *p) {
    sl_job_predictor_close(&p->predictor);
    sl_data_close(p->data);
    sl_arena_free(&p->arena);
}

/* ---- files ---- */

/* Writes the header of NumPy's format, version 1.0, whose length is a multiple of 64 bytes. */
static sl_err put_npy_header(struct prediction *p) {
    struct sl_text head = {0};
    unsigned char start[10] = "\x93NUMPY\x01\x00";
    sl_text_printf(&head, "{'descr': '<%s4', 'fortran_order': False, 'shape': (%lld,",
                   p->what->one ? "i" : "f", (long long)p->samples);
    for (int k = 0; k < p->shape.rank; k++)
        sl_text_printf(&head, " %lld%s", (long long)p->shape.dim[k],
                       k + 1 < p->shape.rank ? "," : "");
    sl_text_put(&head, "), }");
    while ((head.length + sizeof start + 1) % 64)
        sl_text_put(&head, " ");
    sl_text_put(&head, "\n");
    start[8] = (unsigned char)(head.length & 255);
    start[9] = (unsigned char)(head.length >> 8);
    sl_err err = sl_outfile_write(&p->file, start, sizeof start);
    if (err == SL_OK)
        err = sl_outfile_write(&p->file, head.at, head.length);
    sl_text_free(&head);
    return err;
}

static sl_err put_npy(struct prediction *p, float *values, int64_t count) {
    for (int64_t i = 0; p->what->one && i < count; i++) {
        int32_t number = (int32_t)values[i];
        memcpy(&values[i], &number, sizeof number);
    }
    return sl_outfile_write(&p->file, values, sizeof *values * (size_t)count);
}

/* Writes nested lists according to the shape; returns how many values they have. */
static int64_t put_list(struct sl_text *text, const struct sl_shape *shape, int axis,
                        const float *values) {
    int64_t used = 0;
    if (axis == shape->rank) {
        if (isfinite(*values))
            sl_text_printf(text, "%.9g", (double)*values);
        else
            sl_text_put(text, "null");
        return 1;
    }
    sl_text_put(text, "[");
    for (int64_t i = 0; i < shape->dim[axis]; i++) {
        sl_text_put(text, i ? ", " : "");
        used += put_list(text, shape, axis + 1, values + used);
    }
    sl_text_put(text, "]");
    return used;
}

static sl_err put_lines(struct prediction *p, const float *values, int64_t samples) {
    struct sl_text text = {0};
    for (int64_t i = 0; i < samples; i++) {
        sl_text_printf(&text, "{\"sample\": %lld, \"%s\": ", (long long)p->first + i,
                       p->what->name);
        values += put_list(&text, &p->shape, 0, values);
        sl_text_put(&text, "}\n");
    }
    sl_err err = sl_outfile_write(&p->file, text.at, text.length);
    sl_text_free(&text);
    return err;
}

static sl_err write_all(struct prediction *p) {
    int64_t unit = p->job.output->operand.shape.dim[0], all = p->rows * p->row,
            each = p->what->one ? p->rows : all;
    float *values = sl_realloc(NULL, sizeof *values * (size_t)(unit * all));
    sl_err err = SL_OK;
    p->job.fill = fill;
    p->job.ctx = p;
    p->job.out = values;
    if (p->npy)
        SL_TRY_OUT(put_npy_header(p));
    for (p->first = 0; p->first < p->samples; p->first += unit) {
        int64_t left = p->samples - p->first;
        p->job.samples = left < unit ? left : unit;
        SL_TRY_OUT(sl_job_predict(&p->predictor, &p->job));
        int64_t stride = p->what->one ? 1 : p->row;
        for (int64_t r = 0; r < p->job.samples * p->rows; r++)
            p->what->make(values + r * p->row, p->row, values + r * stride);
        SL_TRY_OUT(p->npy ? put_npy(p, values, p->job.samples * each)
                          : put_lines(p, values, p->job.samples));
    }
out:
    free(values);
    return err;
}

static sl_err print_summary(const struct sl_args *args, const struct prediction *p) {
    struct sl_text text = {0};
    if (sl_args_has(args, "--json")) {
        struct sl_json_out json = {.text = &text, .indent = 2};
        sl_json_open(&json, '{');
        sl_json_put_string(&json, "written", p->file.path);
        sl_json_put_string(&json, "what", p->what->name);
        sl_json_put_int(&json, "samples", p->samples);
        sl_json_close(&json, '}');
        sl_text_put(&text, "\n");
    } else {
        sl_text_printf(&text, "%s: %s of %lld samples\n", p->file.path, p->what->name,
                       (long long)p->samples);
    }
    sl_err err = sl_cli_print(&text);
    sl_text_free(&text);
    return err;
}

static sl_err run(const struct sl_args *args) {
    struct prediction p = {0};
    struct sl_job job;
    const char *path = sl_args_text(args, "-o", "-");
    size_t length = strlen(path);
    sl_err err = SL_OK;
    sl_job_init(&job);
    p.npy = length > 4 && strcmp(path + length - 4, ".npy") == 0;
    SL_TRY_OUT(sl_cli_job_fill(args, &job));
    SL_TRY_OUT(open_prediction(args, &job, &p));
    SL_TRY_OUT(sl_outfile_open(&p.file, path));
    SL_TRY_OUT(sl_outfile_close(&p.file, write_all(&p)));
    if (strcmp(path, "-") != 0)
        SL_TRY_OUT(print_summary(args, &p));
out:
    close_prediction(&p);
    sl_job_free(&job);
    return err;
}

static const struct sl_option options[] = {
    {"--data", "SOURCE", "data source (default: the run's)", false},
    {"-o", "OUT", "X.npy, or JSON lines (default: standard output)", false},
    {"--what", "W", "logits (default), classes, probabilities or embeddings", false},
    {"--samples", "N", "the first N samples (default: all)", false},
    {"--tokenizer", "PATH", "tokenizer (default: the run's)", false},
    {"--images", "O", "size and scale of pictures, as in 'train' (default: the run's)", false},
    {"--set", "NAME=SIZE,...", "of a folder of Hugging Face: sizes of the model", true},
    {"--batch", "B", "samples at a time (default: the run's micro-batch)", false},
    {"--threads", "T", "threads of the worker (default: the run's)", false},
    {"--device", "D", "see 'sluice list devices' (default: the run's)", false},
    {0},
};

const struct sl_command sl_cli_cmd_predict = {
    .name = "predict",
    .synopsis = "RUN|DIR --data F [-o OUT] [--what W]",
    .brief = "outputs of a trained model for the samples of a file",
    .detail =
        "One result per sample, in the order of the data. classes and probabilities are those "
        "of\n"
        "the last axis of the output 'logits'; embeddings are the values that its product "
        "reads.\n"
        "DIR is a folder of Hugging Face.\n"
        "\n"
        "  sluice predict run --data test.csv --what classes -o classes.jsonl\n"
        "  sluice predict run --data test.txt --what embeddings -o states.npy",
    .options = options,
    .min_args = 1,
    .max_args = 1,
    .run = run,
};
