/* What a run directory says of its run. */
#include "cli/run_texts.h"

#include "base/json.h"
#include "graph/model.h"

#include <stdlib.h>

static void put_config(struct sl_text *text, const struct sl_args *args,
                       const struct sl_pipe_config *pipe) {
    const struct sl_train_config *c = pipe->train;
    struct sl_json_out json = {.text = text, .indent = 2};
    struct sl_text optim = {0}, lr = {0}, policy = {0}, scale = {0};
    sl_optim_put(&optim, &c->optim);
    sl_optim_policy_put(&policy, &c->policy);
    sl_optim_lr_put(&lr, &c->lr);
    sl_optim_loss_scale_put(&scale, &c->loss_scale);
    sl_json_open(&json, '{');
    sl_json_put_string(&json, "model", args->positional[0]);
    sl_json_key(&json, "sizes");
    sl_json_open(&json, '{');
    for (int64_t i = 0; i < c->graph->sizes.count; i++)
        sl_json_put_double(&json, c->graph->sizes.at[i].name, c->graph->sizes.at[i].value);
    sl_json_close(&json, '}');
    sl_json_put_string(&json, "data", sl_args_text(args, "--data", "synthetic"));
    sl_json_put_string(&json, "tokenizer", sl_args_text(args, "--tokenizer", ""));
    sl_json_put_double(&json, "validation",
                       strtod(sl_args_text(args, "--validation", "0.1"), NULL));
    sl_json_put_string(&json, "device", c->device->name);
    sl_json_put_string(&json, "dtype", sl_args_text(args, "--dtype", "fp32"));
    sl_json_put_int(&json, "threads", c->threads);
    sl_json_put_int(&json, "batch", c->batch);
    sl_json_put_int(&json, "micro", c->micros);
    sl_json_put_int(&json, "steps", c->steps);
    sl_json_put_string(&json, "optimizer", optim.at);
    sl_json_put_string(&json, "policy", policy.at);
    sl_json_put_string(&json, "lr_schedule", lr.at);
    sl_json_put_double(&json, "lr", c->base_lr);
    sl_json_put_double(&json, "clip", c->clip);
    sl_json_put_string(&json, "loss_scale", scale.at);
    sl_json_put_int(&json, "seed", (int64_t)c->seed);
    if (pipe->plan) {
        sl_json_put_string(&json, "schedule", pipe->schedule);
        sl_json_put_string(&json, "verdict", pipe->global_step ? "all" : "stage");
        sl_json_put_int(&json, "slack", pipe->slack);
    }
    sl_json_close(&json, '}');
    sl_text_put(text, "\n");
    sl_text_free(&optim);
    sl_text_free(&policy);
    sl_text_free(&lr);
    sl_text_free(&scale);
}

enum { CONFIG_TEXT, MODEL_TEXT, PLAN_TEXT, FORECAST_TEXT };

void sl_cli_run_texts_put(struct sl_text texts[SL_RUN_TEXTS], const struct sl_args *args,
                          const struct sl_forecast *forecast, const struct sl_pipe_config *pipe,
                          struct sl_session_config *session) {
    put_config(&texts[CONFIG_TEXT], args, pipe);
    sl_graph_model_write(pipe->train->graph, &texts[MODEL_TEXT]);
    if (pipe->plan)
        sl_plan_write(pipe->plan, &texts[PLAN_TEXT]);
    if (forecast->cost)
        sl_report_forecast_write(forecast, &texts[FORECAST_TEXT]);
    session->config = texts[CONFIG_TEXT].at;
    session->model = texts[MODEL_TEXT].at;
    session->plan_text = texts[PLAN_TEXT].at;
    session->forecast = texts[FORECAST_TEXT].at;
}
