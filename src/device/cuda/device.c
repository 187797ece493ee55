/* The CUDA device: opening, memory, streams. */
#include "device/cuda/dnn_graph.h"
#include "device/cuda/fingerprint.h"
#include "device/cuda/gemm.h"

#include <stdlib.h>
#include <string.h>

extern const struct sl_device_row sl_device_cuda;

enum { WORKSPACE = 64 << 20, PINNED = 8 << 20 };

static const char *cuda_missing(void) {
    int count = 0, major = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0)
        return "no GPU, or no driver for it";
    if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0) != cudaSuccess ||
        major != 9)
        return "the GPU is not of compute capability 9 (Hopper), which this module was built for";
    return NULL;
}

static void cuda_close(struct sl_device *device) {
    if (!device)
        return;
    struct sl_cuda_device *cuda = sl_cuda_of(device);
    cudaSetDevice(cuda->index);
    cudaDeviceSynchronize();
    sl_cuda_gemms_close(cuda->gemms);
    sl_cuda_dnn_plans_close(cuda->plans);
    if (cuda->blas)
        cublasLtDestroy(cuda->blas);
    if (cuda->dnn)
        cudnnDestroy(cuda->dnn);
    for (int i = 0; i < SL_STREAM_COUNT; i++)
        if (cuda->streams[i])
            cudaStreamDestroy(cuda->streams[i]);
    for (int i = 0; i < 2; i++) {
        if (cuda->pin.done[i])
            cudaEventDestroy(cuda->pin.done[i]);
        if (cuda->clock[i])
            cudaEventDestroy(cuda->clock[i]);
    }
    for (int i = 0; i < cuda->slab_count; i++)
        cudaFree(cuda->slabs[i].halves);
    cudaFree(cuda->workspace);
    cudaFree(cuda->print);
    cudaFree(cuda->room.at);
    cudaFreeHost(cuda->pin.at);
    free(cuda);
}

static sl_err open_libraries(struct sl_cuda_device *cuda) {
    void *pinned, *print;
    SL_TRY(SL_CUDA(cudaSetDevice(cuda->index)));
    for (int i = 0; i < SL_STREAM_COUNT; i++)
        SL_TRY(SL_CUDA(cudaStreamCreateWithFlags(&cuda->streams[i], cudaStreamNonBlocking)));
    for (int i = 0; i < 2; i++) {
        SL_TRY(SL_CUDA(cudaEventCreateWithFlags(&cuda->pin.done[i], cudaEventDisableTiming)));
        SL_TRY(SL_CUDA(cudaEventCreate(&cuda->clock[i])));
    }
    SL_TRY(SL_CUBLAS(cublasLtCreate(&cuda->blas)));
    SL_TRY(SL_CUDNN(cudnnCreate(&cuda->dnn)));
    SL_TRY(SL_CUDA(cudaMalloc(&cuda->workspace, WORKSPACE)));
    cuda->workspace_bytes = WORKSPACE;
    SL_TRY(SL_CUDA(cudaMalloc(&print, sizeof *cuda->print)));
    cuda->print = print;
    SL_TRY(SL_CUDA(cudaMallocHost(&pinned, PINNED)));
    cuda->pin.at = pinned;
    cuda->pin.size_bytes = PINNED;
    return SL_OK;
}

static sl_err cuda_open(const struct sl_device_config *config, struct sl_device **out) {
    int count = 0;
    SL_TRY(SL_CUDA(cudaGetDeviceCount(&count)));
    struct sl_cuda_device *cuda = calloc(1, sizeof *cuda);
    if (!cuda)
        sl_out_of_memory(sizeof *cuda);
    cuda->device = (struct sl_device){&sl_device_cuda, config->threads > 0 ? config->threads : 1};
    /* if there are more workers than GPUs, they share the GPUs */
    cuda->index = config->index % count;
    cuda->tf32 = config->tf32;
    sl_err err = open_libraries(cuda);
    if (err != SL_OK)
        cuda_close(&cuda->device);
    else
        *out = &cuda->device;
    return err;
}

static sl_err cuda_alloc(struct sl_device *device, int64_t size_bytes, void **out) {
    struct sl_cuda_device *cuda = sl_cuda_of(device);
    cudaStream_t stream = cuda->streams[SL_STREAM_COMPUTE];
    SL_TRY(SL_CUDA(cudaSetDevice(cuda->index)));
    cudaError_t status = cudaMalloc(out, (size_t)size_bytes);
    if (status != cudaSuccess)
        return sl_fail(SL_ERR_SYSTEM,
                       "cannot allocate %.2f GiB on GPU %d: %s; use smaller or more micro-batches, "
                       "`recompute`, or more stages",
                       (double)size_bytes / 1073741824.0, cuda->index, cudaGetErrorString(status));
    SL_TRY(SL_CUDA(cudaMemsetAsync(*out, 0, (size_t)size_bytes, stream)));
    return SL_CUDA(cudaStreamSynchronize(stream));
}

static void cuda_free(struct sl_device *device, void *memory) {
    if (!memory)
        return;
    cudaSetDevice(sl_cuda_of(device)->index);
    sl_cuda_forget(sl_cuda_of(device), memory);
    cudaFree(memory);
}

/* Takes bytes from the ring, which has two halves. A half is free again after the event that was
 * recorded when the other half came into use. Only the compute stream reads the ring. */
sl_err sl_cuda_pin(struct sl_cuda_device *cuda, int64_t size_bytes, cudaStream_t stream,
                   void **out) {
    struct sl_cuda_pin *pin = &cuda->pin;
    int64_t half = pin->size_bytes / 2, size = (size_bytes + 63) & ~(int64_t)63;
    SL_ASSERT(size <= half);
    if (pin->next + size > half) {
        SL_TRY(SL_CUDA(cudaEventRecord(pin->done[pin->half], stream)));
        pin->half = !pin->half;
        pin->next = 0;
        /* returns at once if the event was never recorded */
        SL_TRY(SL_CUDA(cudaEventSynchronize(pin->done[pin->half])));
    }
    *out = pin->at + pin->half * half + pin->next;
    pin->next += size;
    return SL_OK;
}

sl_err sl_cuda_room(struct sl_cuda_device *cuda, int64_t size_bytes, void **out) {
    struct sl_cuda_room *room = &cuda->room;
    if (room->size_bytes < size_bytes) {
        cudaFree(room->at); /* waits for kernels that still read it */
        *room = (struct sl_cuda_room){0};
        SL_TRY(SL_CUDA(cudaMalloc(&room->at, (size_t)size_bytes)));
        room->size_bytes = size_bytes;
    }
    *out = room->at;
    return SL_OK;
}

/* The caller may reuse `from` at once: small pieces are copied to pinned memory; for large ones the
 * function waits. */
static sl_err cuda_upload(struct sl_device *device, enum sl_stream stream, void *to,
                          const void *from, int64_t size_bytes) {
    struct sl_cuda_device *cuda = sl_cuda_of(device);
    cudaStream_t where = cuda->streams[stream];
    void *pinned;
    SL_TRY(SL_CUDA(cudaSetDevice(cuda->index)));
    sl_cuda_touch(cuda, to, size_bytes);
    if (stream == SL_STREAM_COMPUTE && size_bytes <= PINNED / 4) {
        SL_TRY(sl_cuda_pin(cuda, size_bytes, where, &pinned));
        memcpy(pinned, from, (size_t)size_bytes);
        return SL_CUDA(
            cudaMemcpyAsync(to, pinned, (size_t)size_bytes, cudaMemcpyHostToDevice, where));
    }
    SL_TRY(SL_CUDA(cudaMemcpyAsync(to, from, (size_t)size_bytes, cudaMemcpyHostToDevice, where)));
    return SL_CUDA(cudaStreamSynchronize(where));
}

static sl_err cuda_download(struct sl_device *device, enum sl_stream stream, void *to,
                            const void *from, int64_t size_bytes) {
    struct sl_cuda_device *cuda = sl_cuda_of(device);
    SL_TRY(SL_CUDA(cudaSetDevice(cuda->index)));
    return SL_CUDA(cudaMemcpyAsync(to, from, (size_t)size_bytes, cudaMemcpyDeviceToHost,
                                   cuda->streams[stream]));
}

static sl_err cuda_copy(struct sl_device *device, enum sl_stream stream, void *to, const void *from,
                        int64_t size_bytes) {
    struct sl_cuda_device *cuda = sl_cuda_of(device);
    SL_TRY(SL_CUDA(cudaSetDevice(cuda->index)));
    sl_cuda_touch(cuda, to, size_bytes);
    return SL_CUDA(
        cudaMemcpyAsync(to, from, (size_t)size_bytes, cudaMemcpyDefault, cuda->streams[stream]));
}

static sl_err cuda_sync(struct sl_device *device, enum sl_stream stream) {
    struct sl_cuda_device *cuda = sl_cuda_of(device);
    SL_TRY(SL_CUDA(cudaSetDevice(cuda->index)));
    return SL_CUDA(cudaStreamSynchronize(cuda->streams[stream]));
}

const struct sl_device_row sl_device_cuda = {
    .name = "cuda",
    .brief = "an NVIDIA GPU",
    .halves = true,
    .fp16 = true,
    .tf32 = true,
    .whole = true,
    .apart = true,
    .missing = cuda_missing,
    .list = sl_cuda_list,
    .open = cuda_open,
    .close = cuda_close,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .upload = cuda_upload,
    .download = cuda_download,
    .copy = cuda_copy,
    .sync = cuda_sync,
    .has_kernel = sl_cuda_has_kernel,
    .bind = sl_cuda_bind,
    .unbind = sl_cuda_unbind,
    .run = sl_cuda_run,
    .scratch_bytes = sl_cuda_scratch_bytes,
    .add = sl_cuda_add,
    .step = sl_cuda_step,
    .predict = sl_cuda_predict,
    .norm_sq = sl_cuda_norm_sq,
};
