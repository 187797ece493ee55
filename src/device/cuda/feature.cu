/* dropout and alpha_dropout, where every kernel that needs the mask of op/dropout.h computes it
 * again; and dot_interaction. */
#include "device/cuda/kernels.cuh"

/* Philox 4x32-10, as in base/rng.c: word (index & 3) of draw (index / 4). */
static __device__ uint32_t draw_u32(uint64_t seed, uint64_t stream, uint64_t index) {
    uint64_t block = index >> 2;
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    uint32_t c[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)stream,
                     (uint32_t)(stream >> 32)};
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c[0], p1 = (uint64_t)0xCD9E8D57u * c[2];
        uint32_t c1 = c[1], c3 = c[3];
        c[0] = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c[1] = (uint32_t)p1;
        c[2] = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c[3] = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    uint32_t low = index & 1 ? c[1] : c[0], high = index & 1 ? c[3] : c[2];
    return index & 2 ? high : low;
}

/* A kept element becomes a x + b, a dropped one c + b. */
struct mask {
    const sl_cuda_draw *draw;
    uint64_t stream, below;
    i64 each; /* elements of a sample */
    float a, b, c;
};

static __global__ void drop(array y, array x, mask m, i64 count, bool add) {
    uint64_t first = (uint64_t)(m.draw->first_sample * m.each), seed = m.draw->seed;
    GRID_LOOP(i, count) {
        bool keeps = draw_u32(seed, m.stream, first + (uint64_t)i) >= m.below;
        put(y, i, (keeps ? m.a * get(x, i) : m.c) + m.b, add);
    }
}

static sl_err run_drop(const sl_cuda_call *call, double a, double b, double c) {
    const union sl_attr *attr = call->instr->attr;
    i64 count = call->instr->out[0].numel;
    mask m = {call->draw,
              (uint64_t)attr[1].i,
              (uint64_t)(attr[0].f * 4294967296.0),
              count / call->samples,
              (float)a,
              (float)b,
              (float)c};
    drop<<<blocks_for(count, THREADS), THREADS, 0, call->stream>>>(
        out_array(call, 0), in_array(call, 0), m, count, call->add);
    return launched(call);
}

static sl_err k_dropout(const sl_cuda_call *call) {
    return run_drop(call, 1 / (1 - call->instr->attr[0].f), 0, 0);
}

/* The constant of selu as in op/alpha_dropout.c. */
static const double lowest = -1.7580993408473768599402175208123;
static double slope(double p) { return 1 / sqrt((1 - p) * (1 + p * lowest * lowest)); }

static sl_err k_alpha_dropout(const sl_cuda_call *call) {
    double p = call->instr->attr[0].f, a = slope(p);
    return run_drop(call, a, -a * p * lowest, a * lowest);
}

static sl_err k_alpha_dropout_dx(const sl_cuda_call *call) {
    return run_drop(call, slope(call->instr->attr[0].f), 0, 0);
}

/* ---- dot_interaction (DLRM): products of all pairs of features ---- */

static __device__ void pair_at(i64 p, bool self, i64 *i, i64 *j) {
    i64 row = self ? 0 : 1, first = 0; /* row i has i pairs, or i + 1 with `self` */
    while (first + row + self <= p) {
        first += row + self;
        row++;
    }
    *i = row;
    *j = p - first;
}

struct crossing { /* per sample, `pairs` products of two of `features` vectors of size n */
    i64 pairs, features, n;
    bool self, add;
};

static __global__ void interact(array y, array x, i64 count, crossing z) {
    GRID_LOOP(at, count) {
        i64 i, j, base = at / z.pairs * z.features;
        pair_at(at % z.pairs, z.self, &i, &j);
        float sum = 0;
        for (i64 k = 0; k < z.n; k++)
            sum += get(x, (base + i) * z.n + k) * get(x, (base + j) * z.n + k);
        put(y, at, sum, z.add);
    }
}

static __device__ i64 pair_number(i64 i, i64 j, bool self) {
    i64 row = i > j ? i : j, col = i > j ? j : i;
    return row * (row - 1) / 2 + (self ? row : 0) + col;
}

static __global__ void interact_dx(array dx, array dy, array x, i64 count, crossing z) {
    GRID_LOOP(at, count) {
        i64 k = at % z.n, i = at / z.n % z.features, b = at / z.n / z.features;
        float sum = 0;
        for (i64 j = 0; j < z.features; j++) {
            if (j == i && !z.self)
                continue;
            float d = get(dy, b * z.pairs + pair_number(i, j, z.self));
            sum += (j == i ? 2 * d : d) * get(x, (b * z.features + j) * z.n + k);
        }
        put(dx, at, sum, z.add);
    }
}

static sl_err k_interaction(const sl_cuda_call *call) {
    const int64_t *x = call->instr->in[0].shape.dim;
    i64 count = call->instr->out[0].numel;
    interact<<<blocks_for(count, THREADS), THREADS, 0, call->stream>>>(
        out_array(call, 0), in_array(call, 0), count,
        crossing{count / x[0], x[1], x[2], call->instr->attr[0].i != 0, call->add});
    return launched(call);
}

static sl_err k_interaction_dx(const sl_cuda_call *call) {
    const int64_t *x = call->instr->in[1].shape.dim;
    i64 count = call->instr->out[0].numel;
    interact_dx<<<blocks_for(count, THREADS), THREADS, 0, call->stream>>>(
        out_array(call, 0), in_array(call, 0), in_array(call, 1), count,
        crossing{call->instr->in[0].numel / x[0], x[1], x[2], call->instr->attr[0].i != 0,
                 call->add});
    return launched(call);
}

/* clang-format off */
extern "C" const struct sl_cuda_kernel sl_cuda_features[] = {
    {"alpha_dropout", k_alpha_dropout, NULL, false, NULL, true},
    {"alpha_dropout_dx", k_alpha_dropout_dx, NULL, false, NULL, true},
    {"dot_interaction", k_interaction},
    {"dot_interaction_dx", k_interaction_dx},
    {"dropout", k_dropout, NULL, false, NULL, true},
    {},
};
/* clang-format on */
