/* cross_entropy: mean of -log softmax(logits)[target] over the valid targets, with smoothing.
 *
 *   logits [..., V]   targets [...]   loss []   lse [...] (log of the sum of exponentials, kept)
 *
 *   row    (1 - s) (lse - x[t]) + s/V sum_j (lse - x[j])          s: smoothing
 *   dx     (softmax(x) - (1 - s) [j == t] - s/V) dloss / valid
 *
 * A target equal to `ignore` is not valid; without a valid target, loss and gradient are 0. All
 * other targets must be in [0, V). */
#include "op/common.h"

#include <math.h>

enum { IGNORE, SMOOTHING };

static sl_err infer(struct sl_infer *c) {
    char logits[SL_SHAPE_TEXT], targets[SL_SHAPE_TEXT];
    SL_TRY(sl_op_need_float(c, 0));
    SL_TRY(sl_op_need_int(c, 1));
    sl_graph_shape_text(&c->in[0], logits);
    sl_graph_shape_text(&c->in[1], targets);
    if (c->in[0].rank < 1)
        return sl_graph_infer_fail(c, "logits must be [..., classes], they are %s", logits);
    struct sl_shape rows = sl_op_shape_without_last(&c->in[0]);
    if (!sl_graph_shape_equal(&rows, &c->in[1]) || sl_graph_shape_dim(&c->in[0], -1).batch)
        return sl_graph_infer_fail(c, "targets %s must be logits %s without the last size", targets,
                                   logits);
    if (!(c->attr[SMOOTHING].f >= 0 && c->attr[SMOOTHING].f <= 1))
        return sl_graph_infer_fail(c, "smoothing = %g must be in [0, 1]", c->attr[SMOOTHING].f);
    c->out[0] = (struct sl_shape){0};
    c->out[1] = rows;
    return SL_OK;
}

static double flops(const struct sl_op_view *v) { return 4.0 * (double)sl_op_numel(&v->in[0]); }

static int grad(struct sl_grad *g, int input) {
    if (input != 0 || g->dout[0] < 0)
        return -1;
    int in[4] = {g->dout[0], g->in[0], g->in[1], g->out[1]};
    return sl_graph_grad_emit(g, "cross_entropy_dx", 4, in, g->attr);
}

static int64_t count_valid(const struct sl_array *targets, int64_t rows, int64_t ignore) {
    int64_t valid = 0;
    for (int64_t i = 0; i < rows; i++)
        valid += targets->i[i] != ignore;
    return valid;
}

/* Returns the log of the sum of exponentials. The exponential of the largest entry is the 1 in
 * log1p. */
static double log_sum_exp(const double *x, int64_t n) {
    int64_t top = 0;
    double others = 0;
    for (int64_t j = 1; j < n; j++)
        top = x[j] > x[top] ? j : top;
    for (int64_t j = 0; j < n; j++)
        others += j == top ? 0 : exp(x[j] - x[top]);
    return x[top] + log1p(others);
}

static void ref(const struct sl_ref *r) {
    struct sl_op_rowset rows = sl_op_rows_of(&r->in[0].shape);
    double smoothing = r->attr[SMOOTHING].f, total = 0;
    int64_t valid = count_valid(&r->in[1], rows.count, r->attr[IGNORE].i);
    for (int64_t i = 0; i < rows.count; i++) {
        const double *x = r->in[0].f + i * rows.n;
        int64_t target = r->in[1].i[i];
        double lse = r->out[1].f[i] = log_sum_exp(x, rows.n), all = 0;
        if (target == r->attr[IGNORE].i)
            continue;
        SL_ASSERT(target >= 0 && target < rows.n);
        for (int64_t j = 0; j < rows.n; j++)
            all += lse - x[j];
        total += (1 - smoothing) * (lse - x[target]) + smoothing / (double)rows.n * all;
    }
    r->out[0].f[0] = valid ? total / (double)valid : 0;
}

static const struct sl_attr_desc attrs[] = {
    {"ignore", SL_ATTR_INT, "-100", NULL},
    {"smoothing", SL_ATTR_FLOAT, "0", NULL},
    {0},
};

SL_OP_ROW(cross_entropy, "mean negative log likelihood of integer targets", "logits targets",
          "loss lse", .attrs = attrs, .divide = SL_DIVIDE_CLASSES, .exact_out = 3, .infer = infer,
          .flops = flops, .grad = grad, .ref = ref, .is_loss = true, .count_input = 1,
          .count_attr = IGNORE)

static sl_err infer_dx(struct sl_infer *c) {
    c->out[0] = c->in[1];
    return SL_OK;
}

static void ref_dx(const struct sl_ref *r) {
    struct sl_op_rowset rows = sl_op_rows_of(&r->in[1].shape);
    int64_t valid = count_valid(&r->in[2], rows.count, r->attr[IGNORE].i);
    double each = valid ? r->in[0].f[0] / (double)valid : 0, smoothing = r->attr[SMOOTHING].f;
    for (int64_t i = 0; i < rows.count; i++) {
        const double *x = r->in[1].f + i * rows.n;
        double *dx = r->out[0].f + i * rows.n;
        int64_t target = r->in[2].i[i];
        bool counts = target != r->attr[IGNORE].i;
        for (int64_t j = 0; j < rows.n; j++) {
            double want = (j == target ? 1 - smoothing : 0) + smoothing / (double)rows.n;
            dx[j] = counts ? each * (exp(x[j] - r->in[3].f[i]) - want) : 0;
        }
    }
}

SL_OP_ROW(cross_entropy_dx, "gradient of cross_entropy with respect to the logits",
          "dloss logits targets lse", "dx", .attrs = attrs, .internal = true, .infer = infer_dx,
          .flops = flops, .ref = ref_dx)
