/* Device memory that two processes of one host share: one exports it (share), the other maps it
 * (enter). */
#ifndef SL_DEVICE_IPC_H
#define SL_DEVICE_IPC_H

#include "base/err.h"

#include <stdint.h>

struct sl_device;

enum { SL_IPC_DOOR = 160 };

struct sl_ipc_area {
    char *at;  /* NULL: none */
    int index; /* index of the GPU of this process that uses it */
};

/* Functions that share memory. One that fails has no effect; its error gives the reason. */
struct sl_ipc_row {
    const char *name;
    /* Allocates memory of this device. `door` receives the handle for the other process. */
    sl_err (*share)(struct sl_device *device, int64_t size_bytes, struct sl_ipc_area *out,
                    char door[SL_IPC_DOOR]);
    /* Maps shared memory for this device; fails unless a test shows that it is the same. */
    sl_err (*enter)(struct sl_device *device, const char door[SL_IPC_DOOR],
                    struct sl_ipc_area *out);
    /* Both work even after the device was closed. Call leave before unshare. */
    void (*leave)(const struct sl_ipc_area *area);
    void (*unshare)(const struct sl_ipc_area *area);
};

/* Returns how this device shares memory (GPUs: CUDA IPC), or NULL if it cannot. */
const struct sl_ipc_row *sl_device_ipc_of(const struct sl_device *device);

#endif
