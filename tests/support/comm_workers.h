/* Six workers of a transport under test, as threads of this rank and of others. */
#ifndef SL_TEST_COMM_WORKERS_H
#define SL_TEST_COMM_WORKERS_H

#include "comm/comm.h"
#include "device/device.h"

#include <pthread.h>

enum { WORKERS = 6 };

struct worker {
    int index;
    void *ctx;
    sl_err (*body)(int worker, void *ctx);
    sl_err err;
    char message[256];
    pthread_t thread;
};

extern struct sl_comm *workers_comm;
extern struct sl_device *workers_device[WORKERS]; /* NULL: none */

/* All devices are apart: the host cannot read their memory (support/apart.h). */
void workers_set_apart(bool on);
/* An address in device memory, as the host sees it. */
void *workers_seen(void *at);

int workers_rank_of(int worker);
bool workers_are_here(int worker);

/* The workers of this rank run `body`; what each returned is in `out`. */
void workers_run(sl_err (*body)(int, void *), void *ctx, struct worker out[WORKERS]);
/* The same; fails the test if a worker fails. */
void workers_run_well(sl_err (*body)(int, void *), void *ctx);

/* Contents that depend on a key. */
uint64_t workers_mix(uint64_t a, uint64_t b, uint64_t c);
void workers_fill(char *at, int64_t size, uint64_t key);
bool workers_hold(const char *at, int64_t size, uint64_t key);
/* Copies between a place in device memory (NULL: the host's) and the host. */
sl_err workers_copy(struct sl_device *device, void *to, const void *from, int64_t size);

#endif
