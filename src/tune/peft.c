/* Writes adapters as PEFT saves them: adapter_config.json and adapter_model.safetensors. */
#include "base/json.h"
#include "base/outfile.h"
#include "base/safetensors.h"
#include "tune/tune.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct peft {
    struct sl_arena arena;
    const struct sl_graph *graph;
    struct sl_tune_adapter *adapters;
    int count;
};

static sl_err check(const struct peft *p) {
    if (!p->count)
        return sl_fail(SL_ERR_REFUSED, "%s has no adapters; train it with `lora`", p->graph->name);
    for (int64_t i = 0; i < p->graph->params.count; i++) {
        const struct sl_param *param = &p->graph->params.at[i];
        if (!param->frozen && !sl_tune_is_adapter(param->name))
            return sl_fail(SL_ERR_REFUSED,
                           "'%s' was trained, too, and is no adapter; export the "
                           "merged model with the target hf",
                           param->name);
    }
    for (int i = 1; i < p->count; i++)
        if (p->adapters[i].transposed != p->adapters[0].transposed)
            return sl_fail(SL_ERR_REFUSED,
                           "%s has adapters of weights in both orders, which one "
                           "adapter_config.json cannot say",
                           p->graph->name);
    return SL_OK;
}

/* Returns the module of an adapter from the name of its A: "model.layers.0.self_attn.q_proj". */
static const char *module_of(struct peft *p, const struct sl_tune_adapter *of) {
    const char *name = p->graph->params.at[of->a].name;
    return sl_arena_dup(&p->arena, name, strlen(name) - strlen(".lora_A.weight"));
}

static sl_err write_config(struct peft *p, const char *source, const char *path) {
    struct sl_text text = {0};
    struct sl_json_out json = {.text = &text, .indent = 2};
    sl_json_open(&json, '{');
    sl_json_put_string(&json, "peft_type", "LORA");
    sl_json_put_string(&json, "base_model_name_or_path", source ? source : "");
    sl_json_put_int(&json, "r", p->adapters[0].rank);
    sl_json_put_double(&json, "lora_alpha", p->adapters[0].scale * (double)p->adapters[0].rank);
    sl_json_put_double(&json, "lora_dropout", 0);
    sl_json_put_string(&json, "bias", "none");
    sl_json_put_bool(&json, "fan_in_fan_out", p->adapters[0].transposed);
    sl_json_put_bool(&json, "inference_mode", true);
    sl_json_key(&json, "target_modules");
    sl_json_open(&json, '[');
    for (int i = 0; i < p->count; i++)
        sl_json_string(&json, module_of(p, &p->adapters[i]));
    sl_json_close(&json, ']');
    sl_json_close(&json, '}');
    sl_text_put(&text, "\n");
    sl_err err = sl_file_write(path, text.at, text.length);
    sl_text_free(&text);
    return err;
}

static sl_err write_output(void *ctx, const void *bytes, size_t length) {
    return sl_outfile_write(ctx, bytes, length);
}

static sl_err put_values(struct sl_st_writer *writer, const struct sl_graph *graph, int param) {
    int64_t numel = sl_graph_shape_numel(&graph->values.at[graph->params.at[param].value].shape, 1);
    float *values = NULL;
    sl_err err = sl_tune_read_param(graph, param, &values);
    if (err == SL_OK)
        err = sl_st_writer_put(writer, values, 4 * numel);
    free(values);
    return err;
}

static sl_err write_tensors(struct peft *p, struct sl_outfile *output) {
    struct sl_st_writer writer;
    const struct sl_st_entry *entry;
    int *param = SL_NEW(&p->arena, int, 2 * p->count);
    sl_err err = SL_OK;
    sl_st_writer_open(&writer, (struct sl_st_sink){output, write_output});
    sl_st_writer_note(&writer, "format", "pt");
    for (int i = 0; i < 2 * p->count; i++) {
        param[i] = i % 2 ? p->adapters[i / 2].b : p->adapters[i / 2].a;
        const struct sl_param *of = &p->graph->params.at[param[i]];
        const struct sl_shape *shape = &sl_graph_value(p->graph, of->value)->shape;
        struct sl_st_tensor tensor = {
            .name = sl_arena_printf(&p->arena, "base_model.model.%s", of->name),
            .dtype = SL_ST_F32,
            .rank = 2,
            .dim = {shape->dim[0], shape->dim[1]}};
        SL_TRY_OUT(sl_st_writer_add(&writer, &tensor));
    }
    SL_TRY_OUT(sl_st_writer_start(&writer, NULL));
    while ((entry = sl_st_writer_next(&writer)) != NULL)
        SL_TRY_OUT(put_values(&writer, p->graph, param[entry->number]));
out:
    sl_st_writer_close(&writer);
    return err;
}

static sl_err write_folder(struct peft *p, const char *source, const char *to) {
    struct sl_outfile output;
    if (mkdir(to, 0777) != 0 && errno != EEXIST)
        return sl_fail(SL_ERR_SYSTEM, "cannot make the folder %s: %s", to, strerror(errno));
    SL_TRY(
        sl_outfile_open(&output, sl_arena_printf(&p->arena, "%s/adapter_model.safetensors", to)));
    SL_TRY(sl_outfile_close(&output, write_tensors(p, &output)));
    return write_config(p, source, sl_arena_printf(&p->arena, "%s/adapter_config.json", to));
}

sl_err sl_tune_write_peft(const struct sl_graph *graph, const char *source, const char *to,
                          struct sl_text *summary) {
    struct peft p = {.graph = graph};
    p.count = sl_tune_adapters(&p.arena, graph, &p.adapters);
    sl_err err = check(&p);
    if (err == SL_OK)
        err = write_folder(&p, source, to);
    if (err == SL_OK)
        sl_text_printf(summary, "%s: %d adapters of rank %lld\n", to, p.count,
                       (long long)p.adapters[0].rank);
    sl_arena_free(&p.arena);
    return err;
}
