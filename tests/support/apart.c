#include "support/apart.h"

#include <pthread.h>

static const uintptr_t away = (uintptr_t)1 << 62;

bool apart_is(const void *at) { return (uintptr_t)at & away; }
void *apart_hide(void *at) { return (void *)((uintptr_t)at | away); }
void *apart_show(const void *at) { return (void *)((uintptr_t)at & ~away); }

static sl_err alloc_bytes(struct sl_device *device, int64_t size_bytes, void **out) {
    SL_TRY(sl_device_find("cpu")->alloc(device, size_bytes, out));
    *out = apart_hide(*out);
    return SL_OK;
}

static void free_bytes(struct sl_device *device, void *memory) {
    sl_device_find("cpu")->free(device, apart_show(memory));
}

static sl_err copy(struct sl_device *device, enum sl_stream stream, void *to, const void *from,
                   int64_t size_bytes) {
    return sl_device_find("cpu")->copy(device, stream, apart_show(to), apart_show(from),
                                       size_bytes);
}

static sl_err add(struct sl_device *device, void *y, const void *x, int64_t numel) {
    return sl_device_find("cpu")->add(device, apart_show(y), apart_show(x), numel);
}

static sl_err open_device(const struct sl_device_config *config, struct sl_device **out) {
    SL_TRY(sl_device_find("cpu")->open(config, out));
    (*out)->row = apart_row();
    return SL_OK;
}

static struct sl_device_row row;

static void make(void) {
    row = *sl_device_find("cpu");
    row.name = "apart";
    row.apart = true;
    row.open = open_device;
    row.alloc = alloc_bytes;
    row.free = free_bytes;
    row.upload = row.download = row.copy = copy;
    row.add = add;
}

const struct sl_device_row *apart_row(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make);
    return &row;
}
