/* Mixture of experts: slots, dispatch, combine, products by expert; see op/moe.c. The host never
 * reads the load: kernels read the ranges of rows from device memory. All sums run in a fixed order.
 */
#include "device/cuda/kernels.cuh"

/* ---- slots: one block; a thread per expert walks over the choices in order ---- */

static __global__ void fill_slots(int32_t *slots, int32_t *ranges, const int32_t *choice, i64 count,
                                  i64 experts, i64 room) {
    for (i64 e = threadIdx.x; e < experts; e += blockDim.x) {
        int32_t used = 0;
        for (i64 i = 0; i < count; i++)
            used += choice[i] == e;
        ranges[2 * e + 1] = used;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        int32_t next = 0;
        for (i64 e = 0; e < experts; e++) {
            ranges[2 * e] = room ? (int32_t)(e * room) : next;
            next += ranges[2 * e + 1];
        }
    }
    __syncthreads();
    for (i64 e = threadIdx.x; e < experts; e += blockDim.x) {
        int32_t next = ranges[2 * e], end = room ? next + (int32_t)room : INT32_MAX;
        for (i64 i = 0; i < count; i++)
            if (choice[i] == e)
                slots[i] = next < end ? next++ : -1;
        ranges[2 * e + 1] = next;
    }
}

static sl_err k_moe_slots(const sl_cuda_call *call) {
    const union sl_attr *attr = call->instr->attr;
    i64 count = call->instr->in[0].numel, experts = attr[0].i;
    i64 samples = call->samples > 0 && count % call->samples == 0 ? call->samples : 1;
    i64 room = attr[1].f > 0
                   ? samples * (i64)ceil(attr[1].f * (double)(count / samples) / (double)experts)
                   : 0;
    fill_slots<<<1, 1024, 0, call->stream>>>((int32_t *)call->out[0], (int32_t *)call->out[1],
                                             (const int32_t *)call->in[0], count, experts, room);
    return launched(call);
}

static __global__ void count_load(array load, const int32_t *choice, i64 count, i64 experts) {
    GRID_LOOP(e, experts) {
        i64 mine = 0;
        for (i64 i = 0; i < count; i++)
            mine += choice[i] == e;
        put(load, e, (float)((double)mine / (double)count));
    }
}

static sl_err k_moe_load(const sl_cuda_call *call) {
    i64 experts = call->instr->attr[0].i;
    count_load<<<blocks_for(experts, THREADS), THREADS, 0, call->stream>>>(
        out_array(call, 0), (const int32_t *)call->in[0], call->instr->in[0].numel, experts);
    return launched(call);
}

static __global__ void balance(array next, array bias, array load, i64 n, float rate) {
    GRID_LOOP(e, n) {
        float off = (float)(1 / (double)n) - get(load, e);
        put(next, e, get(bias, e) + (off > 0 ? rate : off < 0 ? -rate : 0));
    }
}

static sl_err run_balance(const sl_cuda_call *call, float rate) {
    i64 n = call->instr->in[0].numel;
    balance<<<blocks_for(n, THREADS), THREADS, 0, call->stream>>>(
        out_array(call, 0), in_array(call, 0), in_array(call, 1), n, rate);
    return launched(call);
}

static sl_err k_moe_balance(const sl_cuda_call *call) {
    return run_balance(call, (float)call->instr->attr[0].f);
}
static sl_err k_moe_balance_eval(const sl_cuda_call *call) { return run_balance(call, 0); }

/* ---- dispatch and combine ---- */

struct choices {
    const int32_t *slot;
    array weight; /* weights of the choices; may be absent */
    i64 count, k, n;
    __device__ float weight_of(i64 choice) const { return weight.at ? get(weight, choice) : 1; }
};

static choices choices_of(const sl_cuda_call *call, int slots, i64 n) {
    rows all = rows_of(call->instr->in[slots]);
    array weight =
        slots == 1 && call->instr->in_count > 2 && call->in[2] ? in_array(call, 2) : array{};
    return {(const int32_t *)call->in[slots], weight, call->instr->in[slots].numel, all.n, n};
}

static __global__ void zero(array y, i64 count) { GRID_LOOP(i, count) put(y, i, 0); }

static __global__ void dispatch(array y, array x, choices c, bool add) {
    GRID_LOOP(i, c.count * c.n) {
        i64 choice = i / c.n, j = i % c.n, row = c.slot[choice];
        if (row >= 0)
            put(y, row * c.n + j, c.weight_of(choice) * get(x, choice / c.k * c.n + j), add);
    }
}

static sl_err k_moe_dispatch(const sl_cuda_call *call) {
    i64 count = call->instr->out[0].numel;
    choices c = choices_of(call, 1, call->instr->out[0].shape.dim[1]);
    if (!call->add)
        zero<<<blocks_for(count, THREADS), THREADS, 0, call->stream>>>(out_array(call, 0), count);
    dispatch<<<blocks_for(c.count * c.n, THREADS), THREADS, 0, call->stream>>>(
        out_array(call, 0), in_array(call, 0), c, call->add);
    return launched(call);
}

static __global__ void combine(array y, array x, choices c, bool add) {
    GRID_LOOP(i, c.count / c.k * c.n) {
        i64 token = i / c.n, j = i % c.n;
        float sum = 0;
        for (i64 choice = token * c.k; choice < (token + 1) * c.k; choice++)
            if (c.slot[choice] >= 0)
                sum += c.weight_of(choice) * get(x, c.slot[choice] * c.n + j);
        put(y, i, sum, add);
    }
}

static sl_err k_moe_combine(const sl_cuda_call *call) {
    choices c = choices_of(call, 1, call->instr->in[0].shape.dim[1]);
    combine<<<blocks_for(call->instr->out[0].numel, THREADS), THREADS, 0, call->stream>>>(
        out_array(call, 0), in_array(call, 0), c, call->add);
    return launched(call);
}

/* One warp per choice. */
static __global__ void combine_dw(array dw, array dy, array x, choices c, bool add) {
    i64 warps = (i64)gridDim.x * blockDim.x / 32;
    for (i64 i = ((i64)blockIdx.x * blockDim.x + threadIdx.x) / 32; i < c.count; i += warps) {
        float sum = 0;
        for (i64 j = threadIdx.x % 32; j < c.n && c.slot[i] >= 0; j += 32)
            sum += get(dy, i / c.k * c.n + j) * get(x, c.slot[i] * c.n + j);
        sum = warp_sum(sum);
        if (threadIdx.x % 32 == 0)
            put(dw, i, sum, add);
    }
}

static sl_err k_moe_combine_dw(const sl_cuda_call *call) {
    choices c = choices_of(call, 2, call->instr->in[1].shape.dim[1]);
    combine_dw<<<blocks_for(c.count * 32, THREADS), THREADS, 0, call->stream>>>(
        out_array(call, 0), in_array(call, 0), in_array(call, 1), c, call->add);
    return launched(call);
}

/* ---- products by expert: tiles in shared memory, sums in fp32 ---- */

enum { TILE = 32 };

struct grouped {
    const int32_t *ranges;
    i64 experts, rows, k, n;
    bool tb;
};

/* y [rows,n]: a block computes TILE columns of TILE rows of one expert. Row tiles are numbered
 * expert by expert; the block finds its own tile. Rows that belong to no expert are cleared
 * before. */
static __global__ void grouped_product(array y, array x, array w, grouped g, bool add) {
    __shared__ float left[TILE][TILE + 1], right[TILE][TILE + 1];
    i64 tile = blockIdx.x, e = 0, from = 0, to = 0;
    for (; e < g.experts; e++) {
        from = g.ranges[2 * e];
        to = g.ranges[2 * e + 1];
        i64 tiles = (to - from + TILE - 1) / TILE;
        if (tile < tiles)
            break;
        tile -= tiles;
    }
    if (e == g.experts)
        return;
    i64 row = from + tile * TILE + threadIdx.y, column = (i64)blockIdx.y * TILE + threadIdx.x;
    float sum = 0;
    for (i64 p = 0; p < g.k; p += TILE) {
        i64 a = p + threadIdx.x, b = p + threadIdx.y;
        left[threadIdx.y][threadIdx.x] = row < to && a < g.k ? get(x, row * g.k + a) : 0;
        i64 at = e * g.k * g.n + (g.tb ? column * g.k + b : b * g.n + column);
        right[threadIdx.y][threadIdx.x] = column < g.n && b < g.k ? get(w, at) : 0;
        __syncthreads();
        for (int i = 0; i < TILE; i++)
            sum += left[threadIdx.y][i] * right[i][threadIdx.x];
        __syncthreads();
    }
    if (row < to && column < g.n)
        put(y, row * g.n + column, sum, add);
}

static sl_err k_grouped_matmul(const sl_cuda_call *call) {
    const sl_instr *instr = call->instr;
    i64 count = instr->out[0].numel;
    grouped g = {(const int32_t *)call->in[2], instr->in[1].shape.dim[0],
                 instr->in[0].shape.dim[0],    instr->in[0].shape.dim[1],
                 instr->out[0].shape.dim[1],   instr->attr[0].i != 0};
    if (!call->add)
        zero<<<blocks_for(count, THREADS), THREADS, 0, call->stream>>>(out_array(call, 0), count);
    dim3 blocks((unsigned)(g.rows / TILE + g.experts), (unsigned)((g.n + TILE - 1) / TILE));
    grouped_product<<<blocks, dim3(TILE, TILE), 0, call->stream>>>(
        out_array(call, 0), in_array(call, 0), in_array(call, 1), g, call->add);
    return launched(call);
}

/* dw[e] = a' b: a block computes a tile of one expert; k is the number of columns of a. */
static __global__ void grouped_gradient(array dw, array a, array b, grouped g, bool add) {
    __shared__ float left[TILE][TILE + 1], right[TILE][TILE + 1];
    i64 e = blockIdx.z, from = g.ranges[2 * e], to = g.ranges[2 * e + 1];
    i64 i = (i64)blockIdx.x * TILE, j = (i64)blockIdx.y * TILE;
    float sum = 0;
    for (i64 p = from; p < to; p += TILE) {
        i64 row = p + threadIdx.y;
        left[threadIdx.y][threadIdx.x] =
            row < to && i + threadIdx.x < g.k ? get(a, row * g.k + i + threadIdx.x) : 0;
        right[threadIdx.y][threadIdx.x] =
            row < to && j + threadIdx.x < g.n ? get(b, row * g.n + j + threadIdx.x) : 0;
        __syncthreads();
        for (int r = 0; r < TILE; r++)
            sum += left[r][threadIdx.y] * right[r][threadIdx.x];
        __syncthreads();
    }
    i += threadIdx.y;
    j += threadIdx.x;
    if (i < g.k && j < g.n)
        put(dw, (e * g.k + i) * g.n + j, sum, add);
}

static sl_err k_grouped_matmul_dw(const sl_cuda_call *call) {
    const sl_instr *instr = call->instr;
    grouped g = {(const int32_t *)call->in[2], instr->out[0].shape.dim[0],
                 instr->in[0].shape.dim[0],    instr->in[0].shape.dim[1],
                 instr->in[1].shape.dim[1],    false};
    dim3 blocks((unsigned)((g.k + TILE - 1) / TILE), (unsigned)((g.n + TILE - 1) / TILE),
                (unsigned)g.experts);
    grouped_gradient<<<blocks, dim3(TILE, TILE), 0, call->stream>>>(
        out_array(call, 0), in_array(call, 0), in_array(call, 1), g, call->add);
    return launched(call);
}

/* clang-format off */
extern "C" const struct sl_cuda_kernel sl_cuda_experts[] = {
    {"grouped_matmul", k_grouped_matmul},
    {"grouped_matmul_dw", k_grouped_matmul_dw},
    {"moe_balance", k_moe_balance},
    {"moe_balance_eval", k_moe_balance_eval},
    {"moe_combine", k_moe_combine},
    {"moe_combine_dw", k_moe_combine_dw},
    {"moe_combine_dx", k_moe_dispatch},
    {"moe_dispatch", k_moe_dispatch},
    {"moe_load", k_moe_load},
    {"moe_slots", k_moe_slots},
    {},
};
/* clang-format on */
