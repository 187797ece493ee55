/* conv2d and its gradients where filters neither overlap nor leave gaps (patches of an image): one
 * product per part of the batch.
 *
 *   gather   p [images x places, C R S]      y' [images x places, K] has the channels last
 *   y' = p w'      p = y' w      dw += y'' p
 *
 *   scratch  [p] [y'] [dw in fp32]
 */
#include "device/cuda/conv_patch.h"
#include "device/cuda/gemm.h"
#include "device/cuda/turn.cuh"

static const i64 max_bytes = (i64)256 << 20; /* of p */

struct patch {
    unsigned channels, height, width;       /* of the image */
    unsigned rows, cols;                    /* of a filter */
    unsigned down, right;                   /* places */
    i64 filters, features, places, samples; /* features: C R S; samples: of a part */
    int half;
};

/* Each role's operand: index of an input, or OUT. */
enum { OUT = -1 };
struct roles {
    const char *kernel;
    int x, w, y;
};
static const roles table[] = {
    {"conv2d", 0, 1, OUT}, {"conv2d_dx", OUT, 1, 0}, {"conv2d_dw", 1, OUT, 0}};

static const roles *roles_of(const sl_instr *instr) {
    for (const roles &r : table)
        if (strcmp(instr->kernel, r.kernel) == 0)
            return &r;
    return NULL;
}

static const sl_operand &operand_of(const sl_instr *instr, int role) {
    return role == OUT ? instr->out[0] : instr->in[role];
}

static patch patch_of(const sl_instr *instr) {
    const roles *r = roles_of(instr);
    const int64_t *x = operand_of(instr, r->x).shape.dim, *w = operand_of(instr, r->w).shape.dim;
    patch z = {(unsigned)x[1], (unsigned)x[2], (unsigned)x[3], (unsigned)w[2], (unsigned)w[3]};
    z.down = z.height / z.rows;
    z.right = z.width / z.cols;
    z.filters = w[0];
    z.features = w[1] * w[2] * w[3];
    z.places = (i64)z.down * z.right;
    z.half = sl_half_of(operand_of(instr, r->y).dtype); /* pixels may be fp32, results are not */
    i64 each = z.places * z.features * (z.half ? 2 : 4);
    z.samples = max_bytes / each < 1 ? 1 : max_bytes / each;
    z.samples = z.samples < x[0] ? z.samples : x[0];
    return z;
}

bool sl_cuda_conv_patch_takes(const sl_instr *instr) {
    const roles *r = roles_of(instr);
    if (!r)
        return false;
    const union sl_attr *attr = instr->attr;
    const sl_operand &x = operand_of(instr, r->x);
    const int64_t *w = operand_of(instr, r->w).shape.dim;
    for (int i = 0; i < 2; i++)
        if (attr[0].ints.at[i] != w[2 + i] || attr[1].ints.at[i] || attr[2].ints.at[i] != 1)
            return false;
    patch z = patch_of(instr);
    if (r->w != OUT && sl_half_of(instr->in[r->w].dtype) != z.half)
        return false;
    return attr[3].i == 1 && w[2] * w[3] > 1 && z.filters % 8 == 0 && z.features % 8 == 0 &&
           z.places && x.numel < (i64)1 << 32;
}

static i64 padded(i64 bytes) { return (bytes + 255) / 256 * 256; }

struct room {
    array p, y;
    float *dw;
    i64 bytes;
};

static room room_of(const patch &z, void *scratch) {
    i64 each = z.half ? 2 : 4, rows_ = z.samples * z.places;
    i64 p = padded(rows_ * z.features * each), y = padded(rows_ * z.filters * each);
    char *at = (char *)scratch;
    return {{at, z.half},
            {at + p, z.half},
            (float *)(at + p + y),
            p + y + padded(z.filters * z.features * 4)};
}

i64 sl_cuda_conv_patch_bytes(const sl_instr *instr) { return room_of(patch_of(instr), NULL).bytes; }

/* ---- p ---- */

/* The pixel of element i of p. */
static __device__ __forceinline__ unsigned pixel_of(const patch &z, unsigned i) {
    unsigned s = i % z.cols, rest = i / z.cols, r = rest % z.rows;
    rest /= z.rows;
    unsigned c = rest % z.channels;
    rest /= z.channels;
    unsigned right = rest % z.right;
    rest /= z.right;
    unsigned down = rest % z.down, image = rest / z.down;
    return ((image * z.channels + c) * z.height + down * z.rows + r) * z.width + right * z.cols + s;
}

/* V neighbours per thread: rows of a filter are multiples of V. */
template <int V>
static __global__ void gather(array p, array x, i64 first_pixel, patch z, unsigned count) {
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count / V;
         i += gridDim.x * blockDim.x) {
        i64 from = first_pixel + pixel_of(z, V * i);
        for (int k = 0; k < V; k++)
            put(p, (i64)V * i + k, get(x, from + k));
    }
}

/* A thread per pixel of the part; what lies outside all places is 0. */
static __global__ void scatter(array x, array p, i64 first_pixel, patch z, unsigned count,
                               bool add) {
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count;
         i += gridDim.x * blockDim.x) {
        unsigned at_w = i % z.width, rest = i / z.width, at_h = rest % z.height;
        rest /= z.height;
        unsigned c = rest % z.channels, image = rest / z.channels;
        unsigned down = at_h / z.rows, right = at_w / z.cols;
        i64 place = ((i64)image * z.down + down) * z.right + right;
        i64 from =
            (place * z.channels + c) * z.rows * z.cols + at_h % z.rows * z.cols + at_w % z.cols;
        bool inside = down < z.down && right < z.right;
        put(x, first_pixel + i, inside ? get(p, from) : 0, add);
    }
}

static __global__ void finish_dw(array dw, const float *from, i64 count, bool add) {
    GRID_LOOP(i, count) put(dw, i, from[i], add);
}

static __global__ void add_bias(array y, array bias, i64 count, i64 channels) {
    GRID_LOOP(i, count) put(y, i, get(y, i) + get(bias, i % channels));
}

/* ---- parts of the batch ---- */

struct part {
    i64 samples, first;  /* first: sample */
    i64 pixels, results; /* before it */
};

static sl_gemm gemm_of(const patch &z, i64 m, i64 n, i64 k, bool ta, bool tb) {
    sl_gemm g;
    memset(&g, 0, sizeof g);
    g.m = m;
    g.n = n;
    g.k = k;
    g.ta = ta;
    g.tb = tb;
    g.batch = 1;
    g.half_in = g.half_out = z.half;
    g.align = 16;
    sl_cuda_gemm_pack(&g);
    return g;
}

static sl_err multiply(const sl_cuda_call *call, const sl_gemm &g, const void *a, const void *b,
                       void *y, bool add) {
    sl_gemm_io io = {a, b, NULL, y, NULL, NULL, add ? 1.0f : 0.0f, call->stream};
    return sl_cuda_gemm_run(call->device, &g, &io);
}

static array at(array a, i64 element) {
    return {(char *)a.at + element * (a.half ? 2 : 4), a.half};
}

static void bring(const sl_cuda_call *call, const patch &z, const part &now, const room &r,
                  array x) {
    unsigned count = (unsigned)(now.samples * z.places * z.features);
    if (z.cols % 8 == 0)
        gather<8><<<blocks_for(count / 8, THREADS), THREADS, 0, call->stream>>>(r.p, x, now.pixels,
                                                                                z, count);
    else
        gather<1><<<blocks_for(count, THREADS), THREADS, 0, call->stream>>>(r.p, x, now.pixels, z,
                                                                            count);
}

static turning turning_of(const patch &z, const part &now) {
    return {now.samples * z.places, z.places, z.filters, z.filters};
}

static sl_err forward(const sl_cuda_call *call, const patch &z, const part &now, const room &r) {
    i64 rows_ = now.samples * z.places, count = rows_ * z.filters;
    turning t = turning_of(z, now);
    bring(call, z, now, r, in_array(call, 0));
    SL_TRY(multiply(call, gemm_of(z, rows_, z.filters, z.features, false, true), r.p.at,
                    call->in[1], r.y.at, false));
    if (call->instr->in_count > 2 && call->in[2])
        add_bias<<<blocks_for(count, THREADS), THREADS, 0, call->stream>>>(r.y, in_array(call, 2),
                                                                           count, z.filters);
    from_last<<<turning_blocks(t), THREADS, 0, call->stream>>>(at(out_array(call, 0), now.results),
                                                               r.y, t, call->add);
    return launched(call);
}

static sl_err back_x(const sl_cuda_call *call, const patch &z, const part &now, const room &r) {
    i64 rows_ = now.samples * z.places;
    unsigned count = (unsigned)(now.samples * z.channels * z.height * z.width);
    turning t = turning_of(z, now);
    to_last<<<turning_blocks(t), THREADS, 0, call->stream>>>(r.y,
                                                             at(in_array(call, 0), now.results), t);
    SL_TRY(multiply(call, gemm_of(z, rows_, z.features, z.filters, false, false), r.y.at,
                    call->in[1], r.p.at, false));
    scatter<<<blocks_for(count, THREADS), THREADS, 0, call->stream>>>(
        out_array(call, 0), r.p, now.pixels, z, count, call->add);
    return launched(call);
}

static sl_err back_w(const sl_cuda_call *call, const patch &z, const part &now, const room &r) {
    i64 rows_ = now.samples * z.places;
    turning t = turning_of(z, now);
    sl_gemm g = gemm_of(z, z.filters, z.features, rows_, true, false);
    g.half_out = SL_HALF_NOT;
    bring(call, z, now, r, in_array(call, 1));
    to_last<<<turning_blocks(t), THREADS, 0, call->stream>>>(r.y,
                                                             at(in_array(call, 0), now.results), t);
    return multiply(call, g, r.y.at, r.p.at, r.dw, now.first > 0);
}

sl_err sl_cuda_conv_patch(const sl_cuda_call *call) {
    const roles *role = roles_of(call->instr);
    patch z = patch_of(call->instr);
    room r = room_of(z, call->scratch);
    i64 batch = operand_of(call->instr, role->x).shape.dim[0];
    for (i64 b = 0; b < batch; b += z.samples) {
        part now = {batch - b < z.samples ? batch - b : z.samples, b,
                    b * z.channels * z.height * z.width, b * z.filters * z.places};
        SL_TRY((role->x == OUT ? back_x : role->w == OUT ? back_w : forward)(call, z, now, r));
    }
    if (role->w != OUT)
        return SL_OK;
    i64 count = z.filters * z.features;
    finish_dw<<<blocks_for(count, THREADS), THREADS, 0, call->stream>>>(out_array(call, 0), r.dw,
                                                                        count, call->add);
    return launched(call);
}
