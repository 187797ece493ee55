/* Device memory that two processes of one host use: one shares it, the other enters it. */
#ifndef SL_DEVICE_IPC_H
#define SL_DEVICE_IPC_H

#include "base/err.h"

#include <stdint.h>

struct sl_device;

enum { SL_IPC_DOOR = 160 };

struct sl_ipc_area {
    char *at;  /* NULL: none */
    int index; /* of the GPU that uses it here */
};

/* What is refused has left nothing behind, and its error says why. */
struct sl_ipc_row {
    const char *name;
    /* Memory of this device; what another process needs to enter it. */
    sl_err (*share)(struct sl_device *device, int64_t size_bytes, struct sl_ipc_area *out,
                    char door[SL_IPC_DOOR]);
    /* For use by this device; refused unless it is seen to be the same memory. */
    sl_err (*enter)(struct sl_device *device, const char door[SL_IPC_DOOR],
                    struct sl_ipc_area *out);
    /* Both may come after the device was closed. Who has entered leaves first. */
    void (*leave)(const struct sl_ipc_area *area);
    void (*unshare)(const struct sl_ipc_area *area);
};

/* How this device shares its memory (GPUs: CUDA IPC); NULL: it does not. */
const struct sl_ipc_row *sl_device_ipc_of(const struct sl_device *device);

#endif
