/* batchnorm of images with their channels last, [pixels, C]. A thread handles eight channels and
 * iterates over pixels.
 *
 *   sums of blocks -> part[2][block][C] in scratch -> a warp per channel adds them, in order
 *
 * Images have 16 bits. Which of the two types they have is the template parameter HALF, so that
 * loads can overlap. The variance needs one pass: sums of x - x0 and of its square, where x0 is
 * the channel's first pixel. */
#include "device/cuda/batchnorm_last.cuh"

#include <string.h>

enum { WALKERS = 256, MAX_PARTS = 264 };

struct pixels { /* [rows, n] */
    i64 rows, n;
    int blocks;
    float *part; /* [2][blocks][n] */
    float *coef; /* [2][n]: mean of dy, and mean of dy xhat */
};

static pixels pixels_of(const sl_operand &x, void *scratch) {
    pixels z = {x.numel / x.shape.dim[1], x.shape.dim[1]};
    i64 at_once = WALKERS * 8 / z.n > 0 ? WALKERS * 8 / z.n : 1;
    i64 blocks = (z.rows + 8 * at_once - 1) / (8 * at_once);
    z.blocks = (int)(blocks < MAX_PARTS ? blocks : (i64)MAX_PARTS);
    z.part = (float *)scratch;
    z.coef = z.part + 2 * z.blocks * z.n;
    return z;
}

i64 bn_last_bytes(const sl_cuda_call *call) {
    i64 n = call->instr->in[0].shape.dim[1];
    return call->last.in & 1 ? (2 * MAX_PARTS + 2) * n * (i64)sizeof(float) : 0;
}

/* The share of one thread: eight channels from `col` on, and pixels first, first + step, ... Up to
 * 256 threads of a block lie side by side, one per eight channels. */
struct walk {
    i64 col, first, step;
    /* lane: pixel of this thread in the block; across: pixels that the block handles at a time;
     * side: number of threads that lie side by side */
    int lane, across, side;
};
static __device__ __forceinline__ walk walk_of(const pixels &z) {
    i64 eights = z.n / 8;
    int side = eights < WALKERS ? (int)eights : WALKERS;
    int across = WALKERS / side, lane = threadIdx.x / side;
    i64 col = ((i64)blockIdx.y * side + threadIdx.x % side) * 8;
    if (lane >= across)
        col = z.n; /* the thread is idle: `side` does not divide 256 */
    return {col, (i64)blockIdx.x * across + lane, (i64)gridDim.x * across, lane, across, side};
}

static dim3 grid_of(const pixels &z, int blocks) {
    return dim3((unsigned)blocks, (unsigned)((z.n / 8 + WALKERS - 1) / WALKERS));
}

/* Writes the block's two sums of each channel to `part`. */
static __device__ void put_parts(const pixels &z, const walk &w, const eight &a, const eight &b) {
    __shared__ float sums[2][WALKERS * 8];
    for (int k = 0; k < 8; k++) {
        sums[0][k * WALKERS + threadIdx.x] = a.v[k];
        sums[1][k * WALKERS + threadIdx.x] = b.v[k];
    }
    __syncthreads();
    if (w.lane != 0 || w.col >= z.n)
        return;
    for (int which = 0; which < 2; which++)
        for (int k = 0; k < 8; k++) {
            float sum = 0;
            for (int r = 0; r < w.across; r++)
                sum += sums[which][k * WALKERS + r * w.side + threadIdx.x];
            z.part[((i64)which * z.blocks + blockIdx.x) * z.n + w.col + k] = sum;
        }
}

template <int HALF> static __global__ void __launch_bounds__(WALKERS) moments(array x, pixels z) {
    x.half = HALF;
    walk w = walk_of(z);
    eight a = {}, b = {};
    if (w.col < z.n) {
        eight origin = get8(x, w.col);
#pragma unroll 4
        for (i64 row = w.first; row < z.rows; row += w.step) {
            eight e = get8(x, row * z.n + w.col);
            for (int k = 0; k < 8; k++) {
                float off = e.v[k] - origin.v[k];
                a.v[k] += off;
                b.v[k] += off * off;
            }
        }
    }
    put_parts(z, w, a, b);
}

/* Returns x normalised, scaled and shifted; by = rstd w. All kernels of this file call it, so their
 * bits agree. */
static __device__ __forceinline__ float scaled(float x, float mean, float by, float b) {
    return __fmaf_rn(__fsub_rn(x, mean), by, b);
}
/* Returns the value that a store and a load would give. */
template <int HALF> static __device__ __forceinline__ float rounded(float v) {
    return as_stored(array{NULL, HALF}, v);
}

/* The gradient through relu(scaled x), for eight channels. */
template <int HALF> struct gate {
    eight mean, by, b;
    __device__ __forceinline__ float operator()(float dy, float x, int k) const {
        return rounded<HALF>(scaled(x, mean.v[k], by.v[k], b.v[k])) > 0 ? dy : 0;
    }
};
static __device__ __forceinline__ eight read_eight(array a, i64 i) {
    return a.at ? get8(a, i) : eight{};
}
template <int HALF>
static __device__ __forceinline__ gate<HALF> gate_of(array mean, array rstd, array w, array b,
                                                     i64 col) {
    gate<HALF> g = {read_eight(mean, col), read_eight(rstd, col), read_eight(b, col)};
    eight by = read_eight(w, col);
    for (int k = 0; k < 8; k++)
        g.by.v[k] *= by.v[k];
    return g;
}

/* Sums dy, and dy xhat unless x.at is NULL. With RELU, dy goes through relu first. */
struct dots_args {
    array dy, x, mean, rstd, w, b;
};
template <int HALF, bool RELU>
static __global__ void __launch_bounds__(WALKERS) dots(dots_args d, pixels z) {
    d.dy.half = d.x.half = HALF;
    walk w = walk_of(z);
    eight a = {}, b = {};
    if (w.col < z.n) {
        eight mean = read_eight(d.mean, w.col), rstd = read_eight(d.rstd, w.col);
        gate<HALF> open = RELU ? gate_of<HALF>(d.mean, d.rstd, d.w, d.b, w.col) : gate<HALF>{};
#pragma unroll 4
        for (i64 row = w.first; row < z.rows; row += w.step) {
            eight dy = get8(d.dy, row * z.n + w.col), x = read_eight(d.x, row * z.n + w.col);
            for (int k = 0; k < 8; k++) {
                float v = RELU ? open(dy.v[k], x.v[k], k) : dy.v[k];
                a.v[k] = __fadd_rn(a.v[k], v);
                b.v[k] = __fmaf_rn(__fmul_rn(v, __fsub_rn(x.v[k], mean.v[k])), rstd.v[k], b.v[k]);
            }
        }
    }
    put_parts(z, w, a, b);
}

/* A warp adds the parts of a channel. */
static __device__ __forceinline__ float add_parts(const pixels &z, int which, i64 c) {
    float sum = 0;
    for (int i = threadIdx.x % 32; i < z.blocks; i += 32)
        sum += z.part[((i64)which * z.blocks + i) * z.n + c];
    return warp_sum(sum);
}

struct stats {
    array x, running_mean, running_var, mean, rstd, new_mean, new_var;
    float eps, momentum;
};

static __global__ void end_moments(stats s, pixels z) {
    i64 c = (i64)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (c >= z.n)
        return;
    float n = (float)z.rows, first = add_parts(z, 0, c) / n, second = add_parts(z, 1, c) / n;
    if (threadIdx.x % 32)
        return;
    float mean = get(s.x, c) + first, var = fmaxf(second - first * first, 0);
    float old_mean = get(s.running_mean, c), old_var = get(s.running_var, c);
    float unbiased = z.rows > 1 ? var * n / (n - 1) : old_var;
    put(s.mean, c, mean);
    put(s.rstd, c, 1 / sqrtf(var + s.eps));
    put(s.new_mean, c, (1 - s.momentum) * old_mean + s.momentum * mean);
    put(s.new_var, c, (1 - s.momentum) * old_var + s.momentum * unbiased);
}

/* Writes sum number `which` to y; if y.at is NULL, writes both means to z.coef. */
static __global__ void end_dots(array y, int which, pixels z, bool add) {
    i64 c = (i64)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (c >= z.n)
        return;
    float sum = add_parts(z, which, c), other = y.at ? 0 : add_parts(z, 1, c);
    if (threadIdx.x % 32)
        return;
    if (y.at) {
        put(y, c, sum, add);
        return;
    }
    z.coef[c] = sum / (float)z.rows;
    z.coef[z.n + c] = other / (float)z.rows;
}

struct affine {
    array y, x, w, b, mean, rstd, r;
};

/* With RELU, y = relu(...). With SUM, r is added before. */
template <int HALF, bool RELU, bool SUM>
static __global__ void __launch_bounds__(WALKERS) normalise(affine f, pixels z) {
    f.x.half = f.y.half = f.r.half = HALF;
    walk p = walk_of(z);
    if (p.col >= z.n)
        return;
    eight mean = get8(f.mean, p.col), by = get8(f.rstd, p.col), w = get8(f.w, p.col);
    eight b = get8(f.b, p.col);
    for (int k = 0; k < 8; k++)
        by.v[k] *= w.v[k];
#pragma unroll 4
    for (i64 row = p.first; row < z.rows; row += p.step) {
        eight e = get8(f.x, row * z.n + p.col);
        eight r = SUM ? get8(f.r, row * z.n + p.col) : eight{};
        for (int k = 0; k < 8; k++) {
            float v = scaled(e.v[k], mean.v[k], by.v[k], b.v[k]);
            v = SUM ? rounded<HALF>(v) + r.v[k] : v;
            e.v[k] = RELU && v < 0 ? 0 : v;
        }
        put8(f.y, row * z.n + p.col, e);
    }
}

struct slope {
    array dx, dy, x, w, mean, rstd, b;
    bool add;
};
template <int HALF, bool RELU>
static __global__ void __launch_bounds__(WALKERS) bend(slope s, pixels z) {
    s.dx.half = s.dy.half = s.x.half = HALF;
    walk p = walk_of(z);
    if (p.col >= z.n)
        return;
    eight mean = get8(s.mean, p.col), rstd = get8(s.rstd, p.col), w = get8(s.w, p.col);
    eight first = get8(array{z.coef, 0}, p.col), second = get8(array{z.coef, 0}, z.n + p.col);
    gate<HALF> open = RELU ? gate_of<HALF>(s.mean, s.rstd, s.w, s.b, p.col) : gate<HALF>{};
#pragma unroll 2
    for (i64 row = p.first; row < z.rows; row += p.step) {
        i64 at = row * z.n + p.col;
        eight dy = get8(s.dy, at), x = get8(s.x, at), old = s.add ? get8(s.dx, at) : eight{};
        for (int k = 0; k < 8; k++) {
            float hat = __fmul_rn(__fsub_rn(x.v[k], mean.v[k]), rstd.v[k]);
            float g = RELU ? open(dy.v[k], x.v[k], k) : dy.v[k];
            float v = __fmul_rn(__fmul_rn(w.v[k], rstd.v[k]),
                                __fmaf_rn(-hat, second.v[k], __fsub_rn(g, first.v[k])));
            old.v[k] = s.add ? __fadd_rn(old.v[k], v) : v;
        }
        put8(s.dx, at, old);
    }
}

enum { MAP_BLOCKS = 132 * 8, END_WARPS = 8 };

static unsigned ends(const pixels &z) { return (unsigned)((z.n + END_WARPS - 1) / END_WARPS); }
static dim3 map_grid(const pixels &z) {
    return grid_of(z, z.blocks < MAX_PARTS ? z.blocks : MAP_BLOCKS);
}

/* The kernels of one 16-bit type. */
struct kind {
    void (*moments)(array x, pixels z);
    void (*normalise[3])(affine f, pixels z); /* plain; with relu; with sum and relu */
    void (*dots[2])(dots_args d, pixels z);   /* [with relu] */
    void (*bend[2])(slope s, pixels z);
};
template <int HALF> static constexpr kind kernels_of() {
    return {
        moments<HALF>,
        {normalise<HALF, false, false>, normalise<HALF, true, false>, normalise<HALF, true, true>},
        {dots<HALF, false>, dots<HALF, true>},
        {bend<HALF, false>, bend<HALF, true>}};
}
static const kind &kind_of(const sl_cuda_call *call) {
    static const kind bf16 = kernels_of<SL_HALF_BF16>(), fp16 = kernels_of<SL_HALF_FP16>();
    return call->instr->in[0].dtype == SL_FP16 ? fp16 : bf16;
}

sl_err bn_last(const sl_cuda_call *call) {
    pixels z = pixels_of(call->instr->in[0], call->scratch);
    array x = in_array(call, 0), mean = out_array(call, 1), rstd = out_array(call, 2);
    stats s = {x,
               in_array(call, 3),
               in_array(call, 4),
               mean,
               rstd,
               out_array(call, 3),
               out_array(call, 4),
               (float)call->instr->attr[0].f,
               (float)call->instr->attr[1].f};
    kind_of(call).moments<<<grid_of(z, z.blocks), WALKERS, 0, call->stream>>>(x, z);
    end_moments<<<ends(z), 32 * END_WARPS, 0, call->stream>>>(s, z);
    affine f = {out_array(call, 0), x, in_array(call, 1), in_array(call, 2), mean, rstd,
                in_array(call, 5)};
    int which =
        f.r.at ? 2 : strcmp(call->instr->kernel, "batchnorm") != 0; /* not an entry: a kernel */
    kind_of(call).normalise[which]<<<map_grid(z), WALKERS, 0, call->stream>>>(f, z);
    return launched(call);
}

sl_err bn_last_dx(const sl_cuda_call *call) {
    pixels z = pixels_of(call->instr->in[0], call->scratch);
    dots_args d = {in_array(call, 0), in_array(call, 1), in_array(call, 3), in_array(call, 4)};
    kind_of(call).dots[0]<<<grid_of(z, z.blocks), WALKERS, 0, call->stream>>>(d, z);
    end_dots<<<ends(z), 32 * END_WARPS, 0, call->stream>>>(array{}, 0, z, false);
    kind_of(call).bend[0]<<<map_grid(z), WALKERS, 0, call->stream>>>(
        slope{out_array(call, 0), d.dy, d.x, in_array(call, 2), d.mean, d.rstd, {}, call->add}, z);
    return launched(call);
}

/* Computes all gradients. The two sums that dx needs are the other gradients. With a bias (in[5])
 * dy goes through relu first. */
sl_err bn_last_grad(const sl_cuda_call *call) {
    pixels z = pixels_of(call->instr->in[0], call->scratch);
    dots_args d = {in_array(call, 0), in_array(call, 1), in_array(call, 3),
                   in_array(call, 4), in_array(call, 2), in_array(call, 5)};
    slope s = {out_array(call, 0), d.dy, d.x, d.w, d.mean, d.rstd, d.b, false};
    bool relu = d.b.at != NULL;
    kind_of(call).dots[relu]<<<grid_of(z, z.blocks), WALKERS, 0, call->stream>>>(d, z);
    for (int which = 0; which < 2; which++)
        end_dots<<<ends(z), 32 * END_WARPS, 0, call->stream>>>(out_array(call, which ? 1 : 2),
                                                               which, z, call->add);
    end_dots<<<ends(z), 32 * END_WARPS, 0, call->stream>>>(array{}, 0, z, false);
    kind_of(call).bend[relu]<<<map_grid(z), WALKERS, 0, call->stream>>>(s, z);
    return launched(call);
}

static sl_err sum_to_out(const sl_cuda_call *call, const dots_args &d, int which) {
    pixels z = pixels_of(call->instr->in[0], call->scratch);
    kind_of(call).dots[0]<<<grid_of(z, z.blocks), WALKERS, 0, call->stream>>>(d, z);
    end_dots<<<ends(z), 32 * END_WARPS, 0, call->stream>>>(out_array(call, 0), which, z, call->add);
    return launched(call);
}

sl_err bn_last_dw(const sl_cuda_call *call) {
    return sum_to_out(
        call, dots_args{in_array(call, 0), in_array(call, 1), in_array(call, 2), in_array(call, 3)},
        1);
}

sl_err sum_channels_last(const sl_cuda_call *call) {
    return sum_to_out(call, dots_args{in_array(call, 0), array{}, array{}, array{}}, 0);
}
