/* Links between devices that are two queues which meet. */
#include "support/wires.h"

#include "support/apart.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

enum { ITEMS = 2160 }; /* of an end, more than any test sends */

struct item {
    void *bytes;
    int64_t size_bytes;
};

struct wire {
    pthread_mutex_t mutex;
    struct item item[2][ITEMS]; /* [end] */
    int64_t put[2], over;
    bool broken, closed; /* closed: by one end, whose memory may be gone */
    struct wire *next;
};
static struct wire *all_wires; /* one end may open when the other has closed: they last */
static pthread_mutex_t all_mutex = PTHREAD_MUTEX_INITIALIZER;

struct sl_nccl_link_link {
    struct wire *wire;
    enum sl_nccl_link_end end;
};

bool wires_break;

static sl_err make_id(char id[SL_NCCL_LINK_ID]) {
    struct wire *wire = calloc(1, sizeof *wire);
    pthread_mutex_init(&wire->mutex, NULL);
    wire->broken = wires_break;
    pthread_mutex_lock(&all_mutex);
    wire->next = all_wires;
    all_wires = wire;
    pthread_mutex_unlock(&all_mutex);
    memcpy(id, &wire, sizeof wire);
    return SL_OK;
}

static sl_err open_link(const char id[SL_NCCL_LINK_ID], enum sl_nccl_link_end end,
                        struct sl_nccl_link_link **out) {
    *out = calloc(1, sizeof **out);
    memcpy(&(*out)->wire, id, sizeof(*out)->wire);
    (*out)->end = end;
    return SL_OK;
}

static void close_link(struct sl_nccl_link_link *link, bool abort) {
    (void)abort;
    if (link) {
        pthread_mutex_lock(&link->wire->mutex);
        link->wire->closed = true;
        pthread_mutex_unlock(&link->wire->mutex);
    }
    free(link);
}

static sl_err put(struct sl_nccl_link_link *link, int end, const void *bytes, int64_t size_bytes) {
    struct wire *w = link->wire;
    assert_true(apart_is(bytes) && size_bytes > 0);
    pthread_mutex_lock(&w->mutex);
    w->item[end][w->put[end]++] = (struct item){(void *)(uintptr_t)bytes, size_bytes};
    if (w->put[!end] >= w->put[end]) { /* both are there */
        struct item a = w->item[0][w->put[end] - 1], b = w->item[1][w->put[end] - 1];
        if (a.size_bytes != b.size_bytes)
            abort();
        if (!w->closed)
            memcpy(apart_show(b.bytes), apart_show(a.bytes), (size_t)a.size_bytes);
        w->over++;
    }
    pthread_mutex_unlock(&w->mutex);
    return SL_OK;
}

static sl_err send_nccl_link(struct sl_nccl_link_link *link, const void *bytes,
                             int64_t size_bytes) {
    return put(link, 0, bytes, size_bytes);
}

static sl_err receive_nccl_link(struct sl_nccl_link_link *link, void *bytes, int64_t size_bytes) {
    return put(link, 1, bytes, size_bytes);
}

static sl_err loop(struct sl_nccl_link_link *link, void *to, const void *from, int64_t size_bytes) {
    SL_TRY(put(link, 0, from, size_bytes));
    return put(link, 1, to, size_bytes);
}

static sl_err look(struct sl_nccl_link_link *link, int64_t *over) {
    pthread_mutex_lock(&link->wire->mutex);
    bool broken = link->wire->broken;
    *over = link->wire->over;
    pthread_mutex_unlock(&link->wire->mutex);
    return broken ? sl_fail(SL_ERR_PEER, "the wire is cut") : SL_OK;
}

static const char *missing(void) { return NULL; }

const struct sl_nccl_link_row wires = {.name = "wires",
                                       .missing = missing,
                                       .is_nccl_link = apart_is,
                                       .make_id = make_id,
                                       .open = open_link,
                                       .close = close_link,
                                       .send = send_nccl_link,
                                       .receive = receive_nccl_link,
                                       .loop = loop,
                                       .look = look};

void wires_free(void) {
    for (struct wire *wire = all_wires, *next; wire; wire = next) {
        next = wire->next;
        free(wire);
    }
    all_wires = NULL;
}
