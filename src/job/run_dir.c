/* Opens run directories: the job of a run, and its newest weights. */
#include "hf/folder.h"
#include "job/model.h"
#include "job/parts.h"
#include "job/schedule.h"

#include <string.h>

sl_err sl_job_read_run(struct sl_job *job, const char *run) {
    struct sl_arena arena = {0};
    const char *config = sl_arena_printf(&arena, "%s/config.json", run),
               *plan = sl_arena_printf(&arena, "%s/plan.plan", run);
    sl_err err =
        sl_file_exists(config)
            ? sl_job_read_file(job, config)
            : sl_fail(SL_ERR_INPUT, "%s is not a run directory: it has no config.json", run);
    const char *sched = sl_arena_printf(&arena, "%s/schedule.sched", run);
    if (err == SL_OK && sl_job_schedule_is_file(job->schedule) && sl_file_exists(sched))
        sl_job_resolve(job, "schedule", sched);
    if (err == SL_OK && !job->stages && job->cut == SL_JOB_CUT_EVEN && sl_file_exists(plan))
        sl_job_resolve(job, "plan", plan);
    sl_arena_free(&arena);
    return err;
}

/* Takes the fields that one worker needs. It runs on the first of several devices. */
static void take_fields(struct sl_job *to, const struct sl_job *from) {
    static const char *const keys[] = {"data",       "tokenizer", "chat_template", "images",
                                       "validation", "device",    "dtype",         "threads",
                                       "batch",      "micro",     "seed"};
    for (int i = 0; i < SL_COUNT(keys); i++)
        sl_job_take(to, from, keys[i]);
}

static void keep_first_device(struct sl_job *job) {
    char *device = sl_arena_dup(&job->text, job->device, strlen(job->device));
    device[strcspn(device, ",")] = 0;
    job->device = device;
}

static sl_err resolve(const struct sl_job *given, const char *run, int64_t samples,
                      struct sl_job *job) {
    struct sl_job stored;
    sl_job_init(&stored);
    sl_err err =
        sl_hf_is_folder(run) ? sl_job_set(&stored, "model", run) : sl_job_read_run(&stored, run);
    take_fields(job, &stored);
    sl_job_free(&stored);
    SL_TRY(err);
    keep_first_device(job);
    take_fields(job, given);
    job->batch = samples ? samples : (job->batch + job->micro - 1) / job->micro;
    job->micro = 1;
    return SL_OK;
}

static sl_err read_model(const char *path, struct sl_graph **eval) {
    char *text;
    size_t length;
    SL_TRY(sl_file_read(path, SL_MODEL_FILE_BYTES, &text, &length));
    sl_err err = sl_job_model_read(text, path, NULL, NULL, eval);
    free(text);
    return err;
}

/* Finds the tokenizer of a Hugging Face folder. */
static void find_tokenizer(struct sl_job *job, const char *folder) {
    static const char *const files[] = {"tokenizer.json", "vocab.json"};
    struct sl_arena arena = {0};
    for (int i = 0; !*job->tokenizer && i < SL_COUNT(files); i++)
        if (sl_file_exists(sl_arena_printf(&arena, "%s/%s", folder, files[i])))
            sl_job_resolve(job, "tokenizer", folder);
    sl_arena_free(&arena);
}

static sl_err open_graph(const struct sl_job *given, const char *run,
                         const struct sl_job_host *host, struct sl_job *job,
                         struct sl_graph **eval) {
    struct sl_arena arena = {0};
    sl_err err = SL_OK;
    if (sl_hf_is_folder(run)) {
        find_tokenizer(job, run);
        SL_TRY(sl_job_model_open(&(struct sl_job_model_request){.name = run,
                                                                .dirs = host->model_dirs,
                                                                .sizes = given->sizes},
                                 NULL, eval));
        return sl_job_init_attach(*eval, run, false);
    }
    err = read_model(sl_arena_printf(&arena, "%s/model.model", run), eval);
    sl_arena_free(&arena);
    return err;
}

sl_err sl_job_eval_graph(const struct sl_job *given, const char *run,
                         const struct sl_job_host *host, struct sl_job *job,
                         struct sl_graph **eval) {
    SL_TRY(resolve(given, run, 1, job));
    return open_graph(given, run, host, job, eval);
}

sl_err sl_job_eval_open(const struct sl_job *given, const char *run, int64_t samples,
                        struct sl_job_eval *out) {
    return sl_job_eval_open_on(given, run, samples, &(struct sl_job_host){0}, out);
}

sl_err sl_job_eval_open_on(const struct sl_job *given, const char *run, int64_t samples,
                           const struct sl_job_host *host, struct sl_job_eval *out) {
    struct sl_graph *graph = NULL;
    struct sl_job job;
    sl_err err = SL_OK;
    *out = (struct sl_job_eval){0};
    sl_job_init(&job);
    SL_TRY_OUT(resolve(given, run, samples, &job));
    SL_TRY_OUT(open_graph(given, run, host, &job, &graph));
    if (host->embeddings)
        SL_TRY_OUT(sl_job_add_embeddings(graph));
    SL_TRY_OUT(sl_job_open(
        &job, &(struct sl_job_host){.graph = graph, .data = host->data, .run = run}, &out->work));
    out->work.train.optim = (struct sl_optim){0};
    SL_TRY_OUT(sl_run_train_open(&out->work.train, &out->train));
    if (!sl_hf_is_folder(run))
        SL_TRY_OUT(sl_run_train_load(out->train, run, true));
out:
    out->work.own_graph = graph;
    sl_job_free(&job);
    return err;
}

void sl_job_eval_close(struct sl_job_eval *eval) {
    sl_run_train_close(eval->train);
    sl_job_close(&eval->work);
}
