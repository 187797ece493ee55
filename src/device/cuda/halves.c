/* 16-bit copies of weights. Every version of the weights that products read has its own copy, so
 * that a pass may read another version than the pass before it without converting. An optimizer
 * step writes the weights and an up-to-date copy together: 2 bytes of traffic per weight and step.
 * After any other write to the weights, the first pass that reads them converts again.
 *
 * The first pass that reads a version allocates its copy, which happens in the first steps. A
 * copy lives until the weights are freed, so graphs may contain its address. */
#include "device/cuda/cuda.h"

void sl_cuda_touch(struct sl_cuda_device *cuda, const void *at, int64_t size_bytes) {
    const char *from = at;
    for (int i = 0; i < cuda->slab_count; i++) {
        struct sl_cuda_slab *slab = &cuda->slabs[i];
        if (from < slab->at + slab->size_bytes && slab->at < from + size_bytes)
            slab->fresh = false;
    }
}

void *sl_cuda_half_of(struct sl_cuda_device *cuda, const void *at, int64_t size_bytes,
                      enum sl_half *kind) {
    const char *from = at;
    char *half = NULL;
    for (int i = 0; i < cuda->slab_count; i++) {
        const struct sl_cuda_slab *slab = &cuda->slabs[i];
        if (from >= slab->at + slab->size_bytes || slab->at >= from + size_bytes)
            continue;
        if (half || !slab->fresh || from < slab->at ||
            from + size_bytes > slab->at + slab->size_bytes)
            return NULL;
        half = (char *)slab->halves + (from - slab->at) / 2;
        *kind = slab->half;
    }
    return half;
}

void sl_cuda_forget(struct sl_cuda_device *cuda, const void *at) {
    for (int i = 0; i < cuda->slab_count; i++)
        if (cuda->slabs[i].at == at) {
            cudaFree(cuda->slabs[i].halves); /* waits for the kernels that still read it */
            cuda->slabs[i--] = cuda->slabs[--cuda->slab_count];
        }
}

static sl_err find(struct sl_cuda_device *cuda, struct sl_weights weights, enum sl_half half,
                   struct sl_cuda_slab **out) {
    for (int i = 0; i < cuda->slab_count; i++) {
        struct sl_cuda_slab *slab = &cuda->slabs[i];
        if (slab->at == weights.at && slab->size_bytes == weights.size_bytes &&
            slab->half == half) {
            *out = slab;
            return SL_OK;
        }
    }
    if (cuda->slab_count == SL_CUDA_SLABS)
        return sl_fail(SL_ERR_REFUSED,
                       "a GPU keeps %d versions of weights in 16 bits at most; use a schedule with "
                       "fewer, or `dtype` fp32",
                       SL_CUDA_SLABS);
    struct sl_cuda_slab slab = {weights.at, weights.size_bytes, NULL, half, false};
    SL_TRY(SL_CUDA(cudaMalloc(&slab.halves, (size_t)weights.size_bytes / 2)));
    *out = &cuda->slabs[cuda->slab_count++];
    **out = slab;
    return SL_OK;
}

sl_err sl_cuda_halves(struct sl_cuda_device *cuda, struct sl_weights weights, enum sl_half half,
                      void **out) {
    struct sl_cuda_slab *slab;
    SL_TRY(find(cuda, weights, half, &slab));
    *out = slab->halves;
    if (slab->fresh)
        return SL_OK;
    slab->fresh = true;
    return sl_cuda_round(slab->halves, half, weights.at, weights.size_bytes / 4,
                         cuda->streams[SL_STREAM_COMPUTE]);
}
