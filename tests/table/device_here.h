/* Devices of this machine, for tests that run on each. */
#ifndef SL_TESTS_DEVICE_HERE_H
#define SL_TESTS_DEVICE_HERE_H

#include "device/device.h"

#include <stdlib.h>
#include <string.h>

/* Types of activations. */
static const enum sl_dtype device_dtypes[] = {SL_FLOAT, SL_BF16, SL_FP16};

/* The next usable device after *row (NULL: the first); NULL: none left. Skips the reference, which
 * the others are compared with. SL_TEST_DEVICE: only the device of this name. */
static inline const struct sl_device_row *next_device(int *at) {
    const char *only = getenv("SL_TEST_DEVICE");
    while (sl_device_rows[*at]) {
        const struct sl_device_row *row = sl_device_rows[(*at)++];
        if (only && strcmp(only, row->name) != 0)
            continue;
        if (row->missing() == NULL && row->bind != sl_device_find("reference")->bind)
            return row;
    }
    return NULL;
}

#endif
