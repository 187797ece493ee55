/* Fused kernels: names, operands and the ops each one replaces.
 *
 * Fusion writes one of these names into sl_instr.kernel, only if the device has that kernel.
 * sl_instr.op and attr are those of the matmul, if there is one. An absent operand (`?`) has SL_SPACE_NONE.
 * `a`, `b`, ta, tb are as in the op matmul.
 *
 *   kernel              in          out               replaces
 *   add_layernorm       x r w b?    sum y mean rstd   sum = x + r, then layernorm (its attr)
 *   batchnorm_grad      dy x w mean rstd
 *                                   dx dw db          batchnorm_dx, batchnorm_dw and the sum of dy
 *   batchnorm_relu_grad dy x w mean rstd b z
 *                                   dx dw db          relu_dx (of z), then batchnorm_grad
 *   batchnorm_relu      those of batchnorm, r?        relu(batchnorm(x)), with r relu(... + r)
 *   cross_entropy_grad  x target seed
 *                                   dx loss lse       cross_entropy, cross_entropy_dx (its attr)
 *   layernorm_grad      dy x w mean rstd r? e?
 *                                   dx dw db          layernorm_dx (+ r), layernorm_dw, sum of dy,
 *                                                     all with dy + e for dy if there is an e
 *   gelu_mul            g u         h                 s = gelu(g), h = s u (op, attr: gelu's)
 *   gelu_mul_grad       dh g u      dg du h?          du = dh s, dg = gelu_dx(dh u, g), h again
 *   matmul_add          a b bias? r y                 y = a b + bias + r (r like y; may be y)
 *   matmul_gelu         a b bias?   pre y             pre = a b + bias, y = gelu(pre), tanh
 *   matmul_gelu_erf     a b bias?   pre y             the same, approx=erf
 *   matmul_gelu_dx      a b x       dx                dx = (a b) gelu'(x), tanh (x like dx)
 *   matmul_gelu_erf_dx  a b x       dx                the same, approx=erf
 *   matmul_sum_a        a b         y sums            y = a' b (ta=1), sums[m] = sum_k a[k][m]
 *   matmul_sum_b        a b         y sums            y = a b, sums[n] = sum_k b[k][n]
 *   rmsnorm_grad        dy x rstd w r? e?
 *                                   dx dw             rmsnorm_dx (+ r), rmsnorm_dw, with dy + e
 *   silu_mul            g u         h                 as gelu_mul
 *   silu_mul_grad       dh g u      dg du h?          as gelu_mul_grad
 *
 * matmul_sum_a and matmul_sum_b compute the gradients of a weight and its bias together:
 * y = x w + bias has dw = x' dy (matmul_sum_b); y = x w' + bias has dw = dy' x (matmul_sum_a).
 * The b of matmul_sum_b may be transposed. Batched products are not fused with sums. If
 * sl_instr.accumulate is set, both outputs are accumulators.
 *
 * layernorm_grad, rmsnorm_grad, batchnorm_grad and batchnorm_relu_grad join I and W instructions. Split
 * programs do not use them, so their results must be bit-identical to the separate kernels. dw and
 * db are accumulators, dx is not. r is another gradient of x; the sum may be computed in another
 * stage, so dx is rounded before r is added. The same holds for dy + e.
 *
 * batchnorm_relu rounds intermediate results to the dtype in which separate kernels store them.
 *
 * cross_entropy_grad computes the gradient of the logits in the forward pass, while they are in
 * cache; seeds are written before F. A stage that recomputes runs it in the backward pass. The
 * result is bit-identical to the two separate kernels.
 */
#ifndef SL_PASS_FUSED_H
#define SL_PASS_FUSED_H

#define SL_FUSED_ADD_LAYERNORM "add_layernorm"
#define SL_FUSED_BATCHNORM_GRAD "batchnorm_grad"
#define SL_FUSED_BATCHNORM_RELU "batchnorm_relu"
#define SL_FUSED_BATCHNORM_RELU_GRAD "batchnorm_relu_grad"
#define SL_FUSED_CROSS_ENTROPY_GRAD "cross_entropy_grad"
#define SL_FUSED_GELU_MUL "gelu_mul"
#define SL_FUSED_GELU_MUL_GRAD "gelu_mul_grad"
#define SL_FUSED_LAYERNORM_GRAD "layernorm_grad"
#define SL_FUSED_MATMUL_ADD "matmul_add"
#define SL_FUSED_MATMUL_GELU "matmul_gelu"
#define SL_FUSED_MATMUL_GELU_DX "matmul_gelu_dx"
#define SL_FUSED_MATMUL_GELU_ERF "matmul_gelu_erf"
#define SL_FUSED_MATMUL_GELU_ERF_DX "matmul_gelu_erf_dx"
#define SL_FUSED_MATMUL_SUM_A "matmul_sum_a"
#define SL_FUSED_MATMUL_SUM_B "matmul_sum_b"
#define SL_FUSED_RMSNORM_GRAD "rmsnorm_grad"
#define SL_FUSED_SILU_MUL "silu_mul"
#define SL_FUSED_SILU_MUL_GRAD "silu_mul_grad"

#endif
