/* Sizes of convolutions, and packing of images for the tiles.
 *
 * Neighbouring pixels are loaded together: in whole vectors, halves or quarters of one (images 16,
 * 8 or 4 wide), else one by one. */
#include "device/cpu/product/conv2d.h"

#include "device/cpu/vec_transpose.h"

enum { GROUP_PIXELS = 1024 };

void conv_derive(struct sl_conv *v) {
    v->cg = v->c / v->groups;
    v->og = v->o / v->groups;
    v->hp = v->h + 2 * v->pad[0];
    v->wp = round_up(v->w + 2 * v->pad[1], v->stride[1]);
    v->pixels = v->oh * v->ow;
    v->taps = v->cg * v->kh * v->kw;
    v->images = max_i64(1, min_i64(v->b, GROUP_PIXELS / v->pixels));
}

struct sl_conv conv_of(const union sl_attr *attr, const struct sl_shape *x,
                       const struct sl_shape *w, const struct sl_shape *y) {
    struct sl_conv v = {
        .b = x->dim[0],
        .c = x->dim[1],
        .h = x->dim[2],
        .w = x->dim[3],
        .o = y->dim[1],
        .oh = y->dim[2],
        .ow = y->dim[3],
        .kh = w->dim[2],
        .kw = w->dim[3],
        .groups = attr[3].i,
    };
    for (int i = 0; i < 2; i++) {
        v.stride[i] = attr[0].ints.at[i];
        v.pad[i] = attr[1].ints.at[i];
        v.dilation[i] = attr[2].ints.at[i];
    }
    conv_derive(&v);
    return v;
}

int64_t conv_room_floats(const struct sl_conv *v, int64_t m, int64_t n, int64_t k) {
    return round_up(v->images * v->pixels, 16) + round_up(v->taps, 16) +
           round_up(v->images * v->cg * v->hp * v->wp, 16) +
           round_up(gemm_part_floats(m, n, k), 16);
}

/* Returns the offset of a column of a padded image in its row. */
static INLINE int64_t column_at(const struct sl_conv *v, int64_t column) {
    int64_t s = v->stride[1];
    return column % s * (v->wp / s) + column / s;
}

struct sl_conv_room conv_room_open(const struct sl_conv *v, float *scratch) {
    struct sl_conv_room room = {.pixel_at = (int32_t *)(void *)scratch};
    room.tap_at = room.pixel_at + round_up(v->images * v->pixels, 16);
    room.x = scratch + round_up(v->images * v->pixels, 16) + round_up(v->taps, 16);
    room.gemm = room.x + round_up(v->images * v->cg * v->hp * v->wp, 16);
    int64_t at = 0;
    for (int64_t i = 0; i < v->images; i++)
        for (int64_t r = 0; r < v->oh; r++)
            for (int64_t q = 0; q < v->ow; q++)
                room.pixel_at[at++] = (int32_t)((i * v->cg * v->hp + r * v->stride[0]) * v->wp + q);
    at = 0;
    for (int64_t c = 0; c < v->cg; c++)
        for (int64_t r = 0; r < v->kh; r++)
            for (int64_t q = 0; q < v->kw; q++)
                room.tap_at[at++] = (int32_t)((c * v->hp + r * v->dilation[0]) * v->wp +
                                              column_at(v, q * v->dilation[1]));
    return room;
}

/* Copies one row of an image into its padded row. Columns are sorted by their remainder modulo the
 * stride. */
static INLINE void pad_row(const struct sl_conv *v, const float *row, float *to) {
    int64_t s = v->stride[1], pad = v->pad[1];
    for (int64_t rest = 0; rest < s; rest++) {
        int64_t first = (rest - pad % s + s) % s;
        float *out = to + rest * (v->wp / s) + (first + pad) / s;
        for (int64_t q = first; q < v->w; q += s)
            *out++ = row[q];
    }
}

void conv_pad_images(const struct sl_conv *v, const float *x, int64_t from, int64_t count,
                     int64_t c, float *to) {
    for (int64_t i = 0; i < count * v->cg; i++) {
        const float *plane = x + ((from + i / v->cg) * v->c + c + i % v->cg) * v->h * v->w;
        float *out = to + i * v->hp * v->wp;
        memset(out, 0, sizeof(float) * (size_t)(v->hp * v->wp));
        out += v->pad[0] * v->wp;
        for (int64_t r = 0; r < v->h; r++, out += v->wp, plane += v->w) {
            if (v->stride[1] == 1)
                memcpy(out + v->pad[1], plane, sizeof(float) * (size_t)v->w);
            else
                pad_row(v, plane, out);
        }
    }
}

void conv_pack_dy(const struct sl_gemm_spec *g, const int64_t at[4], float *to) {
    const struct sl_conv_source *s = g->source;
    int64_t rows = at[PACK_COUNT];
    for (int64_t k = 0, run; k < at[PACK_KC]; k += run) {
        int64_t p = at[PACK_P] + k, in_image = p % s->pixels;
        run = min_i64(at[PACK_KC] - k, s->pixels - in_image);
        gemm_pack_turned(s->dy + p / s->pixels * s->dy_step + at[PACK_AT] * s->pixels + in_image,
                         s->pixels, rows, run, to + k * rows, rows);
    }
}

typedef float half_vector __attribute__((vector_size(SL_ISA_VEC_BYTES / 2), aligned(4), may_alias));
typedef float quarter_vector
    __attribute__((vector_size(SL_ISA_VEC_BYTES / 4), aligned(4), may_alias));

/* Length of the runs of neighbours among LANES pixels: LANES, LANES / 2, LANES / 4 or 1. */
static int run_of(const int32_t *pixel) {
    bool whole = true, half = true, quarter = true;
    for (int i = 1; i < LANES; i++) {
        bool next = pixel[i] == pixel[i - 1] + 1;
        whole = whole && next;
        half = half && (next || i == LANES / 2);
        quarter = quarter && (next || i % (LANES / 4) == 0);
    }
    return whole ? LANES : half ? LANES / 2 : quarter && LANES > 4 ? LANES / 4 : 1;
}

/* Copies LANES pixels of one tap. */
static INLINE void copy_pixels(const float *from, const int32_t *pixel, int run, float *to) {
    if (run == LANES) {
        store(to, load(from + pixel[0]));
    } else if (run == LANES / 2) {
        for (int i = 0; i < LANES; i += LANES / 2)
            *(half_vector *)(to + i) = *(const half_vector *)(from + pixel[i]);
    } else if (run == LANES / 4) {
        for (int i = 0; i < LANES; i += LANES / 4)
            *(quarter_vector *)(to + i) = *(const quarter_vector *)(from + pixel[i]);
    } else {
        for (int i = 0; i < LANES; i++)
            to[i] = from[pixel[i]];
    }
}

static INLINE void copy_taps(const struct sl_gemm_spec *g, const int64_t at[4],
                             const int32_t *pixel, int run, float *to) {
    const struct sl_conv_source *s = g->source;
    const int32_t *tap = s->tap_at + at[PACK_P];
    int64_t step = round_up(at[PACK_COUNT], LANES);
    for (int64_t k = 0; k < at[PACK_KC]; k++)
        copy_pixels(s->x + tap[k], pixel, run, to + k * step);
}

void conv_pack_pixels(const struct sl_gemm_spec *g, const int64_t at[4], float *to) {
    const struct sl_conv_source *s = g->source;
    int64_t cols = at[PACK_COUNT];
    for (int64_t j = 0; j < cols; j += LANES) {
        int32_t pixel[LANES]; /* lanes past the end repeat the first pixel */
        for (int64_t i = 0; i < LANES; i++)
            pixel[i] = s->pixel_at[at[PACK_AT] + j + (i < cols - j ? i : 0)];
        switch (run_of(pixel)) {
        case LANES: copy_taps(g, at, pixel, LANES, to + j); break;
        case LANES / 2: copy_taps(g, at, pixel, LANES / 2, to + j); break;
        case LANES / 4: copy_taps(g, at, pixel, LANES / 4, to + j); break;
        default: copy_taps(g, at, pixel, 0, to + j); break;
        }
    }
}

/* Copies LANES pixels of LANES taps, transposed. */
static INLINE void turn_taps(const float *x, const int32_t *tap, const int32_t *pixel, int run,
                             float *to, int64_t step) {
    float rows[LANES][LANES] __attribute__((aligned(SL_ISA_VEC_BYTES)));
    vf v[LANES];
    for (int i = 0; i < LANES; i++)
        copy_pixels(x + tap[i], pixel, run, rows[i]);
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++)
        v[i] = load(rows[i]);
    transpose(v);
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++)
        store(to + i * step, v[i]);
}

void conv_pack_taps(const struct sl_gemm_spec *g, const int64_t at[4], float *to) {
    const struct sl_conv_source *s = g->source;
    int64_t cols = at[PACK_COUNT], kc = at[PACK_KC], step = round_up(cols, LANES);
    const int32_t *pixel = s->pixel_at + at[PACK_P];
    for (int64_t j = 0; j < cols; j += LANES) {
        int32_t tap[LANES];
        for (int64_t i = 0; i < LANES; i++)
            tap[i] = s->tap_at[at[PACK_AT] + j + (i < cols - j ? i : 0)];
        for (int64_t k = 0; k < kc; k += LANES) {
            int run = k + LANES <= kc ? run_of(pixel + k) : 1;
            float *out = to + k * step + j;
            if (run == LANES)
                turn_taps(s->x, tap, pixel + k, LANES, out, step);
            else if (run == LANES / 2)
                turn_taps(s->x, tap, pixel + k, LANES / 2, out, step);
            else if (run > 1)
                turn_taps(s->x, tap, pixel + k, LANES / 4, out, step);
            for (int64_t i = 0; run == 1 && i < min_i64(LANES, kc - k); i++)
                copy_pixels(s->x + pixel[k + i], tap, 0, out + i * step);
        }
    }
}
