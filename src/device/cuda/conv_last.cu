/* conv2d and its gradients on images with their channels last, by cuDNN graphs.
 *
 *   scratch   [workspace] [image] [image] [filter]
 *
 * An image in the other layout or in fp32 (pixels from the host) is transposed into scratch; its
 * channels are padded with zeros to a multiple of 8. Filters are small and transposed in every
 * call.
 */
#include "device/cuda/conv_last.h"
#include "device/cuda/conv_patch.h"
#include "device/cuda/dnn_graph.h"
#include "device/cuda/turn.cuh"

static const i64 max_workspace = (i64)256 << 20;

enum { X = 1, W, Y };

struct key { /* the key of a plan */
    sl_dnn_convolution conv;
    i64 x[4], w[4], y[4]; /* sizes [B,C,H,W], [K,C,R,S], [B,K,H,W] with padded channels */
    i64 half;             /* enum sl_half */
};

/* The operand of each role: the index of an input, or OUT. */
enum { OUT = -1 };
struct roles {
    sl_dnn_conv what;
    int x, w, y;
};

static roles roles_of(const sl_instr *instr) {
    static const struct {
        const char *kernel;
        roles at;
    } table[] = {{"conv2d_dx", {SL_DNN_CONV_DX, OUT, 1, 0}},
                 {"conv2d_dw", {SL_DNN_CONV_DW, 1, OUT, 0}}};
    for (int i = 0; i < SL_COUNT(table); i++)
        if (strcmp(instr->kernel, table[i].kernel) == 0)
            return table[i].at;
    return {SL_DNN_CONV, 0, 1, OUT};
}

static const sl_operand &operand_of(const sl_instr *instr, int role) {
    return role == OUT ? instr->out[0] : instr->in[role];
}

static i64 up_to_8(i64 n) { return (n + 7) / 8 * 8; }

static key key_of(const sl_instr *instr) {
    roles r = roles_of(instr);
    const union sl_attr *attr = instr->attr;
    key k;
    memset(&k, 0, sizeof k);
    k.conv.what = r.what;
    k.half = sl_half_of(operand_of(instr, r.y).dtype); /* pixels may be fp32, results are not */
    for (int i = 0; i < 2; i++) {
        k.conv.stride[i] = attr[0].ints.at[i];
        k.conv.pad[i] = attr[1].ints.at[i];
        k.conv.gap[i] = attr[2].ints.at[i];
    }
    for (int i = 0; i < 4; i++) {
        k.x[i] = operand_of(instr, r.x).shape.dim[i];
        k.w[i] = operand_of(instr, r.w).shape.dim[i];
        k.y[i] = operand_of(instr, r.y).shape.dim[i];
    }
    k.x[1] = k.w[1] = up_to_8(k.x[1]);
    return k;
}

static sl_dnn_tensor last(const i64 *dim, const key *k) {
    return {NULL,
            sl_half_dnn((int)k->half),
            {dim[0], dim[1], dim[2], dim[3]},
            {dim[1] * dim[2] * dim[3], 1, dim[3] * dim[1], dim[1]}};
}

static void make_graph(sl_dnn_graph *g, const void *of) {
    const key *k = (const key *)of;
    sl_dnn_tensor x = last(k->x, k), w = last(k->w, k), y = last(k->y, k);
    g->exact = true;
    g->max_workspace = max_workspace;
    sl_cuda_dnn_convolve(g, &k->conv, sl_cuda_dnn_memory(g, X, &x), sl_cuda_dnn_memory(g, W, &w),
                         sl_cuda_dnn_memory(g, Y, &y));
}

bool sl_cuda_conv_last_takes(sl_cuda_device *cuda, const sl_instr *instr) {
    roles r = roles_of(instr);
    key k = key_of(instr);
    if (!k.half || sl_cuda_conv_patch_takes(instr) || instr->attr[3].i != 1 ||
        operand_of(instr, r.y).shape.dim[1] % 8)
        return false;
    return sl_cuda_dnn_find(cuda, &k, sizeof k, make_graph) != NULL;
}

/* ---- turning ---- */

struct filter { /* a filter [K,C,R,S]; with channels last and padded, [K,R,S,width] */
    i64 area, channels, width; /* area is R S */
};

static __global__ void turn_filter(array y, array w, filter f, i64 count) {
    GRID_LOOP(i, count) {
        i64 c = i % f.width, at = i / f.width % f.area, k = i / f.width / f.area;
        put(y, i, c < f.channels ? get(w, (k * f.channels + c) * f.area + at) : 0);
    }
}

static __global__ void turn_back(array w, array made, filter f, i64 count, bool add) {
    GRID_LOOP(i, count) {
        i64 at = i % f.area, c = i / f.area % f.channels, k = i / f.area / f.channels;
        put(w, i, get(made, (k * f.area + at) * f.width + c), add);
    }
}

/* ---- running ---- */

struct place { /* offsets in scratch */
    i64 x, y, w, bytes;
};

static i64 padded(i64 bytes) { return (bytes + 255) / 256 * 256; }
static i64 half_bytes(const i64 *dim) { return padded(2 * dim[0] * dim[1] * dim[2] * dim[3]); }

static bool in_place(const sl_cuda_call *call, int role) {
    return role == OUT ? call->last.out & 1 : call->last.in >> role & 1;
}

static place places_of(const sl_cuda_call *call, const key &k, i64 workspace) {
    roles r = roles_of(call->instr);
    place p = {padded(workspace), 0, 0, 0};
    p.y = p.x + (in_place(call, r.x) ? 0 : half_bytes(k.x));
    p.w = p.y + (in_place(call, r.y) ? 0 : half_bytes(k.y));
    p.bytes = p.w + half_bytes(k.w);
    return p;
}

i64 sl_cuda_conv_last_bytes(const sl_cuda_call *call) {
    key k = key_of(call->instr);
    sl_dnn_graph *g = sl_cuda_dnn_find(call->device, &k, sizeof k, make_graph);
    return g ? places_of(call, k, g->workspace_bytes).bytes : 0;
}

/* Returns the image of a role with its channels last. Transposes an input in the other layout into
 * scratch. */
static void *image_at(const sl_cuda_call *call, int role, i64 place, const i64 *dim, i64 half) {
    if (in_place(call, role))
        return role == OUT ? call->out[0] : (void *)call->in[role];
    void *at = (char *)call->scratch + place;
    if (role == OUT)
        return at;
    i64 plane = dim[2] * dim[3];
    turning z = {dim[0] * plane, plane, call->instr->in[role].shape.dim[1], dim[1]};
    to_last<<<turning_blocks(z), THREADS, 0, call->stream>>>(array{at, (int)half},
                                                             in_array(call, role), z);
    return at;
}

static __global__ void add_bias(array y, array bias, i64 count, i64 channels) {
    GRID_LOOP(i, count) put(y, i, get(y, i) + get(bias, i % channels));
}

static void finish(const sl_cuda_call *call, const key &k, void *at, const roles &r) {
    const sl_operand &out = call->instr->out[0];
    array made = {at, (int)k.half};
    const i64 *dim = r.what == SL_DNN_CONV_DX ? k.x : k.y;
    i64 plane = dim[2] * dim[3];
    turning z = {dim[0] * plane, plane, out.shape.dim[1], dim[1]};
    filter f = {k.w[2] * k.w[3], out.shape.dim[1], k.w[1]};
    if (r.what == SL_DNN_CONV_DW)
        turn_back<<<blocks_for(out.numel, THREADS), THREADS, 0, call->stream>>>(
            out_array(call, 0), made, f, out.numel, call->add);
    else if (!in_place(call, OUT))
        from_last<<<turning_blocks(z), THREADS, 0, call->stream>>>(out_array(call, 0), made, z,
                                                                   call->add);
}

sl_err sl_cuda_conv_last(const sl_cuda_call *call) {
    const sl_instr *instr = call->instr;
    roles r = roles_of(instr);
    key k = key_of(instr);
    sl_dnn_graph *g = sl_cuda_dnn_find(call->device, &k, sizeof k, make_graph);
    if (!g)
        return sl_fail(SL_ERR_REFUSED, "cuDNN has no convolution of this shape");
    place p = places_of(call, k, g->workspace_bytes);
    sl_dnn_binding b = {};
    void *w = (char *)call->scratch + p.w;
    void *x = image_at(call, r.x, p.x, k.x, k.half), *y = image_at(call, r.y, p.y, k.y, k.half);
    if (r.w != OUT) {
        filter f = {k.w[2] * k.w[3], instr->in[r.w].shape.dim[1], k.w[1]};
        i64 count = k.w[0] * f.area * f.width;
        turn_filter<<<blocks_for(count, THREADS), THREADS, 0, call->stream>>>(
            array{w, (int)k.half}, in_array(call, r.w), f, count);
    }
    sl_cuda_dnn_bind(&b, X, x);
    sl_cuda_dnn_bind(&b, W, w);
    sl_cuda_dnn_bind(&b, Y, y);
    b.workspace = call->scratch;
    SL_TRY(SL_CUDNN(cudnnSetStream(call->device->dnn, call->stream)));
    SL_TRY(sl_cuda_dnn_run(g, call->device->dnn, &b));
    if (r.what == SL_DNN_CONV && instr->in_count > 2 && call->in[2]) {
        i64 count = k.y[0] * k.y[1] * k.y[2] * k.y[3];
        add_bias<<<blocks_for(count, THREADS), THREADS, 0, call->stream>>>(
            array{y, (int)k.half}, in_array(call, 2), count, k.y[1]);
    }
    finish(call, k, r.what == SL_DNN_CONV_DX ? x : r.what == SL_DNN_CONV_DW ? w : y, r);
    return launched(call);
}
