/* The public interface to training: a request becomes a session. */
#include "sluice/train.h"

#include "api/handles.h"
#include "api/request.h"
#include "pipe/pipe.h"
#include "plan/model.h"
#include "run/inputs.h"
#include "run/session.h"

#include <math.h>
#include <string.h>

struct watch {
    sl_train_on_step on_step;
    void *ctx;
    volatile sig_atomic_t stop;
};

static void on_step(void *ctx, const struct sl_step_report *r) {
    struct watch *w = ctx;
    struct sl_train_step step = {.size = sizeof step,
                                 .step = r->step,
                                 .samples = r->samples,
                                 .dur_ns = r->dur_ns,
                                 .loss = r->loss,
                                 .norm = r->norm,
                                 .lr = r->lr,
                                 .skipped = r->skipped};
    if (w->on_step && w->on_step(w->ctx, &step) != 0)
        w->stop = 1;
}

static const char *or_else(const char *given, const char *fallback) {
    return given ? given : fallback;
}

static sl_err set_training(const struct sl_net *net, const struct sl_train_request *r,
                           struct sl_train_config *c) {
    bool good = r->batch >= 0 && r->batch <= 1 << 30 && r->micros >= 0 && r->micros <= 1 << 30 &&
                r->steps >= 0 && r->threads >= 0 && r->threads <= 1024 && r->lr >= 0;
    if (!good)
        return sl_fail(SL_ERR_USAGE, "batch, micros, steps, threads, lr: a number is out of range");
    *c = (struct sl_train_config){
        .graph = net->graph,
        .device = sl_device_find("cpu"),
        .threads = r->threads ? r->threads : 1,
        .dtype = SL_FLOAT,
        .batch = r->batch ? r->batch : 8,
        .micros = r->micros ? r->micros : 1,
        .steps = r->steps ? r->steps : 100,
        .clip = r->clip < 0   ? 0
                : r->clip > 0 ? r->clip
                              : 1,
        .seed = r->seed ? r->seed : 1,
    };
    SL_TRY(sl_optim_parse(or_else(r->optimizer, "adamw"), &c->optim));
    SL_TRY(sl_optim_lr_parse(or_else(r->lr_schedule, "constant"), c->steps, &c->lr));
    c->base_lr = r->lr > 0 ? r->lr : c->optim.row->lr;
    return SL_OK;
}

static sl_err set_pipeline(struct sl_arena *arena, const struct sl_train_request *r,
                           struct sl_train_config *train, struct sl_pipe_config *s) {
    if (!r->pipeline)
        return SL_OK;
    int *stage_of = SL_NEW(arena, int, train->graph->forward_count);
    s->plan = r->pipeline->plan;
    s->stage_of = stage_of;
    s->schedule = or_else(r->schedule, or_else(s->plan->schedule, "1f1b"));
    s->global_step = true;
    if (!r->batch && s->plan->batch)
        train->batch = s->plan->batch;
    return sl_plan_stage_of(s->plan, train->graph, stage_of);
}

/* What 'sluice eval' and its kind need to open the run again. */
static void put_config(struct sl_text *text, const struct sl_train_request *r,
                       const struct sl_train_config *c) {
    struct sl_json_out json = {.text = text, .indent = 2};
    struct sl_text optim = {0}, lr = {0};
    sl_optim_put(&optim, &c->optim);
    sl_optim_lr_put(&lr, &c->lr);
    sl_json_open(&json, '{');
    sl_json_put_string(&json, "model", c->graph->name);
    sl_json_put_string(&json, "data", or_else(r->data, "synthetic"));
    sl_json_put_double(&json, "validation", 0.1);
    sl_json_put_string(&json, "device", c->device->name);
    sl_json_put_int(&json, "threads", c->threads);
    sl_json_put_int(&json, "batch", c->batch);
    sl_json_put_int(&json, "micro", c->micros);
    sl_json_put_int(&json, "steps", c->steps);
    sl_json_put_string(&json, "optimizer", optim.at);
    sl_json_put_string(&json, "lr_schedule", lr.at);
    sl_json_put_double(&json, "lr", c->base_lr);
    sl_json_put_double(&json, "clip", c->clip);
    sl_json_put_int(&json, "seed", (int64_t)c->seed);
    sl_json_close(&json, '}');
    sl_text_put(text, "\n");
    sl_text_free(&optim);
    sl_text_free(&lr);
}

static sl_err open_data(struct sl_arena *arena, const struct sl_train_request *r,
                        const struct sl_train_config *c, struct sl_data **out) {
    struct sl_data_input *inputs;
    SL_TRY(sl_run_describe_inputs(arena, c->graph, &inputs));
    struct sl_data_spec spec = {.source = or_else(r->data, "synthetic"),
                                .inputs = inputs,
                                .input_count = (int)c->graph->inputs.count,
                                .validation = 0.1,
                                .seed = c->seed};
    return sl_data_open(&spec, out);
}

sl_err sl_train_net(const struct sl_net *net, const struct sl_train_request *request,
                    sl_train_on_step callback, void *ctx, double *loss) {
    struct sl_arena arena = {0};
    struct sl_text config = {0}, model = {0};
    struct watch watch = {.on_step = callback, .ctx = ctx};
    struct sl_train_request known;
    struct sl_session_config s = {
        .stop = &watch.stop, .ctx = &watch, .on_step = on_step, .keep = 1};
    struct sl_train_config train = {0};
    struct sl_pipe_config pipe = {.train = &train};
    struct sl_session_result result = {0};
    struct sl_data *data = NULL;
    sl_err err = SL_OK;
    *loss = NAN;
    SL_TRY(sl_api_request_copy("sl_train_request", request, &known, SL_TRAIN_REQUEST_FIRST,
                               sizeof known));
    request = &known;
    s.run = known.run;
    if (!net->graph->differentiated)
        return sl_fail(SL_ERR_USAGE, "the net has no backward pass yet: sl_net_autodiff comes "
                                     "first");
    SL_TRY_OUT(set_training(net, request, &train));
    SL_TRY_OUT(set_pipeline(&arena, request, &train, &pipe));
    SL_TRY_OUT(open_data(&arena, request, &train, &data));
    train.data = data;
    put_config(&config, request, &train);
    sl_graph_model_write(net->graph, &model);
    s.config = config.at;
    s.model = model.at;
    SL_TRY_OUT(sl_pipe_session_run(&s, &pipe, &result));
    *loss = result.last_loss;
out:
    sl_data_close(data);
    sl_text_free(&config);
    sl_text_free(&model);
    sl_arena_free(&arena);
    return err;
}
