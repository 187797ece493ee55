/* What a pool of threads is made of. Private to pool.c and lend.c. */
#ifndef SL_DEVICE_CPU_POOL_STATE_H
#define SL_DEVICE_CPU_POOL_STATE_H

#include "device/cpu/cpu.h"

#include <pthread.h>
#include <stdatomic.h>

/* How many pieces of a thread's range are taken, and of those before them; a line of memory of its
 * own. */
struct sl_taken {
    _Alignas(64) _Atomic int64_t count;
    _Atomic int64_t before;
};

struct sl_pool {
    int threads, place;
    pthread_t *ids;
    void (*body)(void *ctx, int thread, int threads);
    void *ctx;
    struct sl_taken *taken; /* per thread */
    _Atomic unsigned round;
    atomic_int left, sleepers;
    atomic_bool stop;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    struct sl_lend *lend;             /* NULL: nobody else takes pieces of this pool's loops */
    char *scratch;                    /* of the device, for when this pool's threads are */
    int64_t scratch_bytes;            /* guests; nothing in it outlives a kernel */
    _Alignas(64) atomic_uint door;    /* of the loop at hand: guests, SL_DOOR_SHUT */
    atomic_int_least64_t guest_bytes; /* of scratch that a guest needs */
    _Alignas(64) atomic_int_least64_t idle_ns; /* when this worker last waited; 0: never */
};

/* lend.c, for pool.c. The loop that was just set may be joined; may not any more, and all guests
 * are out. */
void sl_lend_let_in(struct sl_pool *pool, int64_t guest_bytes);
void sl_lend_see_out(struct sl_pool *pool);
/* By a guest: no piece is left. */
void sl_lend_shut(struct sl_pool *pool);
/* Of the calling thread, a guest: has its own worker something to do? Its scratch. It took one. */
bool sl_lend_is_called_back(void);
void *sl_lend_scratch(void);
void sl_lend_note_piece(void);

#endif
