/* A snapshot of the tensors that this process has. */
#include "base/clock.h"
#include "ckpt/store.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 64 };

struct region { /* one tensor in the snapshot */
    int64_t entry, offset, size_bytes;
    const void *from; /* memory that finish copies; NULL: already copied */
};

struct sl_ckpt_copy {
    struct sl_ckpt_store store;
    struct region *regions; /* one per local tensor */
    int64_t region_count, size_bytes;
    int64_t *offsets; /* [entry] offset in `memory`; -1: the tensor is not local */
    char *memory;
    pthread_mutex_t mutex;
    pthread_cond_t taken;
    atomic_bool taking; /* begin has run, finish has not */
    atomic_int waiters;
    atomic_int_least64_t waited_ns;
};

static void lay_out(struct sl_ckpt_copy *copy) {
    const struct sl_ckpt_store *store = &copy->store;
    copy->offsets = sl_realloc(NULL, sizeof *copy->offsets * (size_t)(store->count + 1));
    copy->regions = sl_realloc(NULL, sizeof *copy->regions * (size_t)(store->count + 1));
    for (int64_t i = 0; i < store->count; i++) {
        int64_t size = sl_graph_shape_numel(store->entries[i].shape, 1) * 4;
        copy->offsets[i] = -1;
        if (!store->is_local(store->ctx, i))
            continue;
        copy->offsets[i] = copy->size_bytes;
        copy->regions[copy->region_count++] = (struct region){i, copy->size_bytes, size, NULL};
        copy->size_bytes += (size + ALIGN - 1) / ALIGN * ALIGN;
    }
}

sl_err sl_ckpt_copy_open(const struct sl_ckpt_store *store, struct sl_ckpt_copy **out) {
    struct sl_ckpt_copy *copy = sl_realloc(NULL, sizeof *copy);
    *copy = (struct sl_ckpt_copy){.store = *store};
    pthread_mutex_init(&copy->mutex, NULL);
    pthread_cond_init(&copy->taken, NULL);
    sl_err err = SL_OK;
    lay_out(copy);
    copy->memory = aligned_alloc(ALIGN, (size_t)(copy->size_bytes ? copy->size_bytes : ALIGN));
    if (!copy->memory) {
        char bytes[SL_HUMAN_BYTES];
        SL_TRY_OUT(
            sl_fail(SL_ERR_SYSTEM,
                    "no %s of memory for the copy from which checkpoints are written; `save` sync "
                    "stops the run instead",
                    sl_human_bytes(copy->size_bytes, bytes)));
    }
    /* touches the pages, so that the first save does not */
    memset(copy->memory, 0, (size_t)copy->size_bytes);
    store->attach(store->ctx, copy);
    *out = copy;
out:
    if (err != SL_OK)
        sl_ckpt_copy_close(copy);
    return err;
}

void sl_ckpt_copy_close(struct sl_ckpt_copy *copy) {
    if (!copy)
        return;
    copy->store.attach(copy->store.ctx, NULL);
    free(copy->regions);
    free(copy->offsets);
    free(copy->memory);
    pthread_cond_destroy(&copy->taken);
    pthread_mutex_destroy(&copy->mutex);
    free(copy);
}

sl_err sl_ckpt_copy_begin(struct sl_ckpt_copy *copy, const struct sl_ckpt_place *place) {
    for (int64_t i = 0; i < copy->region_count; i++) {
        struct region *r = &copy->regions[i];
        if (!sl_ckpt_entry_counts(&copy->store.entries[r->entry], place))
            continue;
        r->from = copy->store.at_rest(copy->store.ctx, r->entry);
        if (!r->from)
            SL_TRY(copy->store.get(copy->store.ctx, r->entry, 0, r->size_bytes,
                                   copy->memory + r->offset));
    }
    atomic_store(&copy->taking, true);
    return SL_OK;
}

void sl_ckpt_copy_finish(struct sl_ckpt_copy *copy) {
    for (int64_t i = 0; i < copy->region_count; i++) {
        struct region *r = &copy->regions[i];
        if (r->from)
            memcpy(copy->memory + r->offset, r->from, (size_t)r->size_bytes);
        r->from = NULL;
    }
    pthread_mutex_lock(&copy->mutex);
    atomic_store(&copy->taking, false);
    pthread_cond_broadcast(&copy->taken);
    pthread_mutex_unlock(&copy->mutex);
}

void sl_ckpt_copy_await(struct sl_ckpt_copy *copy) {
    if (!copy || !atomic_load(&copy->taking))
        return;
    int64_t begin = sl_clock_ns();
    atomic_fetch_add(&copy->waiters, 1);
    pthread_mutex_lock(&copy->mutex);
    while (atomic_load(&copy->taking))
        pthread_cond_wait(&copy->taken, &copy->mutex);
    pthread_mutex_unlock(&copy->mutex);
    atomic_fetch_sub(&copy->waiters, 1);
    int64_t waited = sl_clock_ns() - begin, max = atomic_load(&copy->waited_ns);
    while (waited > max && !atomic_compare_exchange_weak(&copy->waited_ns, &max, waited))
        continue;
}

int sl_ckpt_copy_waiters(const struct sl_ckpt_copy *copy) { return atomic_load(&copy->waiters); }

int64_t sl_ckpt_copy_waited_ns(struct sl_ckpt_copy *copy) {
    return atomic_exchange(&copy->waited_ns, 0);
}

int64_t sl_ckpt_copy_bytes(const struct sl_ckpt_copy *copy) { return copy->size_bytes; }

void sl_ckpt_copy_get(const struct sl_ckpt_copy *copy, int64_t entry, int64_t from,
                      int64_t size_bytes, void *out) {
    int64_t offset = copy->offsets[entry];
    SL_ASSERT(offset >= 0);
    memcpy(out, copy->memory + offset + from, (size_t)size_bytes);
}
