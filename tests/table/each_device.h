/* A check of a fused kernel on every device of this machine that has it, in all types of the device. */
#ifndef SL_TESTS_EACH_DEVICE_H
#define SL_TESTS_EACH_DEVICE_H

#include "device_here.h"
#include "support/kernel_bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static inline void on_each_device(const char *kernel,
                                  void (*try)(struct sl_device *, enum sl_dtype)) {
    struct sl_device_config config = {.threads = 1};
    struct sl_device *device;
    int at = 0;
    bench_failures = 0;
    for (const struct sl_device_row *row; (row = next_device(&at));) {
        if (!row->has_kernel(kernel))
            continue;
        bench_must(row->open(&config, &device), row->name);
        for (int i = 0; i < SL_COUNT(device_dtypes); i++)
            if (sl_device_takes(row, device_dtypes[i]))
                try(device, device_dtypes[i]);
        device->row->close(device);
    }
    assert_int_equal(bench_failures, 0);
}

#endif
