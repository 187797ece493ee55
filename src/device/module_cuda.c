/* The row of the CUDA device: it loads the module libsluice_cuda.so when it is asked something, and
 * the devices that it opens have the module's own row. */
#include "base/module.h"
#include "device/cuda/host.h"

#include <pthread.h>
#include <stdio.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static const struct sl_device_row *module; /* written once; NULL: not to be had */
static char why[512];

static void load(void) {
    static const struct sl_cuda_host host = {
        .version = SL_CUDA_MODULE_VERSION,
        .device_row_bytes = sizeof(struct sl_device_row),
        .program_bytes = sizeof(struct sl_program),
        .set_message = sl_err_set_message,
        .assert_fail = sl_assert_fail,
    };
    const void *found;
    if (sl_module_load("libsluice_cuda.so", SL_CUDA_MODULE_SYMBOL, &found) != SL_OK) {
        snprintf(why, sizeof why, "%s", sl_err_message());
        return;
    }
    sl_cuda_module_fn *entry = (sl_cuda_module_fn *)(uintptr_t)found;
    module = entry(&host);
    if (!module)
        snprintf(why, sizeof why, "libsluice_cuda.so was built with another version of sluice");
}

static const struct sl_device_row *loaded(void) {
    pthread_once(&once, load);
    return module;
}

static const char *missing(void) { return loaded() ? module->missing() : why; }

static sl_err open_device(const struct sl_device_config *config, struct sl_device **out) {
    if (!loaded())
        return sl_fail(SL_ERR_SYSTEM, "device 'cuda' cannot be used here: %s", why);
    return module->open(config, out);
}

static bool has_kernel(const char *name) { return loaded() && module->has_kernel(name); }

const struct sl_device_row sl_device_cuda = {
    .name = "cuda",
    .brief = "an NVIDIA GPU",
    .halves = true,
    .missing = missing,
    .open = open_device,
    .has_kernel = has_kernel,
};
