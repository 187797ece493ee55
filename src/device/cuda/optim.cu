/* Optimizer steps and predictions of all parameters in one launch, with the bits of optim/rules.h.
 * This file is compiled without contraction (CMake: -fmad=false).
 *
 *   items      | 0 ......... | 1 .. | 2 ................... |
 *   blocks       0   1   2     3      4   5   6   7            each CHUNK elements of one item
 */
#define SL_RULE static __host__ __device__ inline

#include "device/cuda/kernels.cuh"

extern "C" {
#include "optim/rules.h"
}

#include <cstring>

enum { CHUNK = 4096, STEP_THREADS = 256 };

enum rule { SGD, MOMENTUM, NESTEROV, ADAM, NADAM, LION, RULES };

static const struct {
    const char *name;
    enum rule rule;
} names[] = {
    {"adam", ADAM},   {"adamw", ADAM},        {"lion", LION}, {"momentum", MOMENTUM},
    {"nadam", NADAM}, {"nesterov", NESTEROV}, {"sgd", SGD},
};

static enum rule rule_of(const sl_optimizer *row) {
    for (int i = 0; i < SL_COUNT(names); i++)
        if (strcmp(names[i].name, row->name) == 0)
            return names[i].rule;
    return RULES;
}

struct item {
    float *w, *m, *v, *delta, *out;
    const float *g;
    array half; /* 16-bit copy of w, which is updated with w; or NULL */
    bool wide;  /* handles four elements at a time: all arrays are aligned for it */
    i64 count, first_block;
    sl_step_coef coef;
    enum rule rule;
    float by; /* factor of a prediction */
};

/* Returns the item of a block: the last item that begins at or before the block. */
static __device__ const item *item_of(const item *items, int count, i64 block) {
    int low = 0, high = count;
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (items[middle].first_block <= block)
            low = middle;
        else
            high = middle;
    }
    return &items[low];
}

static __device__ __forceinline__ float step_one(const item &it, const sl_step_coef &c, float *w,
                                                 float g, float *m, float *v) {
    switch (it.rule) {
    case SGD: return sl_rule_sgd(&c, w, g);
    case MOMENTUM: return sl_rule_momentum(&c, w, g, m);
    case NESTEROV: return sl_rule_nesterov(&c, w, g, m);
    case ADAM: return sl_rule_adam(&c, w, g, m, v);
    case NADAM: return sl_rule_nadam(&c, w, g, m, v);
    default: return sl_rule_lion(&c, w, g, m);
    }
}

struct four {
    float v[4];
};
static __device__ __forceinline__ four get4(const float *from, i64 i) {
    four f = {};
    if (from)
        *(float4 *)f.v = *(const float4 *)(from + i);
    return f;
}
static __device__ __forceinline__ void put4(float *to, i64 i, const four &f) {
    if (to)
        *(float4 *)(to + i) = *(const float4 *)f.v;
}

static __device__ __forceinline__ void step_four(const item &it, i64 i) {
    four w = get4(it.w, i), g = get4(it.g, i), m = get4(it.m, i), v = get4(it.v, i), delta;
    for (int k = 0; k < 4; k++)
        delta.v[k] = step_one(it, it.coef, &w.v[k], g.v[k], &m.v[k], &v.v[k]);
    put4(it.w, i, w);
    put4(it.m, i, m);
    put4(it.v, i, v);
    put4(it.delta, i, delta);
    if (it.half.at) {
        ushort4 raw = {to_half(w.v[0], it.half.half), to_half(w.v[1], it.half.half),
                       to_half(w.v[2], it.half.half), to_half(w.v[3], it.half.half)};
        *(ushort4 *)((uint16_t *)it.half.at + i) = raw;
    }
}

static __device__ __forceinline__ void step_single(const item &it, i64 i) {
    float w = it.w[i], m = it.m ? it.m[i] : 0, v = it.v ? it.v[i] : 0;
    float delta = step_one(it, it.coef, &w, it.g[i], &m, &v);
    it.w[i] = w;
    if (it.m)
        it.m[i] = m;
    if (it.v)
        it.v[i] = v;
    if (it.delta)
        it.delta[i] = delta;
    if (it.half.at)
        put(it.half, i, w);
}

static __global__ void step_items(const item *items, int count) {
    __shared__ item it;
    if (threadIdx.x == 0)
        it = *item_of(items, count, blockIdx.x);
    __syncthreads();
    const item mine = it;
    i64 first = (blockIdx.x - mine.first_block) * CHUNK;
    i64 last = first + CHUNK < mine.count ? first + CHUNK : mine.count;
    i64 fours = mine.wide ? last / 4 * 4 : first;
    for (i64 i = first + 4 * threadIdx.x; i < fours; i += 4 * blockDim.x)
        step_four(mine, i);
    for (i64 i = fours + threadIdx.x; i < last; i += blockDim.x)
        step_single(mine, i);
}

static __global__ void predict_items(const item *items, int count) {
    __shared__ item it;
    if (threadIdx.x == 0)
        it = *item_of(items, count, blockIdx.x);
    __syncthreads();
    i64 first = (blockIdx.x - it.first_block) * CHUNK;
    i64 last = first + CHUNK < it.count ? first + CHUNK : it.count;
    for (i64 i = first + threadIdx.x; i < last; i += blockDim.x) {
        float delta = it.delta              ? it.delta[i]
                      : it.rule == MOMENTUM ? it.m[i]
                                            : sl_rule_adam_delta(&it.coef, it.m[i], it.v[i]);
        float step = it.by * delta;
        it.out[i] = it.w[i] - step;
    }
}

static item item_from(const sl_step_item *from, i64 first_block) {
    item it = {};
    it.w = from->io.w;
    it.g = from->io.g;
    it.m = from->io.state[0];
    it.v = from->io.state[1];
    it.delta = from->io.delta;
    it.out = from->out;
    it.count = from->param->count;
    it.first_block = first_block;
    it.coef = from->coef;
    it.rule = rule_of(from->param->optim.row);
    it.wide = fit8(array{it.w}, array{it.m}, array{it.v}, array{it.delta}, array{(void *)it.g});
    return it;
}

/* Copies the table of items to device memory, by way of pinned memory. */
static sl_err send_items(sl_cuda_device *cuda, const item *items, int count, const item **out) {
    size_t bytes = sizeof *items * (size_t)count;
    void *pinned, *room;
    cudaStream_t stream = cuda->streams[SL_STREAM_COMPUTE];
    SL_TRY(sl_cuda_room(cuda, (i64)bytes, &room));
    SL_TRY(sl_cuda_pin(cuda, (i64)bytes, stream, &pinned));
    memcpy(pinned, items, bytes);
    *out = (const item *)room;
    return SL_CUDA(cudaMemcpyAsync(room, pinned, bytes, cudaMemcpyHostToDevice, stream));
}

static i64 blocks_of(i64 count) { return (count + CHUNK - 1) / CHUNK; }

static sl_err run_items(sl_cuda_device *cuda, item *list, int count, i64 blocks, bool predicts) {
    const item *there;
    cudaStream_t stream = cuda->streams[SL_STREAM_COMPUTE];
    if (!count)
        return SL_OK;
    SL_TRY(send_items(cuda, list, count, &there));
    if (predicts)
        predict_items<<<(unsigned)blocks, STEP_THREADS, 0, stream>>>(there, count);
    else
        step_items<<<(unsigned)blocks, STEP_THREADS, 0, stream>>>(there, count);
    return sl_cuda_check(cudaGetLastError(), predicts ? "prediction" : "optimizer step");
}

/* Kernels of optimizers that step whole matrices. */
static const struct {
    const char *name;
    sl_err (*step)(sl_cuda_device *cuda, const sl_step_item *item);
} matrix_rules[] = {{"muon", sl_cuda_muon}};

static sl_err step_matrix(sl_cuda_device *cuda, const sl_step_item *item) {
    const char *name = item->param->optim.row->name;
    for (int i = 0; i < SL_COUNT(matrix_rules); i++)
        if (strcmp(matrix_rules[i].name, name) == 0)
            return matrix_rules[i].step(cuda, item);
    return sl_fail(SL_ERR_REFUSED, "optimizer '%s' is not run on GPUs", name);
}

extern "C" sl_err sl_cuda_step(sl_device *device, const sl_step_item *items, int count) {
    sl_cuda_device *cuda = sl_cuda_of(device);
    item *list = (item *)sl_realloc(NULL, sizeof *list * (size_t)(count + 1));
    i64 blocks = 0;
    int used = 0;
    sl_err err = SL_OK;
    SL_TRY(SL_CUDA(cudaSetDevice(cuda->index)));
    for (int i = 0; i < count && err == SL_OK; i++) {
        item it = item_from(&items[i], blocks);
        if (it.rule == RULES) {
            sl_cuda_touch(cuda, items[i].io.w, items[i].io.count * 4);
            err = step_matrix(cuda, &items[i]);
            continue;
        }
        enum sl_half half = SL_HALF_NOT;
        it.half.at = sl_cuda_half_of(cuda, it.w, it.count * 4, &half);
        it.half.half = half;
        if (!it.half.at)
            sl_cuda_touch(cuda, it.w, it.count * 4);
        list[used++] = it;
        blocks += blocks_of(it.count);
    }
    if (err == SL_OK)
        err = run_items(cuda, list, used, blocks, false);
    free(list);
    return err;
}

extern "C" sl_err sl_cuda_predict(sl_device *device, const sl_step_item *items, int count,
                                  double ahead) {
    sl_cuda_device *cuda = sl_cuda_of(device);
    item *list = (item *)sl_realloc(NULL, sizeof *list * (size_t)(count + 1));
    i64 blocks = 0;
    SL_TRY(SL_CUDA(cudaSetDevice(cuda->index)));
    for (int i = 0; i < count; i++) {
        list[i] = item_from(&items[i], blocks);
        sl_cuda_touch(cuda, items[i].out, items[i].io.count * 4);
        list[i].by = (float)(items[i].lr * ahead);
        if (items[i].param->optim.row->delta_from == SL_DELTA_STATE)
            list[i].delta = NULL;
        SL_ASSERT(list[i].delta || list[i].rule == MOMENTUM || list[i].rule == ADAM);
        blocks += blocks_of(list[i].count);
    }
    sl_err err = run_items(cuda, list, count, blocks, true);
    free(list);
    return err;
}

static __global__ void add_floats(float *y, const float *x, i64 count) {
    GRID_LOOP(i, count) y[i] += x[i];
}

extern "C" sl_err sl_cuda_add(sl_device *device, void *y, const void *x, int64_t numel) {
    sl_cuda_device *cuda = sl_cuda_of(device);
    SL_TRY(SL_CUDA(cudaSetDevice(cuda->index)));
    add_floats<<<blocks_for(numel, 4 * THREADS), THREADS, 0, cuda->streams[SL_STREAM_COMPUTE]>>>(
        (float *)y, (const float *)x, numel);
    return sl_cuda_check(cudaGetLastError(), "sum of gradients");
}
