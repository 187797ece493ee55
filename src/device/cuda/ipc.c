/* GPU memory that two processes of one host share: CUDA IPC, on one GPU or on two GPUs with peer
 * access.
 *
 * A handle maps the whole block of the driver that contains the memory. Blocks have 2 MiB;
 * shared memory gets blocks that hold nothing else. A process cannot open its own handles, and
 * opening a handle of another host or container is not always an error. Therefore the memory
 * begins with a random number that the receiver compares with the one it was told. */
#include "device/ipc.h"
#include "device/cuda/cuda.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

extern const struct sl_ipc_row sl_cuda_ipc_ipc;

enum { BLOCK = 2 << 20 };

struct door {
    cudaIpcMemHandle_t handle;
    uint64_t token;
    char host[48]; /* the boot id: equal in all processes of a host until it reboots */
};
_Static_assert(sizeof(struct door) <= SL_IPC_DOOR, "a door has its place");

static void read_host(char out[48]) {
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
    if (!file || !fgets(out, 48, file))
        snprintf(out, 48, "?");
    if (file)
        fclose(file);
}

static void unshare(const struct sl_ipc_area *area) {
    cudaSetDevice(area->index);
    cudaFree(area->at);
}

static void leave(const struct sl_ipc_area *area) {
    cudaSetDevice(area->index);
    cudaIpcCloseMemHandle(area->at);
}

static sl_err write_token(struct sl_device *device, void *at, uint64_t token) {
    SL_TRY(device->row->upload(device, SL_STREAM_COMPUTE, at, &token, sizeof token));
    return device->row->sync(device, SL_STREAM_COMPUTE);
}

static sl_err share(struct sl_device *device, int64_t size_bytes, struct sl_ipc_area *out,
                    char door[SL_IPC_DOOR]) {
    struct door made = {.token = 0};
    int64_t size = (size_bytes + BLOCK) / BLOCK * BLOCK;
    void *memory;
    sl_err err = SL_OK;
    if (getrandom(&made.token, sizeof made.token, 0) != (ssize_t)sizeof made.token)
        return sl_fail(SL_ERR_SYSTEM, "cannot draw a random number");
    read_host(made.host);
    SL_TRY(device->row->alloc(device, size, &memory));
    *out = (struct sl_ipc_area){memory, sl_cuda_of(device)->index};
    SL_TRY_OUT(write_token(device, memory, made.token));
    SL_TRY_OUT(SL_CUDA(cudaIpcGetMemHandle(&made.handle, memory)));
    memcpy(door, &made, sizeof made);
out:
    if (err != SL_OK) {
        cudaGetLastError(); /* clears the error, which was handled here */
        unshare(out);
        *out = (struct sl_ipc_area){0};
    }
    return err;
}

static sl_err read_token(struct sl_device *device, const void *at, uint64_t want) {
    uint64_t found = ~want;
    SL_TRY(device->row->download(device, SL_STREAM_COMPUTE, &found, at, sizeof found));
    SL_TRY(device->row->sync(device, SL_STREAM_COMPUTE));
    return found == want ? SL_OK : sl_fail(SL_ERR_SYSTEM, "CUDA IPC maps other memory here");
}

static sl_err enter(struct sl_device *device, const char door[SL_IPC_DOOR],
                    struct sl_ipc_area *out) {
    struct door there;
    char host[48];
    void *memory;
    memcpy(&there, door, sizeof there);
    read_host(host);
    if (strcmp(host, there.host) != 0)
        return sl_fail(SL_ERR_REFUSED, "they are on different hosts");
    SL_TRY(SL_CUDA(cudaSetDevice(sl_cuda_of(device)->index)));
    sl_err err =
        SL_CUDA(cudaIpcOpenMemHandle(&memory, there.handle, cudaIpcMemLazyEnablePeerAccess));
    if (err != SL_OK) {
        cudaGetLastError();
        return err;
    }
    *out = (struct sl_ipc_area){memory, sl_cuda_of(device)->index};
    err = read_token(device, memory, there.token);
    if (err != SL_OK) {
        leave(out);
        *out = (struct sl_ipc_area){0};
    }
    return err;
}

const struct sl_ipc_row sl_cuda_ipc_ipc = {
    .name = "CUDA IPC",
    .share = share,
    .enter = enter,
    .leave = leave,
    .unshare = unshare,
};
