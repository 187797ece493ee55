/* Opens the model of a run in the form of its source: the graph of the source's config.json, with
 * the weights of the run as stored values. Attaching the weights checks that every tensor fits. */
#include "use/export.h"

#include "emit/export.h"
#include "gguf/gguf.h"
#include "hf/export.h"
#include "hf/folder.h"
#include "job/model.h"
#include "job/parts.h"
#include "tune/tune.h"

#include <stdlib.h>
#include <string.h>

struct origin { /* where the model of a run came from */
    struct sl_arena arena;
    struct sl_job job;
    const char *folder;
    struct sl_graph *graph;
};

/* Returns the folder that a model text names as the place of its weights. */
static const char *folder_of_text(struct origin *o, const struct sl_use_export *r) {
    struct sl_graph *graph = NULL;
    const char *folder = NULL;
    if (sl_job_model_open(&(struct sl_job_model_request){.name = o->job.model,
                                                         .dirs = r->model_dirs,
                                                         .sizes = ""},
                          &graph, NULL) == SL_OK &&
        graph->folder && sl_hf_is_folder(graph->folder))
        folder = sl_arena_printf(&o->arena, "%s", graph->folder);
    sl_graph_close(graph);
    return folder;
}

static sl_err find_folder(struct origin *o, const struct sl_use_export *r) {
    if (r->source || sl_hf_is_folder(r->from))
        o->folder = r->source ? r->source : r->from;
    if (sl_hf_is_folder(r->from))
        return SL_OK;
    SL_TRY(sl_job_read_run(&o->job, r->from));
    if (!o->folder && sl_hf_is_folder(o->job.model))
        o->folder = o->job.model;
    if (!o->folder && *o->job.model)
        o->folder = folder_of_text(o, r);
    if (!o->folder && *o->job.init && sl_hf_is_folder(o->job.init))
        o->folder = o->job.init;
    if (!o->folder)
        return sl_fail(SL_ERR_REFUSED,
                       "%s did not start from a folder of Hugging Face that is still there (its "
                       "model is '%s'); name a folder with the config.json of this model as "
                       "`source`",
                       r->from, o->job.model);
    return SL_OK;
}

/* Opens the model of a run with adapters, with the run's weights as stored values; NULL: the run
 * has no adapters, or it is no run. */
static sl_err open_tuned(struct origin *o, const char *run, struct sl_graph **out) {
    const char *path = sl_arena_printf(&o->arena, "%s/model.model", run);
    struct sl_tune_adapter *adapters;
    char *text;
    size_t length;
    *out = NULL;
    if (!sl_file_exists(path))
        return SL_OK;
    SL_TRY(sl_file_read(path, SL_MODEL_FILE_BYTES, &text, &length));
    sl_err err = sl_job_model_read(text, path, NULL, out, NULL);
    free(text);
    if (err == SL_OK && sl_tune_adapters(&o->arena, *out, &adapters)) {
        err = sl_job_init_attach(*out, run, false);
        if (err == SL_OK)
            return SL_OK;
    }
    sl_graph_close(*out);
    *out = NULL;
    return err;
}

/* Attaches the weights; adapters are merged into them. */
static sl_err attach_weights(struct origin *o, const char *from) {
    struct sl_graph *tuned;
    SL_TRY(open_tuned(o, from, &tuned));
    if (!tuned)
        return sl_job_init_attach(o->graph, from, false);
    sl_err err = sl_tune_attach_merged(o->graph, tuned);
    if (err != SL_OK)
        sl_graph_close(tuned);
    return err;
}

static sl_err open_origin(const struct sl_use_export *r, struct origin *o) {
    *o = (struct origin){0};
    sl_job_init(&o->job);
    SL_TRY(find_folder(o, r));
    if (!sl_hf_is_folder(o->folder))
        return sl_fail(SL_ERR_INPUT, "%s is not a folder with a config.json", o->folder);
    SL_TRY(sl_job_model_open(
        &(struct sl_job_model_request){.name = o->folder, .dirs = r->model_dirs, .sizes = ""},
        &o->graph, NULL));
    return attach_weights(o, r->from);
}

static void close_origin(struct origin *o) {
    sl_graph_close(o->graph);
    sl_job_free(&o->job);
    sl_arena_free(&o->arena);
}

static sl_err write_hf(const struct sl_use_export *r, struct sl_text *summary) {
    struct origin origin;
    sl_err err = open_origin(r, &origin);
    if (err == SL_OK)
        err = sl_hf_export(&(struct sl_hf_export){.graph = origin.graph,
                                                  .source = origin.folder,
                                                  .tokenizer = origin.job.tokenizer,
                                                  .to = r->to,
                                                  .dtype = r->dtype,
                                                  .shard_bytes = r->shard_bytes},
                           summary);
    close_origin(&origin);
    return err;
}

static sl_err write_gguf(const struct sl_use_export *r, struct sl_text *summary) {
    struct origin origin;
    sl_err err = open_origin(r, &origin);
    if (err == SL_OK)
        err = sl_gguf_export(
            &(struct sl_gguf_export){
                .graph = origin.graph, .source = origin.folder, .to = r->to, .dtype = r->dtype},
            summary);
    close_origin(&origin);
    return err;
}

static const struct sl_use_target gguf = {
    "gguf", "a file for llama.cpp: weights, hyperparameters and tokenizer", write_gguf};

static const struct sl_use_target hf = {
    "hf", "a folder of Hugging Face: config, tokenizer and safetensors", write_hf};

/* ---- ONNX: an evaluation graph ---- */

static sl_err open_eval(const struct sl_use_export *r, struct sl_arena *arena,
                        struct sl_graph **out) {
    const char *path = sl_arena_printf(arena, "%s/model.model", r->from);
    char *text = NULL;
    size_t length;
    if (sl_hf_is_folder(r->from))
        return sl_job_model_open(
            &(struct sl_job_model_request){.name = r->from, .dirs = r->model_dirs, .sizes = ""},
            NULL, out);
    SL_TRY(sl_file_read(path, SL_MODEL_FILE_BYTES, &text, &length));
    sl_err err = sl_job_model_read(text, path, NULL, NULL, out);
    free(text);
    return err;
}

static sl_err write_onnx(const struct sl_use_export *r, struct sl_text *summary) {
    struct sl_arena arena = {0};
    struct sl_graph *graph = NULL;
    sl_err err = SL_OK;
    if (r->dtype != SL_ST_F32)
        return sl_fail(SL_ERR_REFUSED, "ONNX files are written in fp32; drop `dtype`");
    SL_TRY_OUT(open_eval(r, &arena, &graph));
    SL_TRY_OUT(sl_job_init_attach(graph, r->from, false));
    SL_TRY_OUT(sl_emit_onnx(graph, r->to, summary));
out:
    sl_graph_close(graph);
    sl_arena_free(&arena);
    return err;
}

static const struct sl_use_target onnx = {
    "onnx", "an ONNX file of the model in evaluation, with its outputs", write_onnx};

/* ---- PEFT: adapters ---- */

static sl_err write_peft(const struct sl_use_export *r, struct sl_text *summary) {
    struct origin o = {0};
    struct sl_graph *tuned = NULL;
    sl_err err = open_tuned(&o, r->from, &tuned);
    if (err == SL_OK && !tuned)
        err = sl_fail(SL_ERR_REFUSED, "%s is no run with adapters; train one with `lora`", r->from);
    if (err == SL_OK && r->dtype != SL_ST_F32)
        err = sl_fail(SL_ERR_REFUSED, "adapters are exported as fp32");
    if (err == SL_OK)
        err = sl_tune_write_peft(tuned, r->source, r->to, summary);
    sl_graph_close(tuned);
    sl_arena_free(&o.arena);
    return err;
}

static const struct sl_use_target peft = {"peft", "the adapters of a run, as PEFT saves them",
                                          write_peft};

const struct sl_use_target *const sl_use_targets[] = {&gguf, &hf, &onnx, &peft, NULL};

const struct sl_use_target *sl_use_target_find(const char *name) {
    for (int i = 0; sl_use_targets[i]; i++)
        if (strcmp(sl_use_targets[i]->name, name) == 0)
            return sl_use_targets[i];
    return NULL;
}
