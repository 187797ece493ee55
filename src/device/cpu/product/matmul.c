/* matmul and the ops fused with it. Their names and operands are described in pass/fused.h. */
#include "device/cpu/kernels.h"
#include "device/cpu/product/gemm.h"
#include "device/cpu/vec_math.h"

struct matmul_sizes {
    int64_t m, n, k, count;
    bool ta, tb, shared;
};

/* If b has two axes, the leading axes of a are further rows; else they count products. */
static struct matmul_sizes matmul_sizes(const struct sl_instr *instr) {
    const struct sl_shape *a = &instr->in[0].shape, *b = &instr->in[1].shape;
    int64_t rows = a->dim[a->rank - 2], cols = a->dim[a->rank - 1], leading = 1;
    for (int i = 0; i < a->rank - 2; i++)
        leading *= a->dim[i];
    struct matmul_sizes s = {
        .count = leading,
        .ta = instr->attr[0].i != 0,
        .tb = instr->attr[1].i != 0,
        .shared = b->rank == 2,
    };
    s.m = s.ta ? cols : rows;
    s.k = s.ta ? rows : cols;
    s.n = b->dim[b->rank - (s.tb ? 2 : 1)];
    if (s.shared) {
        s.m *= s.count;
        s.count = 1;
    }
    return s;
}

static struct sl_gemm_batch matmul_batch(const struct sl_device_cpu_call *call) {
    struct matmul_sizes s = matmul_sizes(call->instr);
    return (struct sl_gemm_batch){
        .gemm =
            {
                .m = s.m,
                .n = s.n,
                .k = s.k,
                .a = {call->in[0], s.ta ? s.m : s.k, s.ta},
                .b = {call->in[1], s.tb ? s.k : s.n, s.tb},
                .c = call->out[0],
                .ldc = s.n,
                .add = call->add,
            },
        .count = s.count,
        .a_step = s.m * s.k,
        .b_step = s.k * s.n,
        .c_step = s.m * s.n,
        .scratch = call->scratch,
    };
}

static int64_t matmul_scratch(const struct sl_instr *instr, int threads) {
    struct matmul_sizes s = matmul_sizes(instr);
    return 4 * threads * gemm_scratch(s.m, s.n, s.k, s.count, threads);
}

static void matmul(const struct sl_device_cpu_call *call) {
    struct sl_gemm_batch batch = matmul_batch(call);
    batch.gemm.bias = call->instr->in_count > 2 ? call->in[2] : NULL;
    gemm_run(call->pool, &batch);
}

/* y = a b + bias + r */
static void matmul_add(const struct sl_device_cpu_call *call) {
    struct sl_gemm_batch batch = matmul_batch(call);
    batch.gemm.bias = call->in[2];
    batch.gemm.start = call->in[3];
    gemm_run(call->pool, &batch);
}

static INLINE vf gelu_erf(vf x) { return 0.5f * x * (1.0f + verf(x * 0.70710678f)); }

static INLINE vf gelu_erf_slope(vf x) {
    vf density = 0.3989422804f * vexp(-0.5f * x * x);
    return 0.5f * (1.0f + verf(x * 0.70710678f)) + x * density;
}

/* Applies f to a complete tile: y = f(c), or c = c f(x). */
static INLINE void map_tile(const struct sl_gemm_spec *g, const int64_t tile[4], vf (*f)(vf)) {
    for (int64_t i = tile[0]; i < tile[0] + tile[2]; i++)
        for (int64_t j = 0; j < tile[3]; j += LANES) {
            int64_t at = i * g->ldc + tile[1] + j, left = tile[3] - j;
            if (g->y)
                store_n(g->y + at, f(load_n(g->c + at, left)), left);
            else
                store_n(g->c + at, load_n(g->c + at, left) * f(load_n(g->x + at, left)), left);
        }
}

#define FINISH(name, f)                                                                            \
    static void name(const struct sl_gemm_spec *g, int64_t i, int64_t j, int64_t rows,             \
                     int64_t cols) {                                                               \
        map_tile(g, (int64_t[]){i, j, rows, cols}, f);                                             \
    }
FINISH(finish_gelu_tanh, vgelu)
FINISH(finish_gelu_erf, gelu_erf)
FINISH(finish_gelu_tanh_slope, vgelu_slope)
FINISH(finish_gelu_erf_slope, gelu_erf_slope)

/* pre = a b + bias, y = gelu(pre) */
static void matmul_gelu(const struct sl_device_cpu_call *call) {
    struct sl_gemm_batch batch = matmul_batch(call);
    batch.gemm.bias = call->in[2];
    batch.gemm.y = call->out[1];
    batch.gemm.finish = finish_gelu_tanh;
    gemm_run(call->pool, &batch);
}

static void matmul_gelu_erf(const struct sl_device_cpu_call *call) {
    struct sl_gemm_batch batch = matmul_batch(call);
    batch.gemm.bias = call->in[2];
    batch.gemm.y = call->out[1];
    batch.gemm.finish = finish_gelu_erf;
    gemm_run(call->pool, &batch);
}

/* dx = (a b) gelu'(x) */
static void matmul_gelu_dx(const struct sl_device_cpu_call *call) {
    struct sl_gemm_batch batch = matmul_batch(call);
    batch.gemm.x = call->in[2];
    batch.gemm.finish = finish_gelu_tanh_slope;
    gemm_run(call->pool, &batch);
}

static void matmul_gelu_erf_dx(const struct sl_device_cpu_call *call) {
    struct sl_gemm_batch batch = matmul_batch(call);
    batch.gemm.x = call->in[2];
    batch.gemm.finish = finish_gelu_erf_slope;
    gemm_run(call->pool, &batch);
}

/* dw = a b. Also, as the gradient of the bias, the sums over k of the factor that is dy. */
static void matmul_sum_a(const struct sl_device_cpu_call *call) {
    struct sl_gemm_batch batch = matmul_batch(call);
    batch.gemm.a_sums = call->out[1];
    batch.gemm.add_sums = call->add;
    gemm_run(call->pool, &batch);
}

static void matmul_sum_b(const struct sl_device_cpu_call *call) {
    struct sl_gemm_batch batch = matmul_batch(call);
    batch.gemm.b_sums = call->out[1];
    batch.gemm.add_sums = call->add;
    gemm_run(call->pool, &batch);
}

const struct sl_device_cpu_kernel SL_ISA_NAME(matmul_kernels)[] = {
    {"matmul", matmul, matmul_scratch},
    {"matmul_add", matmul_add, matmul_scratch},
    {"matmul_gelu", matmul_gelu, matmul_scratch},
    {"matmul_gelu_dx", matmul_gelu_dx, matmul_scratch},
    {"matmul_gelu_erf", matmul_gelu_erf, matmul_scratch},
    {"matmul_gelu_erf_dx", matmul_gelu_erf_dx, matmul_scratch},
    {"matmul_sum_a", matmul_sum_a, matmul_scratch},
    {"matmul_sum_b", matmul_sum_b, matmul_scratch},
    {0},
};
