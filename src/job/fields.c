/* The fields of a job: one row each, and how a text becomes a field's value. */
#include "job/job.h"
#include "plan/plan.h"

#include <ctype.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const char *const dtypes[] = {"fp32", "tf32", "bf16", "fp16", NULL};
static const char *const scopes[] = {"global", "stage", NULL};
static const char *const cuts[] = {"even", "branches", NULL}; /* not an entry: cuts */
static const char *const binds[] = {"auto", "cores", "none", NULL};
static const char *const saves[] = {"async", "sync", NULL}; /* not an entry: ways to save */

#define ROW(name, kind, fallback, low, high, choices, role, change, brief)                         \
    {                                                                                              \
#name, kind, offsetof(struct sl_job, name), fallback, low, high, choices, SL_JOB_##role,   \
            SL_JOB_##change, brief                                                                 \
    }
#define TEXT(name, fallback, role, change, brief)                                                  \
    ROW(name, SL_JOB_TEXT, fallback, 0, 0, NULL, role, change, brief)
#define INT(name, fallback, low, high, role, change, brief)                                        \
    ROW(name, SL_JOB_INT, fallback, low, high, NULL, role, change, brief)
#define NUMBER(name, fallback, low, high, role, change, brief)                                     \
    ROW(name, SL_JOB_NUMBER, fallback, low, high, NULL, role, change, brief)
#define FLAG(name, role, change, brief)                                                            \
    ROW(name, SL_JOB_FLAG, NULL, 0, 0, NULL, role, change, brief)
#define CHOICE(name, choices, role, change, brief)                                                 \
    ROW(name, SL_JOB_CHOICE, NULL, 0, 0, choices, role, change, brief)

#define ANY ((double)INT64_MAX)

const struct sl_job_field sl_job_fields[] = {
    TEXT(model, NULL, RESULT, GRAPH, "model: name or path"),
    ROW(sizes, SL_JOB_SIZES, NULL, 0, 0, NULL, RESULT, GRAPH, "sizes of the model"),
    TEXT(loss, NULL, RESULT, GRAPH, "loss of an ONNX model: OP:OUTPUT,TARGETS"),
    TEXT(freeze, NULL, RESULT, GRAPH, "parameters that are not trained: patterns of names"),
    TEXT(lora, NULL, RESULT, GRAPH, "low-rank adapters: rank=R,alpha=A,targets=T,..."),
    TEXT(data, "synthetic", RESULT, DATA, "data source: file, KIND:file or 'synthetic'"),
    TEXT(tokenizer, NULL, RESULT, DATA, "tokenizer of text data"),
    TEXT(chat_template, NULL, RESULT, DATA,
         "chat template of messages: chatml, gemma, llama2, llama3, mistral"),
    TEXT(images, NULL, RESULT, DATA, "pictures: resize=256,crop=random,flip=1,mean=0.5,std=0.5"),
    NUMBER(validation, "0.1", 0, 1e15, RESULT, DATA,
           "fraction (below 1) or number of samples held out"),
    TEXT(device, "cpu", RESULT, BREAKS, "device, or several that workers take in turn"),
    CHOICE(dtype, dtypes, RESULT, BREAKS, "type of activations and products"),
    INT(threads, "1", 1, 1024, RESULT, KEEPS, "threads of a worker"),
    FLAG(recompute, WAY, KEEPS, "keep only the inputs of a stage and recompute the rest"),
    INT(batch, "8", 1, 1 << 30, RESULT, BREAKS, "samples per optimizer step"),
    INT(micro, "1", 1, 1 << 30, RESULT, BREAKS, "micro-batches per optimizer step"),
    INT(steps, "100", 0, ANY, RESULT, KEEPS, "optimizer steps"),
    TEXT(optimizer, "adamw", RESULT, BREAKS, "optimizer and its settings"),
    TEXT(policy, "none", RESULT, BREAKS, "staleness policy"),
    TEXT(lr_schedule, "constant", RESULT, BREAKS, "learning rate over the steps"),
    NUMBER(lr, NULL, 0, 1e6, RESULT, BREAKS, "learning rate; default: the optimizer's"),
    NUMBER(clip, "1", 0, 1e30, RESULT, BREAKS, "maximum norm of the gradient; 0: none"),
    TEXT(loss_scale, NULL, RESULT, BREAKS, "loss scaling; default: dynamic for fp16"),
    INT(seed, "1", 0, ANY, RESULT, BREAKS, "seed of initial weights, data order and dropout"),
    TEXT(schedule, NULL, RESULT, LAYOUT, "schedule, or its file; default: the plan's, else 1f1b"),
    TEXT(schedule_module, NULL, LOCAL, KEEPS, "shared library with a generator of a schedule"),
    CHOICE(clip_scope, scopes, RESULT, BREAKS,
           "clip and skip by the global norm, or stage by stage; default: global where it adds no "
           "delay"),
    INT(slack, NULL, 0, 1 << 20, RESULT, LAYOUT, "micro-batches that may wait between stages"),
    INT(group, NULL, 1, SL_GROUP_MAX, WAY, LAYOUT,
        "k of the schedules kfkb and graph; default: the plan's, else 1"),
    TEXT(plan, NULL, WAY, LAYOUT, "plan file: stages and workers"),
    INT(stages, NULL, 1, 4096, WAY, LAYOUT, "stages to cut the model into"),
    CHOICE(cut, cuts, WAY, LAYOUT, "how to cut"),
    INT(workers, NULL, 1, 4096, WAY, LAYOUT, "workers that hold the stages"),
    INT(replicas, NULL, 1, 4096, WAY, LAYOUT, "replicas of every stage"),
    FLAG(zero1, WAY, KEEPS, "replicas divide the optimizer state among them"),
    INT(tp, "1", 1, 8, RESULT, BREAKS, "tensor-parallel shards of every stage"),
    CHOICE(bind, binds, WAY, KEEPS, "binding of workers to cores"),
    FLAG(lend, WAY, KEEPS, "idle workers do pieces of others' work"),
    FLAG(emulate, WAY, BREAKS, "one worker computes what the pipeline would"),
    INT(eval_every, NULL, 0, ANY, WAY, KEEPS, "steps between evaluations; 0: none"),
    INT(eval_samples, "64", 1, ANY, WAY, KEEPS, "samples of an evaluation"),
    INT(checkpoint_every, NULL, 0, ANY, WAY, KEEPS,
        "steps between checkpoints; default: by their cost"),
    CHOICE(save, saves, WAY, KEEPS, "write checkpoints while training, or stop for them"),
    INT(keep, "2", 0, 1 << 30, WAY, KEEPS, "checkpoints to keep; 0: all"),
    FLAG(keep_best, WAY, KEEPS, "keep the checkpoint with the lowest validation loss"),
    INT(patience, NULL, 0, ANY, WAY, KEEPS,
        "stop after so many evaluations without a lower validation loss; 0: never"),
    TEXT(init, NULL, WAY, BREAKS, "weights to start from: run, safetensors file or folder"),
    FLAG(init_partial, WAY, BREAKS, "start from the tensors of `init` that fit"),
    TEXT(cost, NULL, WAY, KEEPS, "cost file for a forecast"),
    FLAG(trace, WAY, KEEPS, "measure the pipeline"),
    FLAG(log_staleness, WAY, KEEPS, "log how stale the weights of each pass are"),
    INT(audit, NULL, 0, ANY, WAY, KEEPS,
        "repeat one of so many actions and compare the bits; 0: none"),
    NUMBER(stall_timeout, NULL, 0, 1e9, WAY, KEEPS,
           "seconds before an action may count as stalled"),
    TEXT(out, NULL, LOCAL, KEEPS, "run directory"),
    FLAG(resume, LOCAL, KEEPS, "continue the run in `out`, or start it"),
    INT(from_step, NULL, 1, ANY, LOCAL, KEEPS, "step to continue from; default: the newest"),
    FLAG(allow_change, LOCAL, KEEPS, "a resumed run may get other bits than an undisturbed one"),
    {0},
};

/* Keys and values of older versions. A row is removed one version after its replacement came. */
static const struct {
    const char *key, *now;
    const char *value, *value_now;
} renamed[] = {
    {"verdict", "clip_scope", "all", "global"}, /* 0.1.0 */
};

const struct sl_job_field *sl_job_field_find(const char *key) {
    for (int i = 0; i < SL_COUNT(renamed); i++)
        if (strcmp(renamed[i].key, key) == 0)
            key = renamed[i].now;
    for (const struct sl_job_field *f = sl_job_fields; f->key; f++)
        if (strcmp(f->key, key) == 0)
            return f;
    return NULL;
}

static const char *key_at(const void *ctx, int i) {
    (void)ctx;
    return sl_job_fields[i].key;
}

static sl_err fail_unknown(const char *key) {
    int count = 0;
    while (sl_job_fields[count].key)
        count++;
    const char *nearest = sl_nearest(key, count, key_at, NULL);
    return sl_fail(SL_ERR_USAGE, "unknown field '%.64s'%s%s%s", key,
                   nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
}

/* ---- values ---- */

static void *at(struct sl_job *job, const struct sl_job_field *field) {
    return (char *)job + field->offset;
}

static sl_err fail_range(const struct sl_job_field *f, const char *text) {
    const char *what = f->kind == SL_JOB_INT ? "a whole number " : "a number ";
    if (f->high >= ANY)
        return sl_fail(SL_ERR_USAGE, "`%s`: expected %sof at least %.0f, found '%.64s'", f->key,
                       what, f->low, text);
    return sl_fail(SL_ERR_USAGE, "`%s`: expected %sfrom %.10g to %.10g, found '%.64s'", f->key,
                   what, f->low, f->high, text);
}

static sl_err set_int(struct sl_job *job, const struct sl_job_field *f, const char *text) {
    int64_t value;
    if (sl_parse_int(text, f->key, &value) != SL_OK || (double)value < f->low ||
        (double)value > f->high)
        return fail_range(f, text);
    memcpy(at(job, f), &value, sizeof value);
    return SL_OK;
}

static sl_err set_number(struct sl_job *job, const struct sl_job_field *f, const char *text) {
    double value;
    if (sl_parse_double(text, f->key, &value) != SL_OK || !(value >= f->low && value <= f->high))
        return fail_range(f, text);
    value += 0.0; /* plus 0, because -0 has another text */
    memcpy(at(job, f), &value, sizeof value);
    return SL_OK;
}

static sl_err set_choice(struct sl_job *job, const struct sl_job_field *f, const char *text) {
    char names[128] = "";
    size_t used = 0;
    for (int i = 0; f->choices[i]; i++) {
        if (strcmp(f->choices[i], text) == 0) {
            memcpy(at(job, f), &i, sizeof i);
            return SL_OK;
        }
        const char *joint = i == 0 ? "" : f->choices[i + 1] ? ", " : " or ";
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", joint, f->choices[i]);
    }
    return sl_fail(SL_ERR_USAGE, "`%s`: expected %s, found '%.64s'", f->key, names, text);
}

static sl_err set_flag(struct sl_job *job, const struct sl_job_field *f, const char *text) {
    bool value = strcmp(text, "true") == 0;
    if (!value && strcmp(text, "false") != 0)
        return sl_fail(SL_ERR_USAGE, "`%s`: expected true or false, found '%.64s'", f->key, text);
    memcpy(at(job, f), &value, sizeof value);
    return SL_OK;
}

static void set_text(struct sl_job *job, const struct sl_job_field *f, const char *text) {
    const char *copy = sl_arena_dup(&job->text, text, strlen(text));
    memcpy(at(job, f), &copy, sizeof copy);
}

/* Adds one "NAME=VALUE" to the sizes, with the value in its shortest form. */
static sl_err add_size(struct sl_text *all, const struct sl_job_field *f, const char *item,
                       size_t length) {
    char name[128], number[64];
    const char *equals = memchr(item, '=', length);
    size_t before = equals ? (size_t)(equals - item) : 0;
    double value = 0;
    if (!before || before >= sizeof name || length - before - 1 >= sizeof number)
        return sl_fail(SL_ERR_USAGE, "`%s`: '%.*s' is not NAME=VALUE", f->key,
                       (int)(length < 64 ? length : 64), item);
    snprintf(name, sizeof name, "%.*s", (int)before, item);
    for (const char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("_.-", *c))
            return sl_fail(SL_ERR_USAGE, "`%s`: '%s' cannot be the name of a size", f->key, name);
    snprintf(number, sizeof number, "%.*s", (int)(length - before - 1), equals + 1);
    if (sl_parse_double(number, name, &value) != SL_OK || !isfinite(value))
        return sl_fail(SL_ERR_USAGE, "`%s`: %s: expected a number, found '%s'", f->key, name,
                       number);
    sl_text_printf(all, "%s%s=", all->length ? "," : "", name);
    sl_text_put_double(all, value + 0.0);
    return SL_OK;
}

/* Sets sizes. Of equal names the last one counts (sl_graph_model_parse_sets), so new sizes are only
 * appended. */
static sl_err set_sizes(struct sl_job *job, const struct sl_job_field *f, const char *text) {
    struct sl_text all = {0};
    sl_err err = SL_OK;
    sl_text_put(&all, job->sizes);
    for (const char *item = text; *item;) {
        size_t length = strcspn(item, ",");
        if (length)
            SL_TRY_OUT(add_size(&all, f, item, length));
        item += length + (item[length] == ',');
    }
    set_text(job, f, all.at);
out:
    sl_text_free(&all);
    return err;
}

static sl_err set_value(struct sl_job *job, const struct sl_job_field *f, const char *text) {
    switch (f->kind) {
    case SL_JOB_INT: return set_int(job, f, text);
    case SL_JOB_NUMBER: return set_number(job, f, text);
    case SL_JOB_FLAG: return set_flag(job, f, text);
    case SL_JOB_CHOICE: return set_choice(job, f, text);
    case SL_JOB_SIZES: return set_sizes(job, f, text);
    case SL_JOB_TEXT: set_text(job, f, text); return SL_OK;
    }
    return SL_OK;
}

/* ---- jobs ---- */

static bool is_text(const struct sl_job_field *f) {
    return f->kind == SL_JOB_TEXT || f->kind == SL_JOB_SIZES;
}

static size_t value_bytes(const struct sl_job_field *f) {
    static const size_t sizes[] = {
        [SL_JOB_INT] = sizeof(int64_t),       [SL_JOB_NUMBER] = sizeof(double),
        [SL_JOB_TEXT] = sizeof(const char *), [SL_JOB_FLAG] = sizeof(bool),
        [SL_JOB_CHOICE] = sizeof(int),        [SL_JOB_SIZES] = sizeof(const char *),
    };
    return sizes[f->kind];
}

void sl_job_init(struct sl_job *job) {
    *job = (struct sl_job){.sizes = ""};
    for (const struct sl_job_field *f = sl_job_fields; f->key; f++) {
        bool text = f->kind == SL_JOB_TEXT;
        if (text || f->fallback)
            SL_ASSERT(set_value(job, f, f->fallback ? f->fallback : "") == SL_OK);
    }
}

void sl_job_free(struct sl_job *job) { sl_arena_free(&job->text); }

void sl_job_copy(struct sl_job *to, const struct sl_job *from) {
    *to = *from;
    to->text = (struct sl_arena){0};
    for (const struct sl_job_field *f = sl_job_fields; f->key; f++)
        if (is_text(f)) {
            const char *text;
            memcpy(&text, at(to, f), sizeof text);
            set_text(to, f, text);
        }
}

static const struct sl_job_field *require(const char *key) {
    const struct sl_job_field *field = sl_job_field_find(key);
    SL_ASSERT(field);
    return field;
}

bool sl_job_has(const struct sl_job *job, const char *key) {
    return job->given >> (require(key) - sl_job_fields) & 1;
}

void sl_job_reset(struct sl_job *job, const char *key) {
    static const struct sl_job zero;
    const struct sl_job_field *f = require(key);
    size_t size = value_bytes(f);
    memcpy(at(job, f), (const char *)&zero + f->offset, size);
    if (is_text(f))
        set_text(job, f, "");
    if (f->fallback)
        SL_ASSERT(set_value(job, f, f->fallback) == SL_OK);
    job->given &= ~((uint64_t)1 << (f - sl_job_fields));
}

void sl_job_mark(struct sl_job *job, const char *key) {
    job->given |= (uint64_t)1 << (require(key) - sl_job_fields);
}

void sl_job_take(struct sl_job *to, const struct sl_job *from, const char *key) {
    const struct sl_job_field *f = require(key);
    const void *value = (const char *)from + f->offset;
    if (!sl_job_has(from, key))
        return;
    if (is_text(f))
        set_text(to, f, *(const char *const *)value);
    else
        memcpy(at(to, f), value, value_bytes(f));
    sl_job_mark(to, key);
}

sl_err sl_job_set(struct sl_job *job, const char *key, const char *text) {
    const struct sl_job_field *field = sl_job_field_find(key);
    if (!field)
        return fail_unknown(key);
    for (int i = 0; i < SL_COUNT(renamed); i++)
        if (strcmp(renamed[i].key, key) == 0 && strcmp(renamed[i].value, text) == 0)
            text = renamed[i].value_now;
    SL_TRY(set_value(job, field, text));
    sl_job_mark(job, field->key);
    return SL_OK;
}
