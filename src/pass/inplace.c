/* The table of kernels that can work in place: elementwise and row-wise kernels. */
#include "pass/inplace.h"

#include "base/err.h"

#include <string.h>

/* clang-format off */
static const struct {
    const char *kernel;
    unsigned inputs;
} rows[] = {
    {"add", 3},
    {"add_layernorm", 3},
    {"alpha_dropout", 1},
    {"alpha_dropout_dx", 1},
    {"batchnorm", 1},
    {"batchnorm_dx", 3},
    {"batchnorm_eval", 1},
    {"batchnorm_eval_dx", 1},
    {"batchnorm_grad", 3},
    {"batchnorm_relu", 1},
    {"batchnorm_relu_grad", 1},
    {"bce_with_logits_dt", 2},
    {"bce_with_logits_dx", 6},
    {"cross_entropy_dx", 2},
    {"cross_entropy_grad", 1},
    {"dropout", 1},
    {"exp", 1},
    {"exp_dx", 3},
    {"gelu", 1},
    {"gelu_dx", 3},
    {"identity", 1},
    {"layernorm", 1},
    {"layernorm_dx", 3},
    {"layernorm_grad", 99},
    {"log_softmax", 1},
    {"log_softmax_dx", 3},
    {"mse_dx", 6},
    {"mul", 3},
    {"relu", 1},
    {"relu_dx", 3},
    {"reshape", 1},
    {"rmsnorm", 1},
    {"rmsnorm_dx", 3},
    {"rope", 1},
    {"scale", 1},
    {"selu", 1},
    {"selu_dx", 3},
    {"sigmoid", 1},
    {"sigmoid_dx", 3},
    {"silu", 1},
    {"silu_dx", 3},
    {"softmax", 1},
    {"softmax_dx", 3},
    {"sub", 3},
    {"tanh", 1},
    {"tanh_dx", 3},
};
/* clang-format on */

unsigned sl_pass_inplace_inputs(const char *kernel) {
    for (int i = 0; i < SL_COUNT(rows); i++)
        if (strcmp(rows[i].kernel, kernel) == 0)
            return rows[i].inputs;
    return 0;
}
