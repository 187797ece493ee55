/* The global gradient norm, computed in one canonical order, so that it does not depend on
 * threads, devices, stages or cuts. NaN/Inf detection and clipping follow from it.
 *
 *   tensor   | block 0: 1024 elements | block 1 | ... | last block, shorter |
 *   block    lane[l] = x[l]^2 + x[l+32]^2 + x[l+64]^2 + ...   l = 0..31, ascending, in double
 *            then 5 times, h = 16, 8, 4, 2, 1:  lane[l] += lane[l+h] for l < h;   sum = lane[0]
 *   tensor   block sums in adjacent pairs, level by level; an odd last one moves up unchanged
 *   model    tensor sums in the graph's order of parameters, one after another; tied ones once
 *
 * The square of a float is exact in double, so a fused multiply-add gives the same bits; a warp of
 * 32 lanes or vector registers compute a block directly. The squares of finite floats
 * cannot overflow a double: the sum is finite if and only if every element is. */
#ifndef SL_OPTIM_NORM_H
#define SL_OPTIM_NORM_H

#include <stdbool.h>
#include <stdint.h>

enum { SL_NORM_BLOCK = 1024, SL_NORM_LANES = 32 };

int64_t sl_optim_norm_block_count(int64_t count);

/* Computes the sums of blocks [first, first + blocks) of a tensor of `count` elements; x is the
 * start of the tensor. */
void sl_optim_norm_sq_blocks(const float *x, int64_t count, int64_t first, int64_t blocks,
                             double *out);

/* Adds block sums as a tree. */
double sl_optim_norm_sq_tree(const double *block, int64_t blocks);

/* Computes block sums and tree for a whole tensor, without allocating memory. */
double sl_optim_norm_sq(const float *x, int64_t count);

/* The decision about a step: global norm, clip factor, skip. `sum` is over the gradients of all
 * parameters before their multiplication by `scale`; clip <= 0: no clipping. */
struct sl_norm_verdict {
    bool finite; /* false: a gradient is NaN or Inf; all stages skip the step */
    double norm; /* |scale| * sqrt(sum) */
    float scale; /* factor of the gradients: scale * min(1, clip / (norm + 1e-6)) */
};

struct sl_norm_verdict sl_optim_norm_judge(double sum, double scale, double clip);

#endif
