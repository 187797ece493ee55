/* conv2d_dw: dw [og, taps] = dy x_at', added up over groups of images in order. */
#include "device/cpu/kernels.h"
#include "device/cpu/product/conv2d.h"

struct dw_job {
    struct sl_conv v;
    struct sl_device_pool *pool;
    const float *dy, *x;
    float *dw;
    bool add;
    float *scratch;
    int64_t scratch_step;
};

static int64_t dw_floats(const struct sl_conv *v) {
    return conv_room_floats(v, v->og, v->taps, v->images * v->pixels);
}

/* Multiplies rows of dy with the taps of channels [c0, c1) of every group. */
static void dw_channels(const struct dw_job *job, float *scratch, int64_t c0, int64_t c1,
                        struct sl_gemm_part part) {
    const struct sl_conv *v = &job->v;
    int64_t size = v->kh * v->kw;
    struct sl_conv some = *v; /* a copy that pads only these channels */
    some.cg = c1 - c0;
    some.taps = part.n1 = some.cg * size;
    struct sl_conv_room room = conv_room_open(&some, scratch);
    for (int64_t b = 0; b < v->b && part.m0 < part.m1; b += v->images)
        for (int64_t group = 0; group < v->groups; group++) {
            int64_t count = min_i64(v->images, v->b - b);
            struct sl_conv_source source = conv_source_of(&room);
            struct sl_gemm_spec g = {
                .m = v->og,
                .n = part.n1,
                .k = count * v->pixels,
                .pack_a = conv_pack_dy,
                .pack_b = conv_pack_taps,
                .source = &source,
                .c = job->dw + group * v->og * v->taps + c0 * size,
                .ldc = v->taps,
                .add = job->add || b > 0,
            };
            source.dy = job->dy + (b * v->o + group * v->og) * v->pixels;
            source.pixels = v->pixels;
            source.dy_step = v->o * v->pixels;
            conv_pad_images(&some, job->x, b, count, group * v->cg + c0, room.x);
            gemm_run_part(&g, &part, room.gemm);
        }
}

/* Threads take pieces of the channels of x. Every piece packs all of dy, so there are more pieces
 * than threads only if dy has few channels. If x has few channels, the threads divide the channels
 * of dy instead. */
static void dw_part(void *ctx, int thread, int threads) {
    const struct dw_job *job = ctx;
    const struct sl_conv *v = &job->v;
    struct sl_gemm_part part = {0, v->og, 0, 0};
    float *scratch = job->scratch + thread * job->scratch_step;
    int64_t from = 0, to = v->cg;
    bool fine = threads > 1 && v->cg >= 16 * threads && v->og < AMX_CHANNELS;
    int pieces = fine ? 2 * threads : threads;
    if (v->cg < 8 * threads) {
        sl_device_pool_range(v->og, 1, thread, threads, &part.m0, &part.m1);
        dw_channels(job, scratch, from, to, part);
        return;
    }
    for (int64_t i; (i = sl_device_pool_take(job->pool, pieces, thread)) >= 0;) {
        sl_device_pool_range(v->cg, 1, (int)i, pieces, &from, &to);
        dw_channels(job, scratch, from, to, part);
    }
}

static struct sl_conv conv_of_dw(const struct sl_instr *instr) {
    return conv_of(instr->attr, &instr->in[1].shape, &instr->out[0].shape, &instr->in[0].shape);
}

static void conv2d_dw(const struct sl_device_cpu_call *call) {
    struct dw_job job = {
        .v = conv_of_dw(call->instr),
        .pool = call->pool,
        .dy = call->in[0],
        .x = call->in[1],
        .dw = call->out[0],
        .add = call->add,
        .scratch = call->scratch,
    };
    job.scratch_step = dw_floats(&job.v);
    sl_device_pool_run(call->pool, dw_part, &job);
}

static int64_t conv2d_dw_scratch(const struct sl_instr *instr, int threads) {
    struct sl_conv v = conv_of_dw(instr);
    return 4 * threads * dw_floats(&v);
}

const struct sl_device_cpu_kernel SL_ISA_NAME(conv2d_dw_kernels)[] = {
    {"conv2d_dw", conv2d_dw, conv2d_dw_scratch},
    {0},
};
