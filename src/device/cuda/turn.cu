/* Transposes images from [B,C,H,W] to [B,H,W,C] and back, in place through scratch; eight channels
 * at a time. */
#include "device/cuda/turn.cuh"

extern "C" sl_err sl_cuda_turn(const struct sl_cuda_turn *turn, void *image, void *scratch,
                               cudaStream_t stream) {
    const int64_t *dim = turn->image.shape.dim;
    turning z = {dim[0] * dim[2] * dim[3], dim[2] * dim[3], dim[1], dim[1]};
    SL_TRY(SL_CUDA(
        cudaMemcpyAsync(scratch, image, 2 * turn->image.numel, cudaMemcpyDeviceToDevice, stream)));
    array to = array_of(turn->image, image), from = array_of(turn->image, scratch);
    if (turn->to_last)
        to_last<<<turning_blocks(z), THREADS, 0, stream>>>(to, from, z);
    else
        from_last<<<turning_blocks(z), THREADS, 0, stream>>>(to, from, z, false);
    return sl_cuda_check(cudaGetLastError(), "turning an image");
}
