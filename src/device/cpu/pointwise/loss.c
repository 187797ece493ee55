/* cross_entropy, mse, bce_with_logits, nll, the losses of op/losses.c, and their gradients.
 *
 * A loss is the mean of many terms. Terms of rows or blocks are stored in scratch and added in
 * order, in double. cross_entropy reads a row once, in pieces that fit the L1 cache: it finds the
 * maximum of a piece, sums its exponentials and rescales the sum if the maximum grew.
 */
#include "device/cpu/pointwise/adding.h"
#include "device/cpu/pointwise/runs.h"
#include "device/cpu/pointwise/zip.h"
#include "device/cpu/vec_log.h"

enum { PIECE = 1024 };
enum { CE_IGNORE, CE_SMOOTHING };

static double log_sum_exp(const float *x, int64_t n) {
    float max = -INFINITY;
    double sum = 0;
    for (int64_t i = 0; i < n; i += PIECE) {
        int64_t m = n - i < PIECE ? n - i : PIECE;
        float piece_max = max_run(x + i, m);
        if (piece_max > max) {
            sum *= sum > 0 ? exp((double)max - (double)piece_max) : 0;
            max = piece_max;
        }
        sum += (double)sum_exp(NULL, x + i, max, m);
    }
    return (double)max + log(sum);
}

static void cross_entropy_part(void *ctx, int thread, int threads) {
    const struct sl_device_cpu_call *call = ctx;
    struct sl_kernel_rows rows = rows_of(&call->instr->in[0].shape);
    const int32_t *target = call->in[1];
    double smoothing = call->instr->attr[CE_SMOOTHING].f, *loss = call->scratch;
    float *lse = call->out[1];
    int64_t from, to;
    sl_device_pool_range(rows.count, 1, thread, threads, &from, &to);
    for (int64_t r = from; r < to; r++) {
        const float *x = (const float *)call->in[0] + r * rows.n;
        double log_sum = log_sum_exp(x, rows.n);
        lse[r] = (float)log_sum;
        loss[r] = 0;
        if (target[r] == call->instr->attr[CE_IGNORE].i)
            continue;
        SL_ASSERT(target[r] >= 0 && target[r] < rows.n);
        loss[r] = (1 - smoothing) * (log_sum - (double)x[target[r]]);
        if (smoothing > 0)
            loss[r] += smoothing * (log_sum - (double)sum_run(x, rows.n) / (double)rows.n);
    }
}

static int64_t count_targets(const int32_t *target, int64_t count, int64_t ignore) {
    int64_t valid = 0;
    for (int64_t i = 0; i < count; i++)
        valid += target[i] != ignore;
    return valid;
}

static void k_cross_entropy(const struct sl_device_cpu_call *call) {
    int64_t count = numel_in(call, 1);
    int64_t valid = count_targets(call->in[1], count, call->instr->attr[CE_IGNORE].i);
    double total = 0;
    run_parts(call, numel_in(call, 0), cross_entropy_part);
    for (int64_t i = 0; i < count; i++)
        total += ((const double *)call->scratch)[i];
    *(float *)call->out[0] = valid ? (float)(total / (double)valid) : 0;
}

static int64_t cross_entropy_scratch(const struct sl_instr *instr, int threads) {
    (void)threads;
    return sl_graph_shape_numel(&instr->in[1].shape, 1) * (int64_t)sizeof(double);
}

/* Inputs: dloss, logits, targets, lse. dx may overwrite the logits. */
static void cross_entropy_dx_part(void *ctx, int thread, int threads) {
    const struct sl_device_cpu_call *call = ctx;
    struct sl_kernel_rows rows = rows_of(&call->instr->in[1].shape);
    const int32_t *target = call->in[2];
    const float *lse = call->in[3];
    int64_t from, to, ignore = call->instr->attr[CE_IGNORE].i;
    int64_t valid = count_targets(target, rows.count, ignore);
    double smoothing = call->instr->attr[CE_SMOOTHING].f;
    float each = valid ? *(const float *)call->in[0] / (float)valid : 0;
    float spread = (float)(smoothing / (double)rows.n);
    sl_device_pool_range(rows.count, 1, thread, threads, &from, &to);
    for (int64_t r = from; r < to; r++) {
        const float *x = (const float *)call->in[1] + r * rows.n;
        float *dx = (float *)call->out[0] + r * rows.n;
        if (target[r] == ignore) {
            memset(dx, 0, (size_t)rows.n * sizeof *dx);
            continue;
        }
        for (int64_t i = 0; i < rows.n; i += LANES)
            store_at(dx, each * (vexp(load_at(x, i, rows.n) - lse[r]) - spread), i, rows.n);
        dx[target[r]] -= each * (float)(1 - smoothing);
    }
}

static void k_cross_entropy_dx(const struct sl_device_cpu_call *call) {
    run_parts(call, numel_in(call, 1), cross_entropy_dx_part);
}

/* ---- means over elements ---- */

static INLINE void mean_part(void *ctx, int thread, int threads, zip_fn *f, numbers_fn *p) {
    const struct sl_device_cpu_call *call = ctx;
    const float *a = call->in[0], *b = call->in[1];
    int64_t count = numel_in(call, 0), from, to;
    float k[4] = {0};
    p(call, k);
    sl_device_pool_range(count, PIECE, thread, threads, &from, &to);
    for (int64_t i = from; i < to; i += PIECE) {
        int64_t n = to - i < PIECE ? to - i : PIECE, j = 0;
        vf sum = {0};
        float rest = 0;
        for (; j + LANES <= n; j += LANES)
            sum += f(load(a + i + j), load(b + i + j), k);
        vf last = f(load_part(a + i + j, n - j), load_part(b + i + j, n - j), k);
        for (int64_t l = 0; l < n - j; l++)
            rest += last[l];
        ((double *)call->scratch)[i / PIECE] = (double)sum_lanes(sum) + (double)rest;
    }
}

static void mean_of(const struct sl_device_cpu_call *call, part_fn *body) {
    int64_t count = numel_in(call, 0);
    double total = 0;
    run_parts(call, count, body);
    for (int64_t i = 0; i < (count + PIECE - 1) / PIECE; i++)
        total += ((const double *)call->scratch)[i];
    *(float *)call->out[0] = (float)(total / (double)count);
}

static int64_t mean_scratch(const struct sl_instr *instr, int threads) {
    (void)threads;
    return (sl_graph_shape_numel(&instr->in[0].shape, 1) / PIECE + 1) * (int64_t)sizeof(double);
}

static FN(square_off) { return (a - b) * (a - b); }

static FN(bce_term) { return (1.0f - b) * a + (1.0f + k[0] * b) * vsoftplus_of_minus(a); }

static void bce_weight(const struct sl_device_cpu_call *call, float k[4]) {
    k[0] = (float)call->instr->attr[0].f - 1; /* weight of positive targets, minus 1 */
}

static void mse_part(void *ctx, int thread, int threads) {
    mean_part(ctx, thread, threads, square_off, no_numbers);
}

static void bce_part(void *ctx, int thread, int threads) {
    mean_part(ctx, thread, threads, bce_term, bce_weight);
}

static void k_mse(const struct sl_device_cpu_call *call) { mean_of(call, mse_part); }
static void k_bce_with_logits(const struct sl_device_cpu_call *call) { mean_of(call, bce_part); }

static void mse_numbers(const struct sl_device_cpu_call *call, float k[4]) {
    k[0] = 2 * *(const float *)call->in[0] / (float)numel_out(call, 0);
}

static void bce_numbers(const struct sl_device_cpu_call *call, float k[4]) {
    k[0] = *(const float *)call->in[0] / (float)numel_out(call, 0);
    k[1] = (float)call->instr->attr[0].f - 1;
}

static FN(mse_slope) { return k[0] * (a - b); }
static FN(bce_slope) { return k[0] * ((1.0f - b) - (1.0f + k[1] * b) * vsigmoid(-a)); }
static FN(bce_target_slope) { return k[0] * (k[1] * vsoftplus_of_minus(a) - a); }

ZIP_OF(mse_dx, 1, 2, mse_slope, mse_numbers)
ZIP_OF(bce_with_logits_dx, 1, 2, bce_slope, bce_numbers)
ZIP_OF(bce_with_logits_dt, 1, 1, bce_target_slope, bce_numbers)

/* ---- op/losses.c: k[1], k[2] are the attributes; k[0] is the factor of the gradient ---- */

/* Returns the number that the sum of terms is divided by. For kl with batchmean that is the first
 * size. */
static double terms_of(const struct sl_device_cpu_call *call, int x) {
    const struct sl_attr_desc *attr = call->instr->op->attrs;
    bool rows = attr && attr[0].kind == SL_ATTR_BOOL && call->instr->attr[0].i &&
                call->instr->in[x].shape.rank;
    return (double)(rows ? call->instr->in[x].shape.dim[0] : numel_in(call, x));
}

static void loss_attrs(const struct sl_device_cpu_call *call, float k[4]) {
    const struct sl_attr_desc *attr = call->instr->op->attrs;
    for (int i = 0; i < 2 && attr && attr[i].name; i++)
        k[1 + i] = (float)call->instr->attr[i].f;
}

static void loss_factor(const struct sl_device_cpu_call *call, float k[4]) {
    loss_attrs(call, k);
    k[0] = (float)((double)*(const float *)call->in[0] / terms_of(call, 1));
}

static INLINE vf larger_0(vf x) { return vmax(x, splat(0)); }

/* q^gamma, q = 1 / (1 + exp(z)) */
static INLINE vf focal_share(vf z, float gamma) { return vexp(-gamma * vsoftplus_of_minus(-z)); }
static INLINE vf focal_of(vf z, float gamma) {
    return focal_share(z, gamma) * vsoftplus_of_minus(z);
}
static INLINE vf focal_slope(vf z, float gamma) {
    vf p = vsigmoid(z);
    return -focal_share(z, gamma) * (gamma * p * vsoftplus_of_minus(z) + vsigmoid(-z));
}
static INLINE vf focal_mix(vf target, const float k[4], vf yes, vf no) {
    float a = k[1] < 0 ? 1 : k[1], b = k[1] < 0 ? 1 : 1 - k[1];
    return target * a * yes + (1.0f - target) * b * no;
}

static INLINE vf huber_of(vf d, float delta) {
    return pick(vabs(d) <= delta, 0.5f * d * d, delta * (vabs(d) - 0.5f * delta));
}

static INLINE vf sign_of(vf d) { return with_sign((vf)((d != 0.0f) & (vi)splat(1)), d); }

#define LOSS(name, term, slope)                                                                    \
    static FN(term_of_##name) { return term; }                                                     \
    static FN(slope_of_##name) { return k[0] * (slope); }                                          \
    static void name##_part(void *ctx, int thread, int threads) {                                  \
        mean_part(ctx, thread, threads, term_of_##name, loss_attrs);                               \
    }                                                                                              \
    static void k_##name(const struct sl_device_cpu_call *call) {                                  \
        mean_of(call, name##_part);                                                                \
        *(float *)call->out[0] *= (float)((double)numel_in(call, 0) / terms_of(call, 0));          \
    }                                                                                              \
    ZIP_OF(name##_dx, 1, 2, slope_of_##name, loss_factor)

LOSS(contrastive, b *a *a + (1.0f - b) * larger_0(k[1] - a) * larger_0(k[1] - a),
     2.0f * b * a - 2.0f * (1.0f - b) * larger_0(k[1] - a))
LOSS(focal, focal_mix(b, k, focal_of(a, k[2]), focal_of(-a, k[2])),
     focal_mix(b, k, focal_slope(a, k[2]), -focal_slope(-a, k[2])))
LOSS(huber, huber_of(a - b, k[1]), vmin(splat(k[1]), vmax(splat(-k[1]), a - b)))
LOSS(kl, (vf)((b > 0.0f) & (vi)(b * (vlog(b) - a))), -b)
LOSS(l1, vabs(a - b), sign_of(a - b))

static void k_nll(const struct sl_device_cpu_call *call) {
    struct sl_kernel_rows rows = rows_of(&call->instr->in[0].shape);
    const int32_t *target = call->in[1];
    int64_t ignore = call->instr->attr[0].i, valid = count_targets(target, rows.count, ignore);
    double sum = 0;
    for (int64_t r = 0; r < rows.count; r++) {
        if (target[r] == ignore)
            continue;
        SL_ASSERT(target[r] >= 0 && target[r] < rows.n);
        sum -= (double)((const float *)call->in[0])[r * rows.n + target[r]];
    }
    *(float *)call->out[0] = valid ? (float)(sum / (double)valid) : 0;
}

/* Inputs: dloss, target. */
static void k_nll_dx(const struct sl_device_cpu_call *call) {
    struct sl_kernel_rows rows = rows_of(&call->instr->out[0].shape);
    const int32_t *target = call->in[1];
    int64_t ignore = call->instr->attr[0].i, valid = count_targets(target, rows.count, ignore);
    float each = valid ? *(const float *)call->in[0] / (float)valid : 0, *dx = call->out[0];
    if (!call->add)
        memset(dx, 0, (size_t)(rows.count * rows.n) * sizeof *dx);
    for (int64_t r = 0; r < rows.count; r++)
        if (target[r] != ignore)
            dx[r * rows.n + target[r]] -= each;
}

#define LOSS_ROWS(name)                                                                            \
    {#name, k_##name, mean_scratch}, { #name "_dx", k_##name##_dx, NULL }

ADDING(cross_entropy_dx)

const struct sl_device_cpu_kernel SL_ISA_NAME(loss_kernels)[] = {
    {"bce_with_logits", k_bce_with_logits, mean_scratch},
    {"bce_with_logits_dt", k_bce_with_logits_dt, NULL},
    {"bce_with_logits_dx", k_bce_with_logits_dx, NULL},
    {"cross_entropy", k_cross_entropy, cross_entropy_scratch},
    {ADDING_ROW(cross_entropy_dx)},
    LOSS_ROWS(contrastive),
    LOSS_ROWS(focal),
    LOSS_ROWS(huber),
    LOSS_ROWS(kl),
    LOSS_ROWS(l1),
    {"mse", k_mse, mean_scratch},
    {"mse_dx", k_mse_dx, NULL},
    {"nll", k_nll, NULL},
    {"nll_dx", k_nll_dx, NULL},
    {0},
};
