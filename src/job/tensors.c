/* Tensors of an open run by name. Rank 0 reads and writes through the store; the other ranks serve
 * it. */
#include "job/tensors.h"

#include "run/train.h"

#include <stdlib.h>
#include <string.h>

int64_t sl_job_tensor_numel(const struct sl_ckpt_entry *entry) {
    return sl_graph_shape_numel(entry->shape, 1);
}

int64_t sl_job_tensor_find(const struct sl_ckpt_store *store, const char *name) {
    for (int64_t i = 0; i < store->count; i++)
        if (store->entries[i].when == SL_CKPT_ALWAYS && strcmp(store->entries[i].name, name) == 0)
            return i;
    return -1;
}

static sl_err end(const struct sl_ckpt_store *store, sl_err err) {
    return store->end ? store->end(store->ctx, err) : err;
}

sl_err sl_job_tensor_get(const struct sl_runner *runner, int64_t entry, float *out) {
    struct sl_ckpt_store store = runner->row->store(runner->ctx);
    int64_t size_bytes = sl_job_tensor_numel(&store.entries[entry]) * (int64_t)sizeof *out;
    if (store.is_root) {
        SL_TRY(end(&store, store.get(store.ctx, entry, 0, size_bytes, out)));
    } else {
        SL_TRY(store.serve(store.ctx, NULL));
        memset(out, 0, (size_t)size_bytes);
    }
    return runner->comm ? sl_comm_merge(runner->comm, out, size_bytes) : SL_OK;
}

sl_err sl_job_tensor_put(const struct sl_runner *runner, int64_t entry, const float *values) {
    struct sl_ckpt_store store = runner->row->store(runner->ctx);
    int64_t size_bytes = sl_job_tensor_numel(&store.entries[entry]) * (int64_t)sizeof *values;
    if (!runner->is_synchronous && runner->row->step(runner->ctx) > 0)
        return sl_fail(SL_ERR_REFUSED,
                       "'%s' cannot be set: micro-batches of this asynchronous pipeline are in "
                       "flight and have read other values; set tensors before the first step",
                       store.entries[entry].name);
    if (!store.is_root)
        return store.serve(store.ctx, NULL);
    return end(&store, store.put(store.ctx, entry, 0, size_bytes, values));
}

sl_err sl_job_tensors_copy(const struct sl_runner *runner, struct sl_train *to) {
    struct sl_ckpt_store from = runner->row->store(runner->ctx), into = sl_run_train_store(to);
    float *values = NULL;
    sl_err err = SL_OK;
    for (int64_t i = 0; err == SL_OK && i < into.count; i++) {
        int64_t entry = sl_job_tensor_find(&from, into.entries[i].name);
        int64_t bytes = sl_job_tensor_numel(&into.entries[i]) * (int64_t)sizeof *values;
        SL_ASSERT(entry >= 0);
        values = sl_realloc(values, (size_t)bytes);
        err = sl_job_tensor_get(runner, entry, values);
        if (err == SL_OK)
            err = into.put(into.ctx, i, 0, bytes, values);
    }
    free(values);
    return err;
}
