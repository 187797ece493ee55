/* The row of the CUDA device, which loads the module libsluice_cuda.so on first use. Devices that
 * it opens have the row of the module instead. */
#include "base/module.h"
#include "device/cuda/host.h"

#include <pthread.h>
#include <stdio.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static const struct sl_device_row *module; /* written once; NULL: the module is not available */
static const struct sl_nccl_link_row *nccl_link;
static const struct sl_ipc_row *ipc;
static char why[512];

static void load(void) {
    static const struct sl_cuda_host host = {
        .version = SL_CUDA_MODULE_VERSION,
        .device_row_bytes = sizeof(struct sl_device_row),
        .program_bytes = sizeof(struct sl_program),
        .set_message = sl_err_set_message,
        .assert_fail = sl_assert_fail,
        .out_of_memory = sl_out_of_memory,
    };
    const void *found;
    if (sl_module_load("libsluice_cuda.so", SL_CUDA_MODULE_SYMBOL, NULL, &found) != SL_OK) {
        snprintf(why, sizeof why, "%s", sl_err_message());
        return;
    }
    sl_cuda_module_fn *entry = (sl_cuda_module_fn *)(uintptr_t)found;
    const struct sl_cuda_module *rows = entry(&host);
    if (rows) {
        module = rows->device;
        nccl_link = rows->nccl_link;
        ipc = rows->ipc;
    } else
        snprintf(why, sizeof why, "libsluice_cuda.so was built with another version of sluice");
}

static const struct sl_device_row *loaded(void) {
    pthread_once(&once, load);
    return module;
}

const struct sl_nccl_link_row *sl_device_nccl_link_gpus(const char **out_why) {
    *out_why = loaded() ? nccl_link->missing() : why;
    return *out_why ? NULL : nccl_link;
}

/* A device that the module opened shows that the module is loaded. */
const struct sl_ipc_row *sl_device_ipc_of(const struct sl_device *device) {
    return device->row == module ? ipc : NULL;
}

static const char *missing(void) { return loaded() ? module->missing() : why; }

static int list(struct sl_device_facts *out, int max) {
    return loaded() ? module->list(out, max) : 0;
}

static sl_err open_device(const struct sl_device_config *config, struct sl_device **out) {
    if (!loaded())
        return sl_fail(SL_ERR_SYSTEM, "device 'cuda' cannot be used here: %s", why);
    return module->open(config, out);
}

static bool has_kernel(const char *name) { return loaded() && module->has_kernel(name); }

/* Open devices have the row of the module. These functions forward calls through this row. */

static void close_device(struct sl_device *device) { module->close(device); }

static sl_err alloc_bytes(struct sl_device *device, int64_t size_bytes, void **out) {
    return module->alloc(device, size_bytes, out);
}

static void free_bytes(struct sl_device *device, void *memory) { module->free(device, memory); }

static sl_err upload(struct sl_device *device, enum sl_stream stream, void *to, const void *from,
                     int64_t size_bytes) {
    return module->upload(device, stream, to, from, size_bytes);
}

static sl_err download(struct sl_device *device, enum sl_stream stream, void *to, const void *from,
                       int64_t size_bytes) {
    return module->download(device, stream, to, from, size_bytes);
}

static sl_err copy(struct sl_device *device, enum sl_stream stream, void *to, const void *from,
                   int64_t size_bytes) {
    return module->copy(device, stream, to, from, size_bytes);
}

static sl_err sync_stream(struct sl_device *device, enum sl_stream stream) {
    return module->sync(device, stream);
}

static sl_err bind_program(struct sl_device *device, const struct sl_program *program,
                           struct sl_exec **out) {
    return module->bind(device, program, out);
}

static void unbind(struct sl_device *device, struct sl_exec *exec) { module->unbind(device, exec); }

static sl_err run(struct sl_device *device, struct sl_exec *exec,
                  const struct sl_device_args *args) {
    return module->run(device, exec, args);
}

static int64_t scratch_bytes(const struct sl_device *device, const struct sl_exec *exec) {
    return module->scratch_bytes(device, exec);
}

static sl_err add(struct sl_device *device, void *y, const void *x, int64_t numel) {
    return module->add(device, y, x, numel);
}

static sl_err step(struct sl_device *device, const struct sl_step_item *items, int count) {
    return module->step(device, items, count);
}

static sl_err predict(struct sl_device *device, const struct sl_step_item *items, int count,
                      double ahead) {
    return module->predict(device, items, count, ahead);
}

static sl_err norm_sq(struct sl_device *device, const struct sl_norm_item *items, int count) {
    return module->norm_sq(device, items, count);
}

const struct sl_device_row sl_device_cuda = {
    .name = "cuda",
    .brief = "an NVIDIA GPU",
    .halves = true,
    .fp16 = true,
    .tf32 = true,
    .whole = true,
    .apart = true,
    .missing = missing,
    .list = list,
    .open = open_device,
    .close = close_device,
    .alloc = alloc_bytes,
    .free = free_bytes,
    .upload = upload,
    .download = download,
    .copy = copy,
    .sync = sync_stream,
    .has_kernel = has_kernel,
    .bind = bind_program,
    .unbind = unbind,
    .run = run,
    .scratch_bytes = scratch_bytes,
    .add = add,
    .step = step,
    .predict = predict,
    .norm_sq = norm_sq,
};
