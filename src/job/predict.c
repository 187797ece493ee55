/* Computes outputs of a model for given inputs, in full micro-batches of the evaluation program.
 * The last micro-batch is filled with copies of its last sample. */
#include "job/predict.h"

#include "job/tensors.h"

#include <stdlib.h>
#include <string.h>

/* Returns the matrix product that computes the value, looking through nodes of other kinds. */
static const struct sl_node *find_product(const struct sl_graph *graph, int value) {
    const struct sl_value *v = sl_graph_value(graph, value);
    while (v->kind == SL_VALUE_NODE) {
        const struct sl_node *node = &graph->nodes.at[v->node];
        if (node->op->layer == SL_LAYER_PRODUCT || node->in_count == 0)
            return node->in_count ? node : NULL;
        v = sl_graph_value(graph, node->in[0]);
    }
    return NULL;
}

sl_err sl_job_add_embeddings(struct sl_graph *graph) {
    for (int64_t i = 0; i < graph->outputs.count; i++) {
        const struct sl_node *node = find_product(graph, graph->outputs.at[i].value);
        if (strcmp(graph->outputs.at[i].name, "logits") != 0 || !node)
            continue;
        return sl_graph_output(graph, "embeddings", node->in[0]);
    }
    return sl_fail(SL_ERR_REFUSED, "this model has no embeddings: that takes an output 'logits' "
                                   "that a matrix product gives");
}

sl_err sl_job_predictor_open(const struct sl_job *job, const char *run,
                             const struct sl_job_host *host, struct sl_job_predictor *out) {
    *out = (struct sl_job_predictor){0};
    SL_TRY(sl_job_eval_open_on(job, run, 0, host, &out->eval));
    out->train = out->eval.train;
    return SL_OK;
}

sl_err sl_job_predictor_copy(const struct sl_job_work *work, const struct sl_runner *runner,
                             struct sl_job_predictor *out) {
    struct sl_train_config config = work->train;
    *out = (struct sl_job_predictor){0};
    config.graph = work->eval_graph ? work->eval_graph : work->graph;
    config.eval_graph = NULL;
    config.batch = sl_run_train_full_samples(config.batch, config.micros);
    config.micros = 1;
    config.optim = (struct sl_optim){0};
    config.policy = (struct sl_policy_use){0};
    config.audit = 0;
    config.kind_count = 0;
    config.grads = NULL;
    SL_TRY(sl_run_train_open(&config, &out->train));
    out->train->step = runner->row->step(runner->ctx);
    return sl_job_tensors_copy(runner, out->train);
}

void sl_job_predictor_close(struct sl_job_predictor *p) {
    if (p->train != p->eval.train)
        sl_run_train_close(p->train);
    sl_job_eval_close(&p->eval);
}

static const struct sl_program *program_of(const struct sl_job_predictor *p) {
    return p->train->worker->programs[sl_run_train_eval_program(p->train)];
}

const struct sl_program_port *sl_job_predictor_output(const struct sl_job_predictor *p, int index,
                                                      const char **name) {
    const struct sl_program *program = program_of(p);
    if (index < 0 || index >= program->outputs.count)
        return NULL;
    *name = program->graph->outputs.at[program->outputs.at[index].index].name;
    return &program->outputs.at[index];
}

static sl_err put_inputs(const struct sl_job_predictor *p, const struct sl_job_prediction *r,
                         int64_t first) {
    struct sl_worker *worker = p->train->worker;
    const struct sl_program *program = program_of(p);
    for (int i = 0; i < program->inputs.count; i++) {
        const struct sl_program_port *port = &program->inputs.at[i];
        int64_t bytes = port->operand.numel / program->samples * 4; /* 4 bytes: float or int32_t */
        for (int64_t n = 0; n < program->samples; n++) {
            int64_t sample = first + n < r->samples ? first + n : r->samples - 1;
            SL_TRY(r->fill(r->ctx, sample, port->index, (char *)worker->staging + n * bytes));
        }
        SL_TRY(sl_run_worker_put(worker, 0, port, worker->staging));
    }
    return SL_OK;
}

sl_err sl_job_predict(const struct sl_job_predictor *p, const struct sl_job_prediction *r) {
    const struct sl_program *program = program_of(p);
    struct sl_worker_pass pass = {.program = sl_run_train_eval_program(p->train)};
    const struct sl_value *value = sl_graph_value(program->graph, r->output->value);
    int64_t values = r->output->operand.numel / program->samples;
    sl_err err = SL_OK;
    if (!(value->shape.batch & 1) || value->dtype == SL_INT)
        return sl_fail(SL_ERR_REFUSED, "the output '%s' is not one row of numbers per sample",
                       program->graph->outputs.at[r->output->index].name);
    float *all = sl_realloc(NULL, sizeof *all * (size_t)r->output->operand.numel);
    for (int64_t first = 0; first < r->samples; first += program->samples) {
        int64_t left = r->samples - first,
                count = left < program->samples ? left : program->samples;
        SL_TRY_OUT(put_inputs(p, r, first));
        SL_TRY_OUT(sl_run_worker_pass(p->train->worker, &pass));
        SL_TRY_OUT(sl_run_worker_get(p->train->worker, 0, r->output, all));
        memcpy(r->out + first * values, all, sizeof *all * (size_t)(count * values));
    }
out:
    free(all);
    return err;
}
