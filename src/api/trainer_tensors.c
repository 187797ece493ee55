/* Tensors of a trainer by name: those of checkpoints, and kept gradients. */
#include "api/request.h"
#include "api/trainer.h"
#include "ckpt/ckpt.h"
#include "job/tensors.h"

#include <stdlib.h>
#include <string.h>

/* ---- gradients ---- */

sl_err sl_api_gradients_open(struct sl_trainer *t) {
    const struct sl_graph *graph = t->work.graph;
    size_t count = (size_t)graph->params.count;
    if (!t->keeps_gradients)
        return SL_OK;
    if (t->comm && t->comm->ranks > 1)
        return sl_fail(SL_ERR_REFUSED, "gradients are kept in one process only; on several ranks "
                                       "use sl_trainer_on_gradient");
    t->gradients = sl_realloc(NULL, (count + 1) * sizeof *t->gradients);
    t->grad_names = SL_NEW(&t->arena, const char *, count + 1);
    for (size_t i = 0; i < count; i++) {
        const struct sl_param *param = &graph->params.at[i];
        int64_t numel = sl_graph_shape_numel(&sl_graph_value(graph, param->value)->shape, 1);
        t->grad_names[i] = sl_arena_printf(&t->arena, "%s:gradient", param->name);
        t->gradients[i] = sl_realloc(NULL, (size_t)numel * sizeof **t->gradients);
    }
    return SL_OK;
}

void sl_api_gradients_close(struct sl_trainer *t) {
    for (int64_t i = 0; t->gradients && t->grad_names[i]; i++)
        free(t->gradients[i]);
    free(t->gradients);
}

/* Copies a gradient; several workers call it at once. */
sl_err sl_api_gradient_see(void *trainer, const struct sl_param *param, float *gradient,
                           int64_t count) {
    struct sl_trainer *t = trainer;
    if (t->on_gradient) {
        int status = t->on_gradient(t->gradient_ctx, param->name, gradient, count);
        if (status != 0)
            return sl_fail(SL_ERR_INPUT, "the callback for gradients returned %d for '%s'", status,
                           param->name);
    }
    if (t->gradients) {
        pthread_mutex_lock(&t->mutex);
        memcpy(t->gradients[param - t->work.graph->params.at], gradient,
               (size_t)count * sizeof *gradient);
        t->has_step = true;
        pthread_mutex_unlock(&t->mutex);
    }
    return SL_OK;
}

static int64_t find_gradient(const struct sl_trainer *t, const char *name) {
    for (int64_t i = 0; t->gradients && t->grad_names[i]; i++)
        if (strcmp(t->grad_names[i], name) == 0)
            return i;
    return -1;
}

/* ---- the list ---- */

/* Returns the tensor at an index: first the entries of the store that always exist, then
 * gradients. */
static int64_t always(const struct sl_ckpt_store *store, int64_t index) {
    for (int64_t i = 0; i < store->count; i++)
        if (store->entries[i].when == SL_CKPT_ALWAYS && index-- == 0)
            return i;
    return -1;
}

static int64_t count_always(const struct sl_ckpt_store *store) {
    int64_t count = 0;
    for (int64_t i = 0; i < store->count; i++)
        count += store->entries[i].when == SL_CKPT_ALWAYS;
    return count;
}

static struct sl_ckpt_store store_of(const struct sl_trainer *t) {
    const struct sl_runner *runner = sl_job_training_runner(t->training);
    return runner->row->store(runner->ctx);
}

int64_t sl_trainer_tensor_count(struct sl_trainer *trainer) {
    if (sl_api_trainer_check(trainer, SL_TRAINER_OPEN, __func__) != SL_OK)
        return 0;
    struct sl_ckpt_store store = store_of(trainer);
    return count_always(&store) + (trainer->gradients ? trainer->work.graph->params.count : 0);
}

static enum sl_tensor_kind kind_of(const struct sl_trainer *t, const struct sl_ckpt_entry *entry) {
    const struct sl_graph *graph = t->work.graph;
    if (entry->group != SL_CKPT_WEIGHTS)
        return SL_TENSOR_OPTIMIZER;
    for (int64_t i = 0; i < graph->states.count; i++)
        if (strcmp(graph->states.at[i].name, entry->name) == 0)
            return SL_TENSOR_STATISTIC;
    return SL_TENSOR_WEIGHT;
}

static void put_shape(const struct sl_shape *shape, struct sl_tensor *out) {
    out->rank = shape->rank;
    for (int i = 0; i < shape->rank; i++)
        out->dim[i] = shape->dim[i];
    out->count = sl_graph_shape_numel(shape, 1);
}

sl_err sl_trainer_tensor(struct sl_trainer *trainer, int64_t index, struct sl_tensor *out) {
    struct sl_tensor found = {0};
    SL_API_TRAINER(trainer, SL_TRAINER_OPEN);
    const struct sl_graph *graph = trainer->work.graph;
    struct sl_ckpt_store store = store_of(trainer);
    int64_t entry = index < 0 ? -1 : always(&store, index), grad = index - count_always(&store);
    if (entry < 0 && (grad < 0 || !trainer->gradients || grad >= graph->params.count))
        return sl_fail(SL_ERR_USAGE, "there is no tensor %lld", (long long)index);
    if (entry >= 0) {
        found.name = store.entries[entry].name;
        found.kind = kind_of(trainer, &store.entries[entry]);
        put_shape(store.entries[entry].shape, &found);
    } else {
        found.name = trainer->grad_names[grad];
        found.kind = SL_TENSOR_GRADIENT;
        put_shape(&sl_graph_value(graph, graph->params.at[grad].value)->shape, &found);
    }
    return sl_api_result_put("sl_tensor", out, &found, SL_TENSOR_FIRST, sizeof found);
}

/* ---- values ---- */

static const char *tensor_name(const void *ctx, int i) {
    const struct sl_ckpt_store *store = ctx;
    return store->entries[i].name;
}

static sl_err find(const struct sl_ckpt_store *store, const char *name, int64_t count,
                   int64_t *entry) {
    *entry = sl_job_tensor_find(store, name);
    if (*entry < 0) {
        const char *near = sl_nearest(name, (int)store->count, tensor_name, store);
        return sl_fail(SL_ERR_USAGE, "the run has no tensor '%.200s'%s%s%s", name,
                       near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    }
    int64_t numel = sl_job_tensor_numel(&store->entries[*entry]);
    if (count != numel)
        return sl_fail(SL_ERR_USAGE, "'%s' has %lld values, the array %lld", name, (long long)numel,
                       (long long)count);
    return SL_OK;
}

static sl_err get_gradient(struct sl_trainer *t, int64_t index, float *values, int64_t count) {
    const struct sl_graph *graph = t->work.graph;
    const struct sl_value *value = sl_graph_value(graph, graph->params.at[index].value);
    int64_t numel = sl_graph_shape_numel(&value->shape, 1);
    if (!t->has_step)
        return sl_fail(SL_ERR_USAGE, "'%s' is not known before a step", t->grad_names[index]);
    if (count != numel)
        return sl_fail(SL_ERR_USAGE, "'%s' has %lld values, the array %lld", t->grad_names[index],
                       (long long)numel, (long long)count);
    memcpy(values, t->gradients[index], (size_t)count * sizeof *values);
    return SL_OK;
}

sl_err sl_trainer_get_tensor(struct sl_trainer *trainer, const char *name, float *values,
                             int64_t count) {
    int64_t entry;
    SL_API_TRAINER(trainer, SL_TRAINER_OPEN);
    SL_API_GIVEN(name);
    SL_API_GIVEN(values);
    if (find_gradient(trainer, name) >= 0)
        return get_gradient(trainer, find_gradient(trainer, name), values, count);
    struct sl_ckpt_store store = store_of(trainer);
    SL_TRY(find(&store, name, count, &entry));
    return sl_job_tensor_get(sl_job_training_runner(trainer->training), entry, values);
}

sl_err sl_trainer_set_tensor(struct sl_trainer *trainer, const char *name, const float *values,
                             int64_t count) {
    int64_t entry;
    SL_API_TRAINER(trainer, SL_TRAINER_OPEN);
    SL_API_GIVEN(name);
    SL_API_GIVEN(values);
    if (find_gradient(trainer, name) >= 0)
        return sl_fail(SL_ERR_REFUSED,
                       "'%s' can only be read; sl_trainer_on_gradient changes "
                       "gradients before the step",
                       name);
    struct sl_ckpt_store store = store_of(trainer);
    SL_TRY(find(&store, name, count, &entry));
    return sl_job_tensor_put(sl_job_training_runner(trainer->training), entry, values);
}
