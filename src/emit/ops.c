/* The table of ops that can be written as ONNX, in alphabetical order. An evaluation graph has no
 * dropout, and its batchnorm has running statistics. */
#include "emit/ops.h"

/* clang-format off */
#define ROWS(ROW) \
    ROW(abs, same, "Abs") \
    ROW(adaptive_avgpool, adaptive_pool, "AveragePool") \
    ROW(add, same, "Add") \
    ROW(argmax, arg, "ArgMax") \
    ROW(argmin, arg, "ArgMin") \
    ROW(attention, attention, NULL) \
    ROW(avgpool, pool, "AveragePool") \
    ROW(batchnorm_eval, batchnorm, "BatchNormalization") \
    ROW(broadcast_to, broadcast, "Expand") \
    ROW(clamp, clamp, "Clip") \
    ROW(concat, concat, "Concat") \
    ROW(conv2d, conv, "Conv") \
    ROW(conv_transpose2d, conv, "ConvTranspose") \
    ROW(cos, same, "Cos") \
    ROW(cross_entropy, cross_entropy, "SoftmaxCrossEntropyLoss") \
    ROW(cumsum, cumsum, "CumSum") \
    ROW(div, same, "Div") \
    ROW(dot_interaction, interaction, NULL) \
    ROW(elu, alpha, "Elu") \
    ROW(embed, rows, "Gather") \
    ROW(embed_bag, embed_bag, "Gather") \
    ROW(equal, compare, "Equal") \
    ROW(erf, same, "Erf") \
    ROW(exp, same, "Exp") \
    ROW(flip, flip, "Slice") \
    ROW(gather, gather, "GatherElements") \
    ROW(gelu, gelu, "Gelu") \
    ROW(global_avgpool, global_pool, "GlobalAveragePool") \
    ROW(greater, compare, "Greater") \
    ROW(greater_equal, compare, "GreaterOrEqual") \
    ROW(grouped_matmul, grouped, NULL) \
    ROW(groupnorm, groupnorm, NULL) \
    ROW(gru, recurrent, "GRU") \
    ROW(hardswish, same, "HardSwish") \
    ROW(identity, same, "Identity") \
    ROW(index_select, rows, "Gather") \
    ROW(l1, l1, NULL) \
    ROW(layernorm, layernorm, "LayerNormalization") \
    ROW(leaky_relu, alpha, "LeakyRelu") \
    ROW(less, compare, "Less") \
    ROW(less_equal, compare, "LessOrEqual") \
    ROW(log, same, "Log") \
    ROW(log1p, log1p, NULL) \
    ROW(log_softmax, softmax, "LogSoftmax") \
    ROW(logical_and, logic, "And") \
    ROW(logical_not, logic, "Not") \
    ROW(logical_or, logic, "Or") \
    ROW(logical_xor, logic, "Xor") \
    ROW(lstm, recurrent, "LSTM") \
    ROW(matmul, matmul, "MatMul") \
    ROW(max, same, "Max") \
    ROW(maxpool, pool, "MaxPool") \
    ROW(min, same, "Min") \
    ROW(mish, same, "Mish") \
    ROW(moe_combine, combine, NULL) \
    ROW(moe_dispatch, dispatch, NULL) \
    ROW(moe_load, load, NULL) \
    ROW(moe_slots, slots, NULL) \
    ROW(mse, mse, NULL) \
    ROW(mul, same, "Mul") \
    ROW(neg, same, "Neg") \
    ROW(offset, by, "Add") \
    ROW(one_hot, one_hot, "OneHot") \
    ROW(pad, pad, "Pad") \
    ROW(pow, same, "Pow") \
    ROW(power, by, "Pow") \
    ROW(reduce_max, reduce, "ReduceMax") \
    ROW(reduce_mean, reduce, "ReduceMean") \
    ROW(reduce_min, reduce, "ReduceMin") \
    ROW(reduce_sum, reduce, "ReduceSum") \
    ROW(reduce_var, var, NULL) \
    ROW(relative_bias, relative_bias, NULL) \
    ROW(relu, same, "Relu") \
    ROW(reshape, reshape, "Reshape") \
    ROW(rmsnorm, rmsnorm, NULL) \
    ROW(rnn, rnn, "RNN") \
    ROW(roll, roll, NULL) \
    ROW(rope, rope, NULL) \
    ROW(rsqrt, rsqrt, NULL) \
    ROW(scale, by, "Mul") \
    ROW(scatter_add, scatter, "ScatterElements") \
    ROW(selu, same, "Selu") \
    ROW(sigmoid, same, "Sigmoid") \
    ROW(silu, silu, NULL) \
    ROW(sin, same, "Sin") \
    ROW(slice, slice, "Slice") \
    ROW(softmax, softmax, "Softmax") \
    ROW(softplus, same, "Softplus") \
    ROW(split, split, "Split") \
    ROW(sqrt, same, "Sqrt") \
    ROW(sub, same, "Sub") \
    ROW(sum_to, sum_to, "ReduceSum") \
    ROW(tanh, same, "Tanh") \
    ROW(to_float, cast, NULL) \
    ROW(to_int, cast, NULL) \
    ROW(topk, topk, "TopK") \
    ROW(transpose, transpose, "Transpose") \
    ROW(upsample, upsample, "Resize") \
    ROW(where, where, "Where")
/* clang-format on */

#define DECLARE(op, how, onnx) extern const struct sl_op sl_op_##op;
#define FILL(op, how, onnx) {&sl_op_##op, sl_emit_op_##how, onnx},

ROWS(DECLARE)

static const struct sl_emit_row rows[] = {ROWS(FILL)};

const struct sl_emit_row *sl_emit_row_find(const struct sl_op *op) {
    for (int i = 0; i < SL_COUNT(rows); i++)
        if (rows[i].op == op)
            return &rows[i];
    return NULL;
}
