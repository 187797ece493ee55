#include "use/generate.h"

#include "job/model.h"
#include "job/parts.h"
#include "run/inputs.h"

#include <string.h>

/* Opens the tokenizer of the data; a run without a tokenizer file has no other. */
static sl_err open_data(struct sl_use_generator *g) {
    struct sl_arena arena = {0};
    struct sl_data_input *inputs;
    sl_err err = sl_run_describe_inputs(&arena, g->graph, &inputs);
    if (err == SL_OK)
        err = sl_data_open(&(struct sl_data_spec){.source = g->job.data,
                                                  .inputs = inputs,
                                                  .input_count = (int)g->graph->inputs.count,
                                                  .seed = (uint64_t)g->job.seed},
                           &g->data);
    if (err == SL_OK)
        g->tokenizer = sl_data_tokenizer(g->data);
    sl_arena_free(&arena);
    return err;
}

static sl_err open_tokenizer(struct sl_use_generator *g) {
    if (*g->job.tokenizer) {
        SL_TRY(sl_tokenizer_open(g->job.tokenizer, &g->own));
        g->tokenizer = g->own;
    } else {
        SL_TRY(open_data(g));
    }
    if (!g->tokenizer)
        return sl_fail(SL_ERR_REFUSED,
                       "this run cannot write text: that takes an input 'tokens', an output "
                       "'logits' and a tokenizer (text data)");
    return SL_OK;
}

sl_err sl_use_generator_open(const struct sl_job *job, const struct sl_use_generate *how,
                             struct sl_use_generator *g) {
    struct sl_job_host host = {.model_dirs = how->model_dirs};
    const struct sl_device_row *device;
    *g = (struct sl_use_generator){0};
    sl_job_init(&g->job);
    SL_TRY(sl_job_eval_graph(job, how->from, &host, &g->job, &g->graph));
    if (!g->graph->stored.has)
        SL_TRY(sl_job_init_attach(g->graph, how->from, false));
    SL_TRY(open_tokenizer(g));
    SL_TRY(sl_job_device_find(g->job.device, &device));
    const char *why = device->missing();
    if (why)
        return sl_fail(SL_ERR_SYSTEM, "device '%s' cannot be used here: %s", device->name, why);
    return sl_decode_open(&(struct sl_decode_config){.graph = g->graph,
                                                     .device = device,
                                                     .threads = (int)g->job.threads,
                                                     .stages = (int)how->stages,
                                                     .batch = how->batch,
                                                     .chunk = how->chunk},
                          &g->gen);
}

void sl_use_generator_close(struct sl_use_generator *g) {
    sl_decode_close(g->gen);
    sl_tokenizer_close(g->own);
    sl_data_close(g->data);
    sl_graph_close(g->graph);
    sl_job_free(&g->job);
}
