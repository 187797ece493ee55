/* The tensors of a process as they were at one moment. */
#include "base/clock.h"
#include "ckpt/ckpt.h"
#include "ckpt/store.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 64 };

struct place {
    struct sl_tensor_id id;
    int64_t offset, size_bytes;
    const void *from; /* still to be copied from there; NULL: it is here */
};

struct sl_copy {
    struct sl_store store;
    SL_VEC(struct place) places;
    int64_t *offsets; /* [key_of] -1: not here */
    int64_t params, states, slabs, size_bytes;
    char *memory;
    pthread_mutex_t mutex;
    pthread_cond_t taken;
    atomic_bool taking; /* begun and not finished */
    atomic_int waiters;
    atomic_int_least64_t waited_ns;
};

/* Weights, then each slab of the optimizer, then states. */
static int64_t key_of(const struct sl_copy *copy, const struct sl_tensor_id *id) {
    switch (id->part) {
    case SL_PART_WEIGHT: return id->index;
    case SL_PART_OPTIM: return (1 + id->slab) * copy->params + id->index;
    default: return (1 + copy->slabs) * copy->params + id->index;
    }
}

static sl_err add_place(void *ctx, const struct sl_ckpt_item *item, const struct sl_tensor_id *id) {
    struct sl_copy *copy = ctx;
    int64_t size = sl_st_size_bytes(item->dtype, item->rank, item->dim);
    if (!copy->store.here(copy->store.ctx, id))
        return SL_OK;
    copy->offsets[key_of(copy, id)] = copy->size_bytes;
    SL_PUSH(&copy->places, ((struct place){*id, copy->size_bytes, size, NULL}));
    copy->size_bytes += (size + ALIGN - 1) / ALIGN * ALIGN;
    return SL_OK;
}

static sl_err plan(struct sl_copy *copy) {
    const struct sl_train_config *config = copy->store.config;
    struct sl_arena arena = {0};
    copy->params = config->graph->params.count;
    copy->states = config->graph->states.count;
    copy->slabs = config->optim.row ? sl_plan_slabs(&config->optim, &config->policy) : 0;
    int64_t keys = (1 + copy->slabs) * copy->params + copy->states;
    copy->offsets = sl_realloc(NULL, sizeof *copy->offsets * (size_t)(keys + 1));
    for (int64_t i = 0; i < keys; i++)
        copy->offsets[i] = -1;
    sl_err err = sl_ckpt_store_visit(&copy->store, &arena, add_place, copy);
    sl_arena_free(&arena);
    return err;
}

sl_err sl_ckpt_copy_open(const struct sl_store *store, struct sl_copy **out) {
    struct sl_copy *copy = sl_realloc(NULL, sizeof *copy);
    *copy = (struct sl_copy){.store = *store};
    pthread_mutex_init(&copy->mutex, NULL);
    pthread_cond_init(&copy->taken, NULL);
    sl_err err = SL_OK;
    SL_TRY_OUT(plan(copy));
    copy->memory = aligned_alloc(ALIGN, (size_t)(copy->size_bytes ? copy->size_bytes : ALIGN));
    if (!copy->memory) {
        char bytes[SL_HUMAN_BYTES];
        SL_TRY_OUT(
            sl_fail(SL_ERR_SYSTEM,
                    "no %s of memory for the copy that checkpoints are written from; '--save "
                    "sync' stops the run instead",
                    sl_human_bytes(copy->size_bytes, bytes)));
    }
    memset(copy->memory, 0, (size_t)copy->size_bytes); /* pages now, not in the first save */
    *out = copy;
out:
    if (err != SL_OK)
        sl_ckpt_copy_close(copy);
    return err;
}

void sl_ckpt_copy_close(struct sl_copy *copy) {
    if (!copy)
        return;
    SL_VEC_FREE(&copy->places);
    free(copy->offsets);
    free(copy->memory);
    pthread_cond_destroy(&copy->taken);
    pthread_mutex_destroy(&copy->mutex);
    free(copy);
}

sl_err sl_ckpt_copy_begin(struct sl_copy *copy) {
    for (int64_t i = 0; i < copy->places.count; i++) {
        struct place *place = &copy->places.at[i];
        place->from = copy->store.at_rest(copy->store.ctx, &place->id);
        if (!place->from)
            SL_TRY(copy->store.get(copy->store.ctx, &place->id, 0, place->size_bytes,
                                   copy->memory + place->offset));
    }
    atomic_store(&copy->taking, true);
    return SL_OK;
}

void sl_ckpt_copy_finish(struct sl_copy *copy) {
    for (int64_t i = 0; i < copy->places.count; i++) {
        struct place *place = &copy->places.at[i];
        if (place->from)
            memcpy(copy->memory + place->offset, place->from, (size_t)place->size_bytes);
        place->from = NULL;
    }
    pthread_mutex_lock(&copy->mutex);
    atomic_store(&copy->taking, false);
    pthread_cond_broadcast(&copy->taken);
    pthread_mutex_unlock(&copy->mutex);
}

void sl_ckpt_copy_await(struct sl_copy *copy) {
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

int sl_ckpt_copy_waiters(const struct sl_copy *copy) { return atomic_load(&copy->waiters); }

int64_t sl_ckpt_copy_waited_ns(struct sl_copy *copy) {
    return atomic_exchange(&copy->waited_ns, 0);
}

int64_t sl_ckpt_copy_bytes(const struct sl_copy *copy) { return copy->size_bytes; }

void sl_ckpt_copy_get(const struct sl_copy *copy, const struct sl_tensor_id *id, int64_t from,
                      int64_t size_bytes, void *out) {
    int64_t offset = copy->offsets[key_of(copy, id)];
    SL_ASSERT(offset >= 0);
    memcpy(out, copy->memory + offset + from, (size_t)size_bytes);
}
