/* A build without CUDA: no NCCL links, no shared GPU memory. */
#include "device/ipc.h"
#include "device/nccl_link.h"

#include <stddef.h>

const struct sl_nccl_link_row *sl_device_nccl_link_gpus(const char **why) {
    *why = "this build has no CUDA module";
    return NULL;
}

const struct sl_ipc_row *sl_device_ipc_of(const struct sl_device *device) {
    (void)device;
    return NULL;
}
