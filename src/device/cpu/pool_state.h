/* The members of a pool of threads. Only pool.c and lend.c use them. */
#ifndef SL_DEVICE_CPU_POOL_STATE_H
#define SL_DEVICE_CPU_POOL_STATE_H

#include "device/cpu/cpu.h"

#include <pthread.h>
#include <stdatomic.h>

/* How many pieces of a thread's range are taken: by sl_device_pool_take, and by
 * sl_device_pool_take_before. It has its own cache line. */
struct sl_device_taken {
    _Alignas(64) _Atomic int64_t count;
    _Atomic int64_t before;
};

struct sl_device_pool {
    int threads, place;
    pthread_t *ids;
    void (*body)(void *ctx, int thread, int threads);
    void *ctx;
    struct sl_device_taken *taken; /* [thread] */
    _Atomic unsigned round;
    atomic_int left, sleepers;
    atomic_bool stop;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    struct sl_device_lend *lend;   /* NULL: guests are not allowed */
    char *scratch;                 /* scratch that this pool's threads use while they are guests */
    int64_t scratch_bytes;         /* its size; it keeps no content from kernel to kernel */
    _Alignas(64) atomic_uint door; /* of the current loop: the number of guests, and SHUT */
    atomic_int_least64_t guest_bytes;          /* bytes of scratch that a guest needs */
    _Alignas(64) atomic_int_least64_t idle_ns; /* when this worker last waited; 0: never */
};

/* For pool.c: open the current loop to guests; close it and wait until all guests have left. */
void sl_device_lend_let_in(struct sl_device_pool *pool, int64_t guest_bytes);
void sl_device_lend_see_out(struct sl_device_pool *pool);
/* Shuts the loop when a guest found no piece left. */
void sl_device_lend_shut(struct sl_device_pool *pool);
/* For a guest: whether its own worker has work, its scratch, and a count of its pieces. */
bool sl_device_lend_is_called_back(void);
void *sl_device_lend_scratch(void);
void sl_device_lend_note_piece(void);

#endif
