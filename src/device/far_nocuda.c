/* A build without GPUs has no links between them. */
#include "device/far.h"

#include <stddef.h>

const struct sl_far_row *sl_far_gpus(const char **why) {
    *why = "this build has no CUDA module";
    return NULL;
}
