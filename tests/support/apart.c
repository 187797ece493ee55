#include "support/apart.h"

#include <pthread.h>
#include <stdlib.h>

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

static sl_err run(struct sl_device *device, struct sl_exec *exec,
                  const struct sl_device_args *args) {
    struct sl_device_args here = *args;
    for (int s = 0; s < SL_SPACE_COUNT; s++)
        here.base[s] = apart_show(args->base[s]);
    return sl_device_find("cpu")->run(device, exec, &here);
}

static struct sl_step_item *show_items(const struct sl_step_item *items, int count) {
    struct sl_step_item *here = calloc((size_t)count + 1, sizeof *here);
    for (int i = 0; i < count; i++) {
        here[i] = items[i];
        here[i].io.w = apart_show(items[i].io.w);
        here[i].io.g = apart_show(items[i].io.g);
        here[i].io.delta = apart_show(items[i].io.delta);
        here[i].io.scratch = apart_show(items[i].io.scratch);
        here[i].out = apart_show(items[i].out);
        for (int s = 0; s < SL_OPTIM_STATE; s++)
            here[i].io.state[s] = apart_show(items[i].io.state[s]);
    }
    return here;
}

static sl_err step(struct sl_device *device, const struct sl_step_item *items, int count) {
    struct sl_step_item *here = show_items(items, count);
    sl_err err = sl_device_find("cpu")->step(device, here, count);
    free(here);
    return err;
}

static sl_err predict(struct sl_device *device, const struct sl_step_item *items, int count,
                      double ahead) {
    struct sl_step_item *here = show_items(items, count);
    sl_err err = sl_device_find("cpu")->predict(device, here, count, ahead);
    free(here);
    return err;
}

static sl_err norm_sq(struct sl_device *device, const struct sl_norm_item *items, int count) {
    struct sl_norm_item *here = calloc((size_t)count + 1, sizeof *here);
    for (int i = 0; i < count; i++)
        here[i] = (struct sl_norm_item){apart_show(items[i].x), items[i].count, items[i].sum};
    sl_err err = sl_device_find("cpu")->norm_sq(device, here, count);
    free(here);
    return err;
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
    row.run = run;
    row.step = step;
    row.predict = predict;
    row.norm_sq = norm_sq;
}

const struct sl_device_row *apart_row(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make);
    return &row;
}
