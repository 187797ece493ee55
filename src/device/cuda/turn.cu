/* Images from [B,C,H,W] to [B,H,W,C] and back, in place by way of scratch; channels in eights. */
#include "device/cuda/turn.cuh"

extern "C" sl_err sl_cuda_turn(const struct sl_cuda_turn *turn, void *image, void *scratch,
                               cudaStream_t stream) {
    const int64_t *dim = turn->image.shape.dim;
    i64 plane = dim[2] * dim[3], pixels = dim[0] * plane, bytes = 2 * turn->image.numel;
    unsigned blocks = blocks_for(pixels * dim[1] / 8, THREADS);
    SL_TRY(SL_CUDA(cudaMemcpyAsync(scratch, image, bytes, cudaMemcpyDeviceToDevice, stream)));
    if (turn->to_last)
        to_last<<<blocks, THREADS, 0, stream>>>((bf16 *)image, array{scratch, 1}, pixels, plane,
                                                dim[1], dim[1]);
    else
        from_last<<<blocks, THREADS, 0, stream>>>(array{image, 1}, (const bf16 *)scratch, pixels,
                                                  plane, dim[1], dim[1], false);
    return sl_cuda_check(cudaGetLastError(), "turning an image");
}
