/* From options to graphs, data and a device. */
#include "cli/run_options.h"

#include "run/inputs.h"

#include <string.h>

sl_err sl_cli_run_open_data(const struct sl_args *args, struct sl_run_inputs *in) {
    const struct sl_graph *graph = in->graph;
    SL_TRY(sl_run_describe_inputs(&in->arena, graph, &in->inputs));
    int64_t seed = 1;
    struct sl_data_spec spec = {
        .source = sl_args_text(args, "--data", "synthetic"),
        .tokenizer = sl_args_text(args, "--tokenizer", NULL),
        .inputs = in->inputs,
        .input_count = (int)graph->inputs.count,
        .validation = 0.1,
    };
    SL_TRY(sl_args_int(args, "--seed", 0, INT64_MAX, &seed));
    SL_TRY(sl_args_double(args, "--validation", 0, 1e15, &spec.validation));
    spec.seed = (uint64_t)seed;
    return sl_data_open(&spec, &in->data);
}

sl_err sl_cli_run_open(const struct sl_args *args, const char *model, struct sl_run_inputs *in) {
    *in = (struct sl_run_inputs){0};
    SL_TRY(sl_cli_model_open(args, model, false, &in->graph));
    SL_TRY(sl_graph_autodiff(in->graph));
    SL_TRY(sl_cli_model_open(args, model, true, &in->eval_graph));
    return sl_cli_run_open_data(args, in);
}

void sl_cli_run_close(struct sl_run_inputs *in) {
    sl_data_close(in->data);
    sl_graph_close(in->graph);
    sl_graph_close(in->eval_graph);
    sl_arena_free(&in->arena);
}

static const char *device_name(const void *ctx, int i) {
    (void)ctx;
    return sl_device_rows[i]->name;
}

sl_err sl_cli_run_device(const char *name, const struct sl_device_row **out) {
    int count = 0;
    *out = sl_device_find(name);
    if (*out)
        return SL_OK;
    while (sl_device_rows[count])
        count++;
    const char *near = sl_nearest(name, count, device_name, NULL);
    return sl_fail(SL_ERR_USAGE, "--device: unknown device '%s'%s%s%s", name,
                   near ? "; did you mean '" : "; see 'sluice list devices'", near ? near : "",
                   near ? "'?" : "");
}

static sl_err find_device(const char *name, const struct sl_device_row **out) {
    SL_TRY(sl_cli_run_device(name, out));
    const char *why = (*out)->missing();
    return why ? sl_fail(SL_ERR_SYSTEM, "device '%s' cannot be used here: %s", (*out)->name, why)
               : SL_OK;
}

/* 'cuda', or 'cuda,cpu' for the workers of a pipeline in turn. */
static sl_err find_devices(const struct sl_args *args, struct sl_train_config *out) {
    const char *at = sl_args_text(args, "--device", "cpu");
    int count = 0;
    for (;; at++) {
        char name[32];
        size_t length = strcspn(at, ",");
        if (count == SL_KINDS_MAX || length >= sizeof name)
            return sl_fail(SL_ERR_USAGE, "--device: '%s' is not D or D,D,... (at most %d)", at,
                           SL_KINDS_MAX);
        memcpy(name, at, length);
        name[length] = 0;
        SL_TRY(find_device(name, &out->kinds[count++]));
        at += length;
        if (!*at)
            break;
    }
    out->device = out->kinds[0];
    out->kind_count = count > 1 ? count : 0;
    return SL_OK;
}

sl_err sl_cli_run_one_device(const struct sl_train_config *config) {
    if (!config->kind_count)
        return SL_OK;
    return sl_fail(SL_ERR_USAGE, "several devices need a pipeline: --stages N or --plan X.plan");
}

static sl_err find_dtype(const struct sl_args *args, struct sl_train_config *out) {
    const char *name = sl_args_text(args, "--dtype", "fp32");
    out->dtype = strcmp(name, "bf16") == 0   ? SL_BF16
                 : strcmp(name, "fp16") == 0 ? SL_FP16
                                             : SL_FLOAT;
    out->tf32 = strcmp(name, "tf32") == 0;
    if (out->dtype == SL_FLOAT && !out->tf32 && strcmp(name, "fp32") != 0)
        return sl_fail(SL_ERR_USAGE, "--dtype is fp32, tf32, bf16 or fp16, not '%s'", name);
    for (int i = 0; i < (out->kind_count ? out->kind_count : 1); i++)
        if (!sl_device_takes(out->kinds[i], out->dtype) || (out->tf32 && !out->kinds[i]->tf32))
            return sl_fail(SL_ERR_REFUSED,
                           "--dtype %s: device '%s' does not compute in it; train with --dtype "
                           "fp32",
                           name, out->kinds[i]->name);
    return SL_OK;
}

sl_err sl_cli_run_config(const struct sl_args *args, struct sl_run_inputs *in,
                         struct sl_train_config *out) {
    int64_t threads = 1, seed = 1;
    *out = (struct sl_train_config){
        .graph = in->graph,
        .eval_graph = in->eval_graph,
        .data = in->data,
        .batch = 8,
        .micros = 1,
        .recompute = sl_args_has(args, "--recompute"),
    };
    SL_TRY(find_devices(args, out));
    SL_TRY(find_dtype(args, out));
    SL_TRY(sl_args_int(args, "--threads", 1, 1024, &threads));
    SL_TRY(sl_args_int(args, "--seed", 0, INT64_MAX, &seed));
    SL_TRY(sl_args_int(args, "--batch", 1, 1 << 30, &out->batch));
    SL_TRY(sl_args_int(args, "--micro", 1, 1 << 30, &out->micros));
    out->threads = (int)threads;
    out->seed = (uint64_t)seed;
    return SL_OK;
}

sl_err sl_cli_run_optimizer(const struct sl_args *args, int64_t steps,
                            struct sl_train_config *out) {
    out->steps = steps;
    out->clip = 1.0;
    SL_TRY(sl_args_int(args, "--steps", 0, INT64_MAX, &out->steps));
    SL_TRY(sl_args_double(args, "--clip", 0, 1e30, &out->clip));
    SL_TRY(sl_optim_parse(sl_args_text(args, "--optimizer", "adamw"), &out->optim));
    SL_TRY(
        sl_optim_lr_parse(sl_args_text(args, "--lr-schedule", "constant"), out->steps, &out->lr));
    SL_TRY(sl_optim_loss_scale_parse(
        sl_args_text(args, "--loss-scale", out->dtype == SL_FP16 ? "dynamic" : "none"),
        &out->loss_scale));
    out->base_lr = out->optim.row->lr;
    return sl_args_double(args, "--lr", 0, 1e6, &out->base_lr);
}
