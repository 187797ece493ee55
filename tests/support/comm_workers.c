/* Workers of a transport under test. */
#include "support/comm_workers.h"

#include "support/apart.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

struct sl_comm *workers_comm;
struct sl_device *workers_device[WORKERS];

static bool apart;

void *workers_seen(void *at) { return apart ? apart_hide(at) : at; }

void workers_set_apart(bool on) {
    apart = on;
    for (int w = 0; w < WORKERS; w++)
        if (workers_device[w])
            workers_device[w]->row = on ? apart_row() : sl_device_find("cpu");
}

int workers_rank_of(int worker) { return sl_comm_rank_of(workers_comm, worker, WORKERS); }
bool workers_are_here(int worker) { return workers_rank_of(worker) == workers_comm->rank; }

static void *worker_main(void *arg) {
    struct worker *w = arg;
    w->err = w->body(w->index, w->ctx);
    if (w->err != SL_OK) {
        snprintf(w->message, sizeof w->message, "%s", sl_err_message());
        sl_comm_fail(workers_comm, w->err);
    }
    return NULL;
}

void workers_run(sl_err (*body)(int, void *), void *ctx, struct worker out[WORKERS]) {
    for (int w = 0; w < WORKERS; w++) {
        out[w] = (struct worker){.index = w, .ctx = ctx, .body = body};
        if (workers_are_here(w))
            assert_int_equal(pthread_create(&out[w].thread, NULL, worker_main, &out[w]), 0);
    }
    for (int w = 0; w < WORKERS; w++)
        if (workers_are_here(w))
            pthread_join(out[w].thread, NULL);
}

void workers_run_well(sl_err (*body)(int, void *), void *ctx) {
    struct worker out[WORKERS];
    workers_run(body, ctx, out);
    for (int w = 0; w < WORKERS; w++)
        if (out[w].err != SL_OK)
            fail_msg("worker %d: %s", w, out[w].message);
}

uint64_t workers_mix(uint64_t a, uint64_t b, uint64_t c) {
    uint64_t x = a * 0x9E3779B97F4A7C15u + b * 0xC2B2AE3D27D4EB4Fu + c * 0x165667B19E3779F9u;
    x ^= x >> 29;
    x *= 0xBF58476D1CE4E5B9u;
    return x ^ x >> 32;
}

void workers_fill(char *at, int64_t size, uint64_t key) {
    for (int64_t i = 0; i < size; i++)
        at[i] = (char)(key >> (i % 7) ^ (uint64_t)(i * 131));
}

bool workers_hold(const char *at, int64_t size, uint64_t key) {
    for (int64_t i = 0; i < size; i++)
        if (at[i] != (char)(key >> (i % 7) ^ (uint64_t)(i * 131)))
            return false;
    return true;
}

/* Copy between a place in device memory and the host. */
sl_err workers_copy(struct sl_device *device, void *to, const void *from, int64_t size) {
    if (!device && size)
        memcpy(to, from, (size_t)size);
    if (!device || !size)
        return SL_OK;
    SL_TRY(device->row->copy(device, SL_STREAM_COMPUTE, to, from, size));
    return device->row->sync(device, SL_STREAM_COMPUTE);
}
