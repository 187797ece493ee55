/* Opens a job: reads every input once, and gives every open field its value. */
#include "graph/model.h"
#include "job/model.h"
#include "job/parts.h"
#include "job/sim.h"
#include "job/stats.h"
#include "run/inputs.h"

#include <string.h>

void sl_job_resolve(struct sl_job *job, const char *key, const char *value) {
    SL_ASSERT(sl_job_set(job, key, value) == SL_OK);
}

/* ---- model and data ---- */

static void resolve_sizes(struct sl_job_work *work) {
    const char *sizes = sl_graph_sizes_text(&work->arena, work->graph);
    work->job.sizes = "";
    sl_job_resolve(&work->job, "sizes", sizes ? sizes : "");
}

static struct sl_graph **eval_graph_of(struct sl_job_work *work, const struct sl_job_host *host) {
    return work->job.eval_every > 0 || host->evaluates ? &work->eval_graph : NULL;
}

static sl_err read_stored_model(struct sl_job_work *work, const struct sl_job_host *host) {
    return sl_job_model_read(work->stored->model,
                             sl_arena_printf(&work->arena, "%s/model.model", work->job.out), NULL,
                             &work->own_graph, eval_graph_of(work, host));
}

/* Reads a model text that a program has provided. The text's name becomes the model's name if the
 * job gives none. */
static sl_err read_model_text(struct sl_job_work *work, const struct sl_job_host *host) {
    const struct sl_job_model_tune tune = {work->job.freeze, work->job.lora};
    SL_TRY(sl_job_model_read(host->model_text, "model", &tune, &work->own_graph,
                             eval_graph_of(work, host)));
    if (!*work->job.model)
        sl_job_resolve(&work->job, "model", work->own_graph->name);
    return SL_OK;
}

/* Reads the model. A plan file names a model and its sizes; fields of the job have priority. */
static sl_err read_model(struct sl_job_work *work, const struct sl_job_host *host) {
    struct sl_job *job = &work->job;
    const struct sl_plan *plan = NULL;
    if (*job->plan && !work->stored)
        SL_TRY(sl_job_plan_read(&work->arena, job->plan, &plan));
    if (!*job->model && plan && plan->model)
        sl_job_resolve(job, "model", plan->model);
    if (!*job->model && job->resume)
        return sl_fail(SL_ERR_USAGE,
                       "%s holds no run that could continue; to start one, name its `model`",
                       job->out);
    if (!*job->model)
        return sl_fail(SL_ERR_USAGE, "`model` is missing");
    return sl_job_model_open(&(struct sl_job_model_request){.name = job->model,
                                                            .dirs = host->model_dirs,
                                                            .plan = plan,
                                                            .sizes = job->sizes,
                                                            .loss = job->loss,
                                                            .freeze = job->freeze,
                                                            .lora = job->lora},
                             &work->own_graph, eval_graph_of(work, host));
}

/* Attaches the weights to start from, unless the run is resumed from its own weights. */
static sl_err attach_init(struct sl_job_work *work) {
    struct sl_job *job = &work->job;
    if (work->stored && work->stored->has_checkpoint)
        return SL_OK;
    if (!*job->init && work->own_graph->folder)
        sl_job_resolve(job, "init", work->own_graph->folder);
    if (!*job->init)
        return SL_OK;
    return sl_job_init_attach(work->own_graph, job->init, job->init_partial);
}

static sl_err open_model(struct sl_job_work *work, const struct sl_job_host *host) {
    struct sl_job *job = &work->job;
    if (host->graph && (*job->freeze || *job->lora))
        return sl_fail(SL_ERR_USAGE,
                       "`%s` applies while a model is read; this program has built "
                       "its graph already",
                       *job->freeze ? "freeze" : "lora");
    if (host->graph) {
        work->graph = host->graph;
        if (!*job->model)
            sl_job_resolve(job, "model", host->graph->name);
        work->train.model_hash = sl_graph_model_hash(work->graph);
        resolve_sizes(work);
        return SL_OK;
    }
    bool stored = work->stored && work->stored->use_model && !host->model_text;
    if (host->model_text)
        SL_TRY(read_model_text(work, host));
    else
        SL_TRY(stored ? read_stored_model(work, host) : read_model(work, host));
    SL_TRY(sl_graph_autodiff(work->own_graph));
    SL_TRY(attach_init(work));
    work->graph = work->own_graph;
    work->train.model_hash = sl_graph_model_hash(work->graph);
    if (!stored) /* model.model already has its sizes as numbers */
        resolve_sizes(work);
    return SL_OK;
}

/* Uses the tokenizer of the Hugging Face folder if the model is from one. */
static void resolve_tokenizer(struct sl_job_work *work) {
    const char *folder = work->own_graph ? work->own_graph->folder : NULL;
    struct sl_text path = {0};
    if (*work->job.tokenizer || !folder)
        return;
    sl_text_printf(&path, "%s/tokenizer.json", folder);
    if (sl_file_exists(path.at))
        sl_job_resolve(&work->job, "tokenizer", path.at);
    sl_text_free(&path);
}

/* The numbers of categories are those of the run. */
static void find_categories(struct sl_job_work *work, const char *run) {
    const char *path = sl_arena_printf(&work->arena, "%s/categories.json", run);
    work->categories = *run && sl_file_exists(path) ? path : NULL;
}

static sl_err open_data(struct sl_job_work *work, const struct sl_job_host *host) {
    const struct sl_job *job = &work->job;
    struct sl_data_input *inputs;
    resolve_tokenizer(work);
    if (host->data)
        sl_job_resolve(&work->job, "data", "program");
    find_categories(work, host->run ? host->run : job->resume ? job->out : "");
    SL_TRY(sl_run_describe_inputs(&work->arena, work->graph, &inputs));
    struct sl_data_spec spec = {
        .source = job->data,
        .tokenizer = *job->tokenizer ? job->tokenizer : NULL,
        .chat_template = job->chat_template,
        .images = job->images,
        .categories = work->categories,
        .inputs = inputs,
        .input_count = (int)work->graph->inputs.count,
        .validation = job->validation,
        .seed = (uint64_t)job->seed,
        .provider = host->data,
    };
    SL_TRY(sl_data_open(&spec, &work->data));
    struct sl_ahead_config ahead = {
        .data = work->data,
        .inputs = inputs,
        .input_count = spec.input_count,
        .batch = job->batch,
        .micros = job->micro,
        .last = job->steps < INT64_MAX / job->batch / 2 ? job->steps * job->batch : INT64_MAX / 2};
    return sl_run_ahead_open(&ahead, &work->ahead);
}

/* ---- training ---- */

static sl_err use_devices(struct sl_job_work *work) {
    struct sl_job_devices devices;
    SL_TRY(sl_job_devices_find(&work->job, &devices));
    for (int i = 0; i < devices.count; i++) {
        const char *why = devices.at[i]->missing();
        if (why)
            return sl_fail(SL_ERR_SYSTEM, "device '%s' cannot be used here: %s",
                           devices.at[i]->name, why);
        work->train.kinds[i] = devices.at[i];
    }
    work->train.device = devices.at[0];
    work->train.kind_count = devices.count > 1 ? devices.count : 0;
    return SL_OK;
}

static void set_train(struct sl_job_work *work) {
    const struct sl_job *job = &work->job;
    struct sl_train_config *c = &work->train;
    c->graph = work->graph;
    c->eval_graph = work->eval_graph;
    c->data = work->data;
    c->ahead = work->ahead;
    c->threads = (int)job->threads;
    c->dtype = sl_job_activations(job);
    c->tf32 = job->dtype == SL_JOB_TF32;
    c->recompute = job->recompute;
    c->batch = job->batch;
    c->micros = job->micro;
    c->steps = job->steps;
    c->seed = (uint64_t)job->seed;
    c->clip = job->clip;
    c->eval_every = job->eval_every;
    c->eval_samples = job->eval_samples;
    c->audit = job->audit;
}

/* Parses texts of registries and writes them back in full, so that config.json shows every
 * setting. */
static sl_err set_optimizer(struct sl_job_work *work) {
    struct sl_job *job = &work->job;
    struct sl_train_config *c = &work->train;
    struct sl_text optim = {0}, lr = {0}, policy = {0}, scale = {0};
    if (!*job->loss_scale)
        sl_job_resolve(job, "loss_scale", job->dtype == SL_JOB_FP16 ? "dynamic" : "none");
    SL_TRY(sl_optim_parse(job->optimizer, &c->optim));
    SL_TRY(sl_optim_policy_parse(job->policy, &c->policy));
    SL_TRY(sl_optim_lr_parse(job->lr_schedule, job->steps, &c->lr));
    SL_TRY(sl_optim_loss_scale_parse(job->loss_scale, &c->loss_scale));
    if (!sl_job_has(job, "lr"))
        job->lr = c->optim.row->lr;
    c->base_lr = job->lr;
    sl_optim_put(&optim, &c->optim);
    sl_optim_policy_put(&policy, &c->policy);
    sl_optim_lr_put(&lr, &c->lr);
    sl_optim_loss_scale_put(&scale, &c->loss_scale);
    sl_job_resolve(job, "optimizer", optim.at);
    sl_job_resolve(job, "policy", policy.at);
    sl_job_resolve(job, "lr_schedule", lr.at);
    sl_job_resolve(job, "loss_scale", scale.at);
    sl_text_free(&optim);
    sl_text_free(&policy);
    sl_text_free(&lr);
    sl_text_free(&scale);
    return SL_OK;
}

static sl_err set_pipe(struct sl_job_work *work, const struct sl_job_host *host) {
    static const enum sl_bind_mode binds[] = {
        [SL_JOB_BIND_AUTO] = SL_BIND_AUTO,
        [SL_JOB_BIND_CORES] = SL_BIND_CORES,
        [SL_JOB_BIND_NONE] = SL_BIND_NONE,
    };
    const struct sl_job *job = &work->job;
    work->pipe = (struct sl_pipe_config){
        .train = &work->train,
        .comm = host->comm,
        .bind = binds[job->bind],
        .lend = job->lend,
        .trace = job->trace,
        .staleness = job->log_staleness,
        .stall_ns = (int64_t)(job->stall_timeout * 1e9),
    };
    return host->plan || sl_job_is_pipeline(job) ? sl_job_layout(work, host->plan) : SL_OK;
}

/* Marks fields that always have a value as given, so that config.json has them. Open fields of a
 * pipeline, and files that are not used, stay out. */
static void mark_resolved(struct sl_job *job) {
    static const char *const always[] = {
        "data",    "tokenizer",     "validation",   "device",       "dtype", "threads", "recompute",
        "batch",   "micro",         "steps",        "lr",           "clip",  "seed",    "lend",
        "emulate", "bind",          "eval_every",   "eval_samples", "save",  "keep",    "trace",
        "audit",   "log_staleness", "stall_timeout"};
    for (int i = 0; i < SL_COUNT(always); i++)
        sl_job_mark(job, always[i]);
}

sl_err sl_job_open(const struct sl_job *job, const struct sl_job_host *host,
                   struct sl_job_work *work) {
    *work = (struct sl_job_work){.start_bytes = sl_job_counted_bytes()};
    sl_job_copy(&work->job, job);
    if (host->plan && !*job->plan)
        sl_job_resolve(&work->job, "plan", "plan.plan");
    SL_TRY(sl_job_remember(work, host));
    SL_TRY(sl_job_check(&work->job));
    if (!sl_job_has(&work->job, "stall_timeout"))
        work->job.stall_timeout = (double)SL_STALL_NS * 1e-9;
    SL_TRY(open_model(work, host));
    SL_TRY(open_data(work, host));
    SL_TRY(use_devices(work));
    set_train(work);
    work->train.grads = host->grads;
    work->train.evaluates = host->evaluates;
    SL_TRY(set_optimizer(work));
    SL_TRY(set_pipe(work, host));
    SL_TRY(sl_job_shard(work));
    mark_resolved(&work->job);
    SL_TRY(sl_job_compare_stored(work));
    return sl_job_forecast_make(work);
}

void sl_job_close(struct sl_job_work *work) {
    sl_run_ahead_close(work->ahead);
    sl_data_close(work->data);
    sl_graph_close(work->own_graph);
    sl_graph_close(work->eval_graph);
    sl_graph_close(work->shard_graph);
    sl_graph_close(work->shard_eval_graph);
    if (work->stored)
        sl_job_free(&work->stored->job);
    sl_arena_free(&work->arena);
    sl_job_free(&work->job);
}
