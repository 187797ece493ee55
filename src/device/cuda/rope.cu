/* rope: rotates pairs of features by an angle that depends on the position.
 *
 * Angles grow with the position, so they are computed in double, once per position and pair of a
 * head: cosines and sines go to scratch, [T][D/2], and serve all samples and heads.
 */
#include "device/cuda/kernels.cuh"

struct turn {
    i64 t, h, d;
    double base, scale;
    int64_t start;
    bool half, inverse;
    int64_t ramp; /* the same meaning as in op/rope.h */
    double low, high;
};

/* Computes the same as sl_op_rope_rate of op/rope.h. */
static __device__ double rope_rate(const turn &z, i64 i) {
    double f = pow(z.base, -2.0 * (double)i / (double)z.d);
    if (z.ramp == 0)
        return z.scale * f;
    double u = z.ramp == 1 ? f : (double)i;
    return f * (z.scale + (1 - z.scale) * fmin(fmax((u - z.low) / (z.high - z.low), 0.0), 1.0));
}

static __global__ void find_angles(float2 *angles, turn z, i64 count) {
    GRID_LOOP(p, count) {
        i64 i = p % (z.d / 2), t = p / (z.d / 2);
        double s, c;
        sincos((double)(z.start + t) * rope_rate(z, i), &s, &c);
        angles[p] = {(float)c, (float)(z.inverse ? -s : s)};
    }
}

static __device__ __forceinline__ float2 turned(float u, float v, float2 a) {
    return {u * a.x - v * a.y, u * a.y + v * a.x};
}

/* One thread per pair. */
static __global__ void rope(array y, array x, turn z, const float2 *angles, i64 pairs, bool add) {
    GRID_LOOP(p, pairs) {
        i64 i = p % (z.d / 2), head = p / (z.d / 2), t = head / z.h % z.t;
        i64 a = head * z.d + (z.half ? i : 2 * i), b = z.half ? a + z.d / 2 : a + 1;
        float2 w = turned(get(x, a), get(x, b), angles[t * (z.d / 2) + i]);
        put(y, a, w.x, add);
        put(y, b, w.y, add);
    }
}

/* One thread per eight pairs of halves, or per four pairs of neighbours. The type of x and y is the
 * template parameter HALF, so that loads can overlap. D / 2 is a multiple of 8. */
template <int HALF, bool HALVES>
static __global__ void rope8(array y, array x, turn z, const float2 *angles, unsigned count,
                             bool add) {
    constexpr int N = HALVES ? 8 : 4;
    unsigned each = (unsigned)z.d / 2 / N; /* threads per head */
    x.half = y.half = HALF;
    for (unsigned p = blockIdx.x * blockDim.x + threadIdx.x; p < count;
         p += gridDim.x * blockDim.x) {
        unsigned i = p % each * N, head = p / each, t = head / (unsigned)z.h % (unsigned)z.t;
        i64 a = (i64)head * z.d + (HALVES ? i : 2 * i), b = a + z.d / 2;
        const float4 *from = (const float4 *)(angles + (i64)t * (z.d / 2) + i);
        eight u = get8(x, a), v = HALVES ? get8(x, b) : eight{}, to = {}, too = {};
        float2 angle[N];
#pragma unroll
        for (int k = 0; k < N / 2; k++)
            ((float4 *)angle)[k] = from[k];
        if (add) {
            to = get8(y, a);
            too = HALVES ? get8(y, b) : eight{};
        }
#pragma unroll
        for (int k = 0; k < N; k++) {
            float2 w = HALVES ? turned(u.v[k], v.v[k], angle[k])
                              : turned(u.v[2 * k % 8], u.v[(2 * k + 1) % 8], angle[k]);
            float &first = HALVES ? u.v[k] : u.v[2 * k % 8];
            float &second = HALVES ? v.v[k] : u.v[(2 * k + 1) % 8];
            first = w.x;
            second = w.y;
        }
        for (int k = 0; add && k < 8; k++) {
            u.v[k] += to.v[k];
            v.v[k] += too.v[k];
        }
        put8(y, a, u);
        if (HALVES)
            put8(y, b, v);
    }
}

template <int HALF>
static void launch8(const sl_cuda_call *call, const turn &z, const float2 *angles) {
    array y = out_array(call, 0), x = in_array(call, 0);
    unsigned count = (unsigned)(call->instr->in[0].numel / (z.half ? 16 : 8));
    unsigned blocks = blocks_for(count, THREADS);
    if (z.half)
        rope8<HALF, true><<<blocks, THREADS, 0, call->stream>>>(y, x, z, angles, count, call->add);
    else
        rope8<HALF, false><<<blocks, THREADS, 0, call->stream>>>(y, x, z, angles, count, call->add);
}

static sl_err k_rope(const sl_cuda_call *call) {
    const union sl_attr *attr = call->instr->attr;
    const int64_t *dim = call->instr->in[0].shape.dim;
    turn z = {dim[1],         dim[2],         dim[3],    attr[0].f, attr[3].f, attr[1].i,
              attr[2].i == 0, attr[4].i != 0, attr[5].i, attr[6].f, attr[7].f};
    array y = out_array(call, 0), x = in_array(call, 0);
    i64 pairs = call->instr->in[0].numel / 2, count = z.t * z.d / 2;
    float2 *angles = (float2 *)call->scratch;
    int half = half_of_all(x, y);
    find_angles<<<blocks_for(count, 64), 64, 0, call->stream>>>(angles, z, count);
    if (z.d % 16 || !fit8(x, y) || x.half != y.half || pairs >= (i64)1 << 32)
        rope<<<blocks_for(pairs, THREADS), THREADS, 0, call->stream>>>(y, x, z, angles, pairs,
                                                                       call->add);
    else if (half == SL_HALF_BF16)
        launch8<SL_HALF_BF16>(call, z, angles);
    else if (half == SL_HALF_FP16)
        launch8<SL_HALF_FP16>(call, z, angles);
    else
        launch8<SL_HALF_NOT>(call, z, angles);
    return launched(call);
}

static i64 angles_bytes(const sl_instr *instr) {
    const int64_t *dim = instr->in[0].shape.dim;
    return dim[1] * dim[3] / 2 * (i64)sizeof(float2);
}

/* clang-format off */
extern "C" const struct sl_cuda_kernel sl_cuda_ropes[] = {
    {"rope", k_rope, angles_bytes},
    {},
};
/* clang-format on */
