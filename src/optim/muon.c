/* muon: momentum, orthogonalised by five Newton-Schulz rounds (Jordan et al. 2024), scaled to the
 * size of AdamW's steps (Moonshot, arXiv 2502.16982), so that one learning rate and one weight
 * decay serve matrices and the parameters of adamw: biases, norms, embeddings, ranks other than 2.
 *
 *     M = beta*M + (1-beta)*g       U = beta*M + (1-beta)*g  (nesterov=1)   or   M
 *     X = U / max(|U|, 1e-7), transposed when it has more rows than columns
 *     five times:  A = X X^T,  B = b*A + c*A A,  X = a*X + B X
 *     Delta = 0.2*sqrt(max(rows, cols)) * X;   w = w*(1 - lr*wd) - lr*Delta
 *
 * The step needs whole matrices, so its bits depend on the order of the sums: here ascending
 * index, one float at a time. Torch's Muon computes the rounds in bfloat16; here they are float. */
#include "optim/muon.h"
#include "optim/common.h"
#include "optim/rules.h"

#include <stdlib.h>
#include <string.h>

static const double ns_a = SL_MUON_A, ns_b = SL_MUON_B, ns_c = SL_MUON_C, ns_eps = SL_MUON_EPS;

static const struct sl_hyper hyper[] = {
    SL_HYPER_BETA("beta", 0.95, "momentum of matrices"),
    {"nesterov", 1, 0, 1, SL_RANGE_WHOLE, "1: look ahead before orthogonalising"},
    {"rounds", 5, 1, 20, SL_RANGE_WHOLE, "Newton-Schulz rounds"},
    {"rms", 0.2, 1e-3, 10, SL_RANGE_CLOSED, "root mean square of an entry of Delta"},
    SL_HYPER_BETA("beta1", 0.9, "of adamw, for the other parameters"),
    SL_HYPER_BETA("beta2", 0.999, "of adamw, for the other parameters"),
    SL_HYPER_EPS(1e-8),
    SL_HYPER_DECAY(0.1),
    {0}};

static bool takes(const struct sl_optim_shape *shape) { return shape->rank == 2 && !shape->lookup; }

/* Scratch bytes for the floats X [k,n], A [k,k], B [k,k], Y [k,n], with k <= n. */
static int64_t scratch_bytes(const struct sl_optim_shape *shape) {
    int64_t rows = shape->dim[0], cols = shape->dim[1];
    int64_t k = rows < cols ? rows : cols;
    return (int64_t)sizeof(float) * (2 * rows * cols + 2 * k * k);
}

static void coef(const struct sl_optim_param *param, int64_t t, double lr,
                 struct sl_step_coef *out) {
    (void)t;
    int64_t rows = param->shape.dim[0], cols = param->shape.dim[1];
    sl_optim_coef_decoupled(param, lr, out);
    sl_optim_coef_beta(sl_optim_value(&param->optim, "beta"), &out->beta1, &out->rest1);
    if (sl_optim_value(&param->optim, "nesterov") != 0) {
        out->beta2 = out->beta1;
        out->rest2 = out->rest1;
    } else {
        out->beta2 = 1;
        out->rest2 = 0;
    }
    out->gain =
        (float)(sl_optim_value(&param->optim, "rms") * sqrt((double)(rows > cols ? rows : cols)));
    out->rounds = (int)sl_optim_value(&param->optim, "rounds");
}

/* Makes one round on X [k,n] in place; A, B [k,k] and Y [k,n] are scratch. Sums have ascending
 * index. */
static void round_float(int64_t k, int64_t n, float *x, float *a) {
    float *b = a + k * k, *y = b + k * k;
    for (int64_t i = 0; i < k; i++)
        for (int64_t j = 0; j < k; j++) {
            float sum = 0;
            for (int64_t l = 0; l < n; l++)
                sum += x[i * n + l] * x[j * n + l];
            a[i * k + j] = sum;
        }
    for (int64_t i = 0; i < k; i++)
        for (int64_t j = 0; j < k; j++) {
            float sum = 0;
            for (int64_t l = 0; l < k; l++)
                sum += a[i * k + l] * a[l * k + j];
            b[i * k + j] = (float)ns_b * a[i * k + j] + (float)ns_c * sum;
        }
    for (int64_t i = 0; i < k * n; i++)
        y[i] = (float)ns_a * x[i];
    for (int64_t i = 0; i < k; i++)
        for (int64_t l = 0; l < k; l++)
            for (int64_t j = 0; j < n; j++)
                y[i * n + j] += b[i * k + l] * x[l * n + j];
    memcpy(x, y, sizeof *x * (size_t)(k * n));
}

/* Computes Y = A X with A [k,k], X [k,n]. */
static void multiply(int64_t k, int64_t n, const double *a, const double *x, double *y) {
    for (int64_t i = 0; i < k; i++)
        for (int64_t j = 0; j < n; j++) {
            y[i * n + j] = 0;
            for (int64_t l = 0; l < k; l++)
                y[i * n + j] += a[i * k + l] * x[l * n + j];
        }
}

static void round_double(int64_t k, int64_t n, double *x, double *a) {
    double *b = a + k * k, *y = b + k * k;
    for (int64_t i = 0; i < k * k; i++) {
        a[i] = 0;
        for (int64_t l = 0; l < n; l++)
            a[i] += x[i / k * n + l] * x[i % k * n + l];
    }
    multiply(k, k, a, a, b);
    for (int64_t i = 0; i < k * k; i++)
        b[i] = ns_b * a[i] + ns_c * b[i];
    multiply(k, n, b, x, y);
    for (int64_t i = 0; i < k * n; i++)
        x[i] = ns_a * x[i] + y[i];
}

/* Returns the index in X of element i of a [rows, cols] matrix; X is transposed if that has more
 * rows than columns. */
static int64_t place(int64_t i, int64_t rows, int64_t cols) {
    return rows > cols ? i % cols * rows + i / cols : i;
}

static void step(const struct sl_step_coef *c, const struct sl_step_io *io) {
    int64_t k = io->rows < io->cols ? io->rows : io->cols, n = io->count / k;
    float *m = io->state[0], *x = io->scratch;
    double sum = 0;
    SL_ASSERT(io->rows * io->cols == io->count && x);
    for (int64_t i = 0; i < io->count; i++) {
        float g = io->g[i] * c->scale;
        m[i] = sl_rule_mean(c->beta1, c->rest1, m[i], g);
        float ahead = sl_rule_mean(c->beta2, c->rest2, m[i], g);
        x[place(i, io->rows, io->cols)] = ahead;
        sum += (double)ahead * ahead;
    }
    double norm = sqrt(sum);
    float fix = (float)(1 / (norm > ns_eps ? norm : ns_eps));
    for (int64_t i = 0; i < io->count; i++)
        x[i] *= fix;
    for (int i = 0; i < c->rounds; i++)
        round_float(k, n, x, x + io->count);
    for (int64_t i = 0; i < io->count; i++) {
        float delta = c->gain * x[place(i, io->rows, io->cols)];
        io->w[i] = sl_rule_apply(c, io->w[i], delta);
        if (io->delta)
            io->delta[i] = delta;
    }
}

static void ref(const struct sl_optim_param *param, const struct sl_step_ref *io) {
    double beta = sl_optim_value(&param->optim, "beta"), sum = 0;
    bool nesterov = sl_optim_value(&param->optim, "nesterov") != 0;
    int64_t k = io->rows < io->cols ? io->rows : io->cols, n = io->count / k;
    size_t elements = (size_t)(2 * (io->count + k * k));
    double *x = sl_realloc(NULL, sizeof *x * elements);
    for (int64_t i = 0; i < io->count; i++) {
        double g = io->g[i] * io->scale;
        io->state[0][i] = beta * io->state[0][i] + (1 - beta) * g;
        double ahead = nesterov ? beta * io->state[0][i] + (1 - beta) * g : io->state[0][i];
        x[place(i, io->rows, io->cols)] = ahead;
        sum += ahead * ahead;
    }
    double norm = sqrt(sum);
    for (int64_t i = 0; i < io->count; i++)
        x[i] /= norm > ns_eps ? norm : ns_eps;
    for (int i = 0; i < (int)sl_optim_value(&param->optim, "rounds"); i++)
        round_double(k, n, x, x + io->count);
    double gain = sl_optim_value(&param->optim, "rms") *
                  sqrt((double)(io->rows > io->cols ? io->rows : io->cols));
    for (int64_t i = 0; i < io->count; i++) {
        io->delta[i] = gain * x[place(i, io->rows, io->cols)];
        io->w[i] = io->w[i] * (1 - io->lr * sl_optim_decay(param)) - io->lr * io->delta[i];
    }
    free(x);
}

extern const struct sl_optimizer sl_optim_row_adamw;

const struct sl_optimizer sl_optim_row_muon = {
    .name = "muon",
    .brief = "orthogonalised momentum for matrices, adamw for the rest",
    .note = "rank 2 only; embeddings, biases, norms and higher ranks go to adamw with the same lr",
    .lr = 1e-3,
    .hyper = hyper,
    .state_count = 1,
    .state = {"momentum_buffer"},
    .whole_matrix = true,
    .momentum = "beta",
    .delta_from = SL_DELTA_KEPT,
    .direction = "0.2*sqrt(max(rows,cols)) * NS(beta*M + (1-beta)*g)",
    .coef = coef,
    .step = step,
    .ref = ref,
    .takes = takes,
    .fallback = &sl_optim_row_adamw,
    .scratch_bytes = scratch_bytes,
};
