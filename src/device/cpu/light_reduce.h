/* sum_to, reduce_sum, reduce_mean: axes into one of the patterns of light_sum.h. */
#ifndef SL_DEVICE_CPU_LIGHT_REDUCE_H
#define SL_DEVICE_CPU_LIGHT_REDUCE_H

#include "device/cpu/light_sum.h"

/* Any pattern of axes. */
struct walk_job {
    struct sum_job *job;
    struct loops kept, summed;
};

static void walk_part(void *ctx, int thread, int threads) {
    const struct walk_job *w = ctx;
    int64_t from, to, count = 1, each = 1, base[2], at[2];
    for (int i = 0; i < w->kept.rank; i++)
        count *= w->kept.size[i];
    for (int i = 0; i < w->summed.rank; i++)
        each *= w->summed.size[i];
    sl_pool_range(count, 1, thread, threads, &from, &to);
    int inner = w->summed.rank - 1;
    int64_t last = w->summed.size[inner], step = w->summed.stride[0][inner];
    for (int64_t o = from; o < to; o++) {
        int64_t n = w->kept.size[w->kept.rank - 1];
        double sum = 0;
        loops_seek(&w->kept, o / n, base);
        base[0] += o % n * w->kept.stride[0][w->kept.rank - 1];
        for (int64_t r = 0; r < each / last; r++) {
            loops_seek(&w->summed, r, at);
            const float *x = w->job->x + base[0] + at[0];
            if (step == 1)
                sum += (double)sum_run(x, last);
            else
                for (int64_t i = 0; i < last; i++)
                    sum += (double)x[i * step];
        }
        put_sums(w->job, w->job->y + o, (const float[]){(float)sum}, 1);
    }
}

/* x summed to the shape `narrow` (axes of size 1 kept), times factor. */
static void sum_to_shape(const struct sl_cpu_call *call, const struct sl_shape *narrow,
                         float factor) {
    const struct sl_shape *wide = &call->instr->in[0].shape;
    struct sum_job job = {.call = call, .x = call->in[0], .y = call->out[0], .factor = factor};
    struct walk_job walk = {&job, {0}, {0}};
    int64_t stride[SL_MAX_RANK], size[SL_MAX_RANK + 2] = {1, 1, 1},
                                                    next = sl_graph_shape_numel(wide, 1);
    int count = 0; /* size: kept, summed, kept, ... in turn, beginning with kept */
    broadcast_strides(narrow, wide, stride);
    for (int i = 0; i < wide->rank; i++) {
        bool summed = stride[i] == 0;
        next /= wide->dim[i];
        if (wide->dim[i] == 1)
            continue;
        loops_add(summed ? &walk.summed : &walk.kept, wide->dim[i], next, 0);
        if (summed == (count % 2 == 0))
            size[++count] = 1;
        size[count] *= wide->dim[i];
    }
    loops_close(&walk.summed);
    loops_close(&walk.kept);
    job.outer = size[0];
    job.rows = size[1];
    job.n = size[2];
    if (count <= 2)
        sum_items(&job);
    else if (sl_graph_shape_numel(wide, 1) < SMALL)
        walk_part(&walk, 0, 1);
    else
        sl_pool_share(call->pool, walk_part, &walk);
}

static void k_sum_to(const struct sl_cpu_call *call) {
    sum_to_shape(call, &call->instr->out[0].shape, 1);
}

static void reduce(const struct sl_cpu_call *call, float factor) {
    struct sl_shape narrow = call->instr->in[0].shape;
    const struct sl_ints *axes = &call->instr->attr[0].ints;
    for (int i = 0; i < axes->count; i++)
        narrow.dim[axes->at[i]] = 1;
    sum_to_shape(call, &narrow, factor);
}

static void k_reduce_sum(const struct sl_cpu_call *call) { reduce(call, 1); }

static void k_reduce_mean(const struct sl_cpu_call *call) {
    reduce(call, (float)numel_out(call, 0) / (float)numel_in(call, 0));
}

#endif
