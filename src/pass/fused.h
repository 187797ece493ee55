/* Fused kernels: their names, operands and what they stand for.
 *
 * The pass that fuses writes one of these names into sl_instr.kernel; a device that lacks it is not
 * asked to fuse. sl_instr.op and attr are those of the matmul. Absent operands keep their place
 * with SL_SPACE_NONE. `a`, `b`, ta, tb are as in the op matmul.
 *
 *   kernel              in          out               stands for
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
 *                                                     all of dy + e where there is an e
 *   matmul_add          a b bias? r y                 y = a b + bias + r (r like y; may be y)
 *   matmul_gelu         a b bias?   pre y             pre = a b + bias, y = gelu(pre), tanh
 *   matmul_gelu_erf     a b bias?   pre y             the same, approx=erf
 *   matmul_gelu_dx      a b x       dx                dx = (a b) gelu'(x), tanh (x like dx)
 *   matmul_gelu_erf_dx  a b x       dx                the same, approx=erf
 *   matmul_sum_a        a b         y sums            y = a' b (ta=1), sums[m] = sum_k a[k][m]
 *   matmul_sum_b        a b         y sums            y = a b, sums[n] = sum_k b[k][n]
 *
 * The last two give a weight's gradient together with its bias' gradient: with y = x w + bias,
 * dw = x' dy is matmul_sum_b; with y = x w' + bias, dw = dy' x is matmul_sum_a. b of matmul_sum_b
 * may be transposed; products with leading sizes of their own are not fused with sums. When
 * sl_instr.accumulate is set, both outputs are accumulators. layernorm_grad joins an I and two W
 * instructions: it is not used in split programs, so it must give the bits of the three it stands
 * for; dw and db are its accumulators, dx is not. r is another gradient of x: their sum may belong
 * to another stage, so dx is rounded before it is added, as if both were apart; and so is dy + e.
 *
 * batchnorm_grad and batchnorm_relu_grad are used as layernorm_grad is. batchnorm_relu rounds what
 * it does not store as if it did.
 *
 * cross_entropy_grad makes the gradient of the logits in the forward pass, while they are at hand;
 * seeds are there before it. A stage that recomputes does so when it goes back. So it must give the
 * bits of the two, too.
 */
#ifndef SL_PASS_FUSED_H
#define SL_PASS_FUSED_H

#define SL_FUSED_ADD_LAYERNORM "add_layernorm"
#define SL_FUSED_BATCHNORM_GRAD "batchnorm_grad"
#define SL_FUSED_BATCHNORM_RELU "batchnorm_relu"
#define SL_FUSED_BATCHNORM_RELU_GRAD "batchnorm_relu_grad"
#define SL_FUSED_CROSS_ENTROPY_GRAD "cross_entropy_grad"
#define SL_FUSED_LAYERNORM_GRAD "layernorm_grad"
#define SL_FUSED_MATMUL_ADD "matmul_add"
#define SL_FUSED_MATMUL_GELU "matmul_gelu"
#define SL_FUSED_MATMUL_GELU_DX "matmul_gelu_dx"
#define SL_FUSED_MATMUL_GELU_ERF "matmul_gelu_erf"
#define SL_FUSED_MATMUL_GELU_ERF_DX "matmul_gelu_erf_dx"
#define SL_FUSED_MATMUL_SUM_A "matmul_sum_a"
#define SL_FUSED_MATMUL_SUM_B "matmul_sum_b"

#endif
