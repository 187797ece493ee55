/* A build without GPUs has no links between them, nor memory of them to share. */
#include "device/far.h"
#include "device/near.h"

#include <stddef.h>

const struct sl_far_row *sl_far_gpus(const char **why) {
    *why = "this build has no CUDA module";
    return NULL;
}

const struct sl_near_row *sl_near_of(const struct sl_device *device) {
    (void)device;
    return NULL;
}
