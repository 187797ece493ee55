/* The members of a pool of threads. Private to pool.c and lend.c. */
#ifndef SL_DEVICE_CPU_POOL_STATE_H
#define SL_DEVICE_CPU_POOL_STATE_H

#include "device/cpu/cpu.h"

#include <pthread.h>
#include <stdatomic.h>

/* Pieces taken of a thread's range: by sl_device_pool_take, and by sl_device_pool_take_before. Has
 * its own cache line. */
struct sl_device_taken {
    _Alignas(64) _Atomic int64_t count;
    _Atomic int64_t before;
};

struct sl_device_pool {
    int threads, place;
    pthread_t *ids;
    void (*body)(void *ctx, int thread, int threads);
    void *ctx;
    struct sl_device_taken *taken; /* per thread */
    _Atomic unsigned round;
    atomic_int left, sleepers;
    atomic_bool stop;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    struct sl_device_lend *lend;      /* NULL: no guests */
    char *scratch;                    /* of the device, used while this pool's threads are */
    int64_t scratch_bytes;            /* guests; nothing in it outlives a kernel */
    _Alignas(64) atomic_uint door;    /* of the current loop: number of guests, SHUT */
    atomic_int_least64_t guest_bytes; /* scratch that a guest needs */
    _Alignas(64) atomic_int_least64_t idle_ns; /* time of the last wait of this worker; 0: never */
};

/* lend.c, for pool.c. Opens the current loop to guests; closes it and waits until all have left. */
void sl_device_lend_let_in(struct sl_device_pool *pool, int64_t guest_bytes);
void sl_device_lend_see_out(struct sl_device_pool *pool);
/* A guest found no piece left. */
void sl_device_lend_shut(struct sl_device_pool *pool);
/* Of the calling guest: whether its worker has work; its scratch; count a piece it took. */
bool sl_device_lend_is_called_back(void);
void *sl_device_lend_scratch(void);
void sl_device_lend_note_piece(void);

#endif
