/* conv2d. Threads take groups of images; with fewer images than threads they divide the channels of
 * the result. */
#include "device/cpu/product/conv2d.h"

#include "device/cpu/kernels.h"

static void conv_bias(const struct sl_conv_job *job, int64_t b, const struct sl_gemm_part *part,
                      int64_t group) {
    const struct sl_conv *v = &job->v;
    for (int64_t o = group * v->og + part->m0; o < group * v->og + part->m1; o++) {
        float *y = job->y + (b * v->o + o) * v->pixels;
        for (int64_t i = 0; i < v->pixels; i++)
            y[i] = job->bias[o];
    }
}

/* Computes channels [m0, m1) of every group, for images [b, b + count). */
static void conv_images(const struct sl_conv_job *job, const struct sl_conv_room *room, int64_t b,
                        int64_t count, struct sl_gemm_part part) {
    const struct sl_conv *v = &job->v;
    struct sl_conv_source source = conv_source_of(room);
    for (int64_t group = 0; group < v->groups; group++) {
        struct sl_gemm_spec g = {
            .m = v->og,
            .n = count * v->pixels,
            .k = v->taps,
            .a = {job->w + group * v->og * v->taps, v->taps, false},
            .pack_b = conv_pack_pixels,
            .source = &source,
            .c = job->y + (b * v->o + group * v->og) * v->pixels,
            .ldc = v->pixels,
            .image = v->pixels,
            .image_step = v->o * v->pixels,
            .add = job->add || job->bias,
        };
        conv_pad_images(v, job->x, b, count, group * v->cg, room->x);
        for (int64_t i = 0; job->bias && i < count; i++)
            conv_bias(job, b + i, &part, group);
        part.n1 = g.n;
        gemm_run_part(&g, &part, room->gemm);
    }
}

static void conv_part(void *ctx, int thread, int threads) {
    const struct sl_conv_job *job = ctx;
    const struct sl_conv *v = &job->v;
    struct sl_gemm_part part = {0, v->og, 0, 0};
    struct sl_conv_room room = conv_room_open(v, job->scratch + thread * job->scratch_step);
    bool few = v->b < threads;
    int64_t pieces = (v->b + v->images - 1) / v->images;
    if (few)
        sl_device_pool_range(v->og, 1, thread, threads, &part.m0, &part.m1);
    for (int64_t i = 0; few && i < pieces && part.m0 < part.m1; i++)
        conv_images(job, &room, i * v->images, min_i64(v->images, v->b - i * v->images), part);
    for (int64_t i; !few && (i = sl_device_pool_take(job->pool, pieces, thread)) >= 0;)
        conv_images(job, &room, i * v->images, min_i64(v->images, v->b - i * v->images), part);
}

/* CONV_PIECES: groups of images per thread, at least, if there are several threads. CONV_PIXELS:
 * results per channel in a group, so many that packing the weights pays. */
enum { CONV_PIECES = 4, CONV_PIXELS = 512 };

/* Chooses the size of a group of images. It does not change a bit, because every sum runs over the
 * taps of one pixel. */
static struct sl_conv conv_grouped(const struct sl_conv *v, int threads) {
    struct sl_conv grouped = *v;
    int64_t pieces = CONV_PIECES * threads, each = (v->b + threads - 1) / threads;
    if (threads > 1)
        grouped.images = min_i64(min_i64(v->images, each),
                                 max_i64((v->b + pieces - 1) / pieces, CONV_PIXELS / v->pixels));
    return grouped;
}

int64_t conv_floats(const struct sl_conv *v, int threads) {
    struct sl_conv grouped = conv_grouped(v, threads);
    return conv_room_floats(&grouped, v->og, grouped.images * v->pixels, v->taps);
}

void conv_run(struct sl_conv_job *job) {
    int threads = sl_device_pool_threads(job->pool);
    job->scratch_step = conv_floats(&job->v, threads);
    job->v = conv_grouped(&job->v, threads);
    sl_device_pool_run(job->pool, conv_part, job);
}

static void conv2d(const struct sl_device_cpu_call *call) {
    const struct sl_instr *instr = call->instr;
    conv_run(&(struct sl_conv_job){
        .v = conv_of(instr->attr, &instr->in[0].shape, &instr->in[1].shape, &instr->out[0].shape),
        .pool = call->pool,
        .x = call->in[0],
        .w = call->in[1],
        .bias = call->in[2],
        .y = call->out[0],
        .add = call->add,
        .scratch = call->scratch,
    });
}

static int64_t conv2d_scratch(const struct sl_instr *instr, int threads) {
    struct sl_conv v =
        conv_of(instr->attr, &instr->in[0].shape, &instr->in[1].shape, &instr->out[0].shape);
    return 4 * threads * conv_floats(&v, threads);
}

const struct sl_device_cpu_kernel SL_ISA_NAME(conv2d_kernels)[] = {
    {"conv2d", conv2d, conv2d_scratch},
    {0},
};
