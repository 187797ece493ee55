/* conv2d_dx. With stride 1 it is a convolution of dy with reversed kernels. With larger strides it
 * computes w' dy for each tap, as [taps, pixels] of a group of images, and adds it at the places of
 * the taps. */
#include "device/cpu/kernels.h"
#include "device/cpu/product/conv2d.h"

#include <string.h>

/* ---- strides above 1 ---- */

/* Adds one tap of one image: dx[row s + k d - p][column ...] += taps. */
static void add_tap(const struct sl_conv *v, const float *from, int64_t tap, float *dx) {
    int64_t k = tap / v->kw % v->kh, l = tap % v->kw;
    float *plane = dx + tap / (v->kh * v->kw) * v->h * v->w;
    for (int64_t i = 0; i < v->oh; i++) {
        int64_t row = i * v->stride[0] + k * v->dilation[0] - v->pad[0];
        if (row < 0 || row >= v->h)
            continue;
        int64_t shift = l * v->dilation[1] - v->pad[1], s = v->stride[1];
        int64_t first = shift < 0 ? (-shift + s - 1) / s : 0;
        int64_t end = v->w > shift ? min_i64(v->ow, (v->w - shift + s - 1) / s) : 0;
        float *to = plane + row * v->w + shift;
        for (int64_t j = first; j < end; j++)
            to[j * s] += from[i * v->ow + j];
    }
}

/* Adds all taps of one image, [groups * taps, pixels]. */
static void add_taps(const struct sl_conv_job *job, const float *taps, float *dx) {
    const struct sl_conv *v = &job->v;
    if (!job->add)
        memset(dx, 0, sizeof(float) * (size_t)(v->c * v->h * v->w));
    for (int64_t tap = 0; tap < v->groups * v->taps; tap++)
        add_tap(v, taps + tap * v->pixels, tap, dx);
}

/* w' dy as a convolution of dy with kernels of one pixel. Every group of images packs the weights.
 * So a group has several images, but not more than a cache holds. With few taps grouping does not
 * pay, and gemm_run_part would treat a group differently from an image. */
enum { DX_PIXELS = 256 };

static struct sl_conv conv_per_tap(const struct sl_conv *v, int threads) {
    struct sl_conv t = {.b = v->b,
                        .c = v->o,
                        .h = v->oh,
                        .w = v->ow,
                        .o = v->groups * v->taps,
                        .oh = v->oh,
                        .ow = v->ow,
                        .kh = 1,
                        .kw = 1,
                        .stride = {1, 1},
                        .dilation = {1, 1},
                        .groups = v->groups};
    int64_t each = (v->b + threads - 1) / threads;
    conv_derive(&t);
    bool grouped = v->kh * v->kw > 1 && v->taps >= AMX_CHANNELS;
    t.images = grouped ? max_i64(1, min_i64(each, DX_PIXELS / t.pixels)) : 1;
    return t;
}

static int64_t dx_floats(const struct sl_conv *t) {
    int64_t n = t->images * t->pixels;
    return round_up(t->o * n, 16) + conv_room_floats(t, t->og, n, t->taps);
}

/* Computes the taps of images [b, b + count). */
static void dx_taps(const struct sl_conv_job *job, const struct sl_conv *t,
                    const struct sl_conv_room *room, int64_t b, int64_t count, float *taps) {
    struct sl_conv_source source = conv_source_of(room);
    for (int64_t group = 0; group < t->groups; group++) {
        struct sl_gemm_spec g = {
            .m = t->og,
            .n = count * t->pixels,
            .k = t->taps,
            .a = {job->w + group * t->og * t->taps, t->og, true},
            .b = {job->x + (b * t->c + group * t->cg) * t->pixels, t->pixels, false},
            .source = &source,
            .c = taps + group * t->og * t->pixels,
            .ldc = t->pixels,
            .image = count > 1 ? t->pixels : 0,
            .image_step = t->o * t->pixels,
        };
        if (count > 1) {
            g.pack_b = conv_pack_pixels;
            conv_pad_images(t, job->x, b, count, group * t->cg, room->x);
        }
        gemm_run_part(&g, &(struct sl_gemm_part){0, g.m, 0, g.n}, room->gemm);
    }
}

/* Threads take groups of images. If there are few groups, some threads stay idle. */
static void dx_part(void *ctx, int thread, int threads) {
    const struct sl_conv_job *job = ctx;
    const struct sl_conv *v = &job->v, t = conv_per_tap(v, threads);
    float *taps = job->scratch + thread * job->scratch_step;
    struct sl_conv_room room = conv_room_open(&t, taps + round_up(t.o * t.images * t.pixels, 16));
    int64_t pieces = (t.b + t.images - 1) / t.images, image = v->c * v->h * v->w;
    for (int64_t i; (i = sl_device_pool_take(job->pool, pieces, thread)) >= 0;) {
        int64_t b = i * t.images, count = min_i64(t.images, t.b - b);
        dx_taps(job, &t, &room, b, count, taps);
        for (int64_t n = 0; n < count; n++)
            add_taps(job, taps + n * t.o * t.pixels, job->y + (b + n) * image);
    }
}

/* ---- stride 1 ---- */

/* Returns the convolution of dy that yields dx. */
static struct sl_conv conv_turned(const struct sl_conv *v) {
    struct sl_conv t = *v;
    t.c = v->o;
    t.o = v->c;
    t.h = v->oh;
    t.w = v->ow;
    t.oh = v->h;
    t.ow = v->w;
    t.pad[0] = v->dilation[0] * (v->kh - 1) - v->pad[0];
    t.pad[1] = v->dilation[1] * (v->kw - 1) - v->pad[1];
    conv_derive(&t);
    return t;
}

static bool turns(const struct sl_conv *v) {
    return v->stride[0] == 1 && v->stride[1] == 1 && v->dilation[0] * (v->kh - 1) >= v->pad[0] &&
           v->dilation[1] * (v->kw - 1) >= v->pad[1];
}

/* Turns [og, cg, KH, KW] of a group into [cg, og, KH, KW] and reverses the taps. It moves TURN x
 * TURN kernels at a time, so that both sides are accessed in whole cache lines. */
enum { TURN = 16 };

struct turn_job {
    const struct sl_conv *v;
    const float *from;
    float *to;
};

static void turn_kernels(const struct turn_job *job, int64_t c, int64_t o0) {
    const struct sl_conv *v = job->v;
    int64_t size = v->kh * v->kw, group = c / v->cg;
    for (int64_t o = o0; o < min_i64(v->og, o0 + TURN); o++) {
        const float *from = job->from + ((group * v->og + o) * v->cg + c % v->cg) * size;
        float *to = job->to + (c * v->og + o) * size;
        for (int64_t k = 0; k < size; k++)
            to[k] = from[size - 1 - k];
    }
}

static void turn_part(void *ctx, int thread, int threads) {
    const struct turn_job *job = ctx;
    int64_t from, to;
    sl_device_pool_range(job->v->c, TURN, thread, threads, &from, &to);
    for (int64_t c0 = from; c0 < to; c0 += TURN)
        for (int64_t o = 0; o < job->v->og; o += TURN)
            for (int64_t c = c0; c < min_i64(to, c0 + TURN); c++)
                turn_kernels(job, c, o);
}

static struct sl_conv conv_of_dx(const struct sl_instr *instr) {
    return conv_of(instr->attr, &instr->out[0].shape, &instr->in[1].shape, &instr->in[0].shape);
}

static void conv2d_dx_turned(const struct sl_device_cpu_call *call, const struct sl_conv *v) {
    float *weights = call->scratch;
    sl_device_pool_share(call->pool, turn_part, &(struct turn_job){v, call->in[1], weights});
    struct sl_conv_job job = {
        .v = conv_turned(v),
        .x = call->in[0],
        .w = weights,
        .y = call->out[0],
        .add = call->add,
        .pool = call->pool,
        .scratch = weights + round_up(v->o * v->taps, 16),
    };
    conv_run(&job);
}

static void conv2d_dx(const struct sl_device_cpu_call *call) {
    struct sl_conv v = conv_of_dx(call->instr);
    if (turns(&v)) {
        conv2d_dx_turned(call, &v);
        return;
    }
    struct sl_conv per_tap = conv_per_tap(&v, sl_device_pool_threads(call->pool));
    struct sl_conv_job job = {
        .v = v,
        .pool = call->pool,
        .x = call->in[0],
        .w = call->in[1],
        .y = call->out[0],
        .add = call->add,
        .scratch = call->scratch,
        .scratch_step = dx_floats(&per_tap),
    };
    sl_device_pool_run(call->pool, dx_part, &job);
}

static int64_t conv2d_dx_scratch(const struct sl_instr *instr, int threads) {
    struct sl_conv v = conv_of_dx(instr);
    struct sl_conv t = turns(&v) ? conv_turned(&v) : conv_per_tap(&v, threads);
    if (!turns(&v))
        return 4 * threads * dx_floats(&t);
    return 4 * (round_up(v.o * v.taps, 16) + threads * conv_floats(&t, threads));
}

const struct sl_device_cpu_kernel SL_ISA_NAME(conv2d_dx_kernels)[] = {
    {"conv2d_dx", conv2d_dx, conv2d_dx_scratch},
    {"conv_transpose2d", conv2d_dx, conv2d_dx_scratch},
    {0},
};
