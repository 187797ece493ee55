/* softmax and log_softmax over the last axis. The row maximum is subtracted first, so that
 * exponentials do not overflow and their sum is at least 1.
 *
 *   x, y [..., n]     softmax       dx = y (dy - sum_j dy y)
 *                     log_softmax   dx = dy - exp(y) sum_j dy
 */
#include "op/common.h"

#include <math.h>

static sl_err infer(struct sl_infer *c) {
    SL_TRY(sl_op_need_float(c, 0));
    if (c->in[0].rank < 1)
        return sl_graph_infer_fail(c, "needs rank 1 or more, got a scalar");
    c->out[0] = c->in[0];
    return SL_OK;
}

static double flops(const struct sl_op_view *v) { return 4.0 * (double)sl_op_numel(&v->out[0]); }

static int grad_softmax(struct sl_grad *g, int input) {
    (void)input;
    return sl_graph_grad_emit(g, "softmax_dx", 2, (int[]){g->dout[0], g->out[0]}, NULL);
}

static int grad_log(struct sl_grad *g, int input) {
    (void)input;
    return sl_graph_grad_emit(g, "log_softmax_dx", 2, (int[]){g->dout[0], g->out[0]}, NULL);
}

static double largest(const double *x, int64_t n) {
    double max = x[0];
    for (int64_t j = 1; j < n; j++)
        max = x[j] > max ? x[j] : max;
    return max;
}

static void ref_softmax(const struct sl_ref *r) {
    struct sl_op_rowset rows = sl_op_rows_of(&r->in[0].shape);
    for (int64_t i = 0; i < rows.count; i++) {
        const double *x = r->in[0].f + i * rows.n;
        double *y = r->out[0].f + i * rows.n;
        double max = largest(x, rows.n), sum = 0;
        for (int64_t j = 0; j < rows.n; j++)
            sum += y[j] = exp(x[j] - max);
        for (int64_t j = 0; j < rows.n; j++)
            y[j] /= sum;
    }
}

static void ref_log(const struct sl_ref *r) {
    struct sl_op_rowset rows = sl_op_rows_of(&r->in[0].shape);
    for (int64_t i = 0; i < rows.count; i++) {
        const double *x = r->in[0].f + i * rows.n;
        double *y = r->out[0].f + i * rows.n;
        double max = largest(x, rows.n), sum = 0;
        for (int64_t j = 0; j < rows.n; j++)
            sum += exp(x[j] - max);
        for (int64_t j = 0; j < rows.n; j++)
            y[j] = x[j] - max - log(sum);
    }
}

static void ref_softmax_dx(const struct sl_ref *r) {
    struct sl_op_rowset rows = sl_op_rows_of(&r->in[0].shape);
    for (int64_t i = 0; i < rows.count; i++) {
        const double *dy = r->in[0].f + i * rows.n, *y = r->in[1].f + i * rows.n;
        double dot = 0;
        for (int64_t j = 0; j < rows.n; j++)
            dot += dy[j] * y[j];
        for (int64_t j = 0; j < rows.n; j++)
            r->out[0].f[i * rows.n + j] = y[j] * (dy[j] - dot);
    }
}

static void ref_log_dx(const struct sl_ref *r) {
    struct sl_op_rowset rows = sl_op_rows_of(&r->in[0].shape);
    for (int64_t i = 0; i < rows.count; i++) {
        const double *dy = r->in[0].f + i * rows.n, *y = r->in[1].f + i * rows.n;
        double sum = 0;
        for (int64_t j = 0; j < rows.n; j++)
            sum += dy[j];
        for (int64_t j = 0; j < rows.n; j++)
            r->out[0].f[i * rows.n + j] = dy[j] - exp(y[j]) * sum;
    }
}

SL_OP_ROW(log_softmax, "logarithm of softmax over the last axis", "x", "y",
          .divide = SL_DIVIDE_ROWS, .infer = infer, .flops = flops, .grad = grad_log,
          .ref = ref_log)

SL_OP_ROW(log_softmax_dx, "gradient of log_softmax", "dy y", "dx", .internal = true,
          .infer = sl_op_infer_same, .flops = flops, .ref = ref_log_dx)

SL_OP_ROW(softmax, "exponentials over the last axis that sum to 1", "x", "y",
          .divide = SL_DIVIDE_ROWS, .infer = infer, .flops = flops, .grad = grad_softmax,
          .ref = ref_softmax)

SL_OP_ROW(softmax_dx, "gradient of softmax", "dy y", "dx", .internal = true,
          .infer = sl_op_infer_same, .flops = flops, .ref = ref_softmax_dx)
