/* Synthetic samples. Integer draws and exactly rounded arithmetic give the same bits everywhere.
 *
 *   stream    next token x' = 5x + 7 (+ group) mod M with probability 7/8, else any: the loss falls
 *             from ln V to about (ln M) / 8
 *   floats    noise / 2 + template of the class; without classes z0 t0 + z1 t1. Templates of images
 *             are 4 x 4 fields per channel, visible to convolutions and pooling; templates of [T,C]
 *             are constant along T
 *   category  with probability 3/4 one of four values of the group, else any of M
 *   dense     0 outside of a box, 1 + group inside; images are brighter there
 */
#include "data/synth.h"

#include "base/rng.h"

#include <math.h>
#include <string.h>

/* The rules do not depend on the seed of a run, which changes only order and initial weights. */
static const uint64_t world = 0x536c75696365;

enum {
    STREAM_CLASS = 11,
    STREAM_Z = 13,
    STREAM_BOX = 17,
    STREAM_SEQUENCE = 19,
    TOKENS_MAX = 64, /* M: number of different tokens in a stream */
    CATEGORIES_MAX = 256,
    FIELDS = 4,
};

/* Draws four almost normal numbers with mean 0 and variance 1, each the sum of four bytes. */
static void noise4(uint64_t stream, uint64_t index, float out[4]) {
    struct sl_rng_block block = sl_rng_draw(world, stream, index);
    for (int i = 0; i < 4; i++) {
        uint32_t w = block.word[i];
        int sum = (int)((w & 255) + (w >> 8 & 255) + (w >> 16 & 255) + (w >> 24));
        out[i] = (float)(sum - 510) * (1.0f / 147.8f);
    }
}

static float noise_at(uint64_t stream, uint64_t index) {
    float four[4];
    noise4(stream, index >> 2, four);
    return four[index & 3];
}

static float part_at(uint64_t stream, uint64_t index) { /* returns a number in [0, 1) */
    return (float)(sl_rng_u32(world, stream, index) >> 8) * 0x1p-24f;
}

struct sl_data_synth_latent sl_data_synth_latent(const struct sl_synth_set *set, int64_t sample) {
    struct sl_data_synth_latent latent = {0};
    uint64_t n = (uint64_t)sample;
    if (set->has_class) {
        latent.group = (int64_t)(sl_rng_u32(world, STREAM_CLASS, n) % (uint64_t)set->classes);
    } else {
        for (int i = 0; i < 2; i++)
            latent.z[i] = noise_at(STREAM_Z, 2 * n + (uint64_t)i);
        latent.group = (latent.z[0] > 0) + 2 * (latent.z[1] > 0);
    }
    if (set->has_dense) {
        float y = 0.3f + 0.4f * part_at(STREAM_BOX, 4 * n);
        float x = 0.3f + 0.4f * part_at(STREAM_BOX, 4 * n + 1);
        float h = 0.15f + 0.15f * part_at(STREAM_BOX, 4 * n + 2);
        float w = 0.15f + 0.15f * part_at(STREAM_BOX, 4 * n + 3);
        latent.top = y - h;
        latent.bottom = y + h;
        latent.left = x - w;
        latent.right = x + w;
    }
    return latent;
}

static bool in_box(const struct sl_data_synth_latent *latent, float y, float x) {
    return y >= latent->top && y < latent->bottom && x >= latent->left && x < latent->right;
}

/* ---- sequences ---- */

void sl_data_synth_stream(const struct sl_synth_set *set, const struct sl_data_bound *bound,
                          const struct sl_data_ask *ask) {
    const struct sl_seq *seq = &set->seq;
    int32_t base = seq->masked ? 1 : 0, *dst = ask->dst; /* 0 is the mask token */
    uint32_t max = (uint32_t)(seq->draw_below - base);
    uint32_t tokens = max < 1 ? 1 : max < TOKENS_MAX ? max : TOKENS_MAX;
    int64_t skip = bound->role == SL_ROLE_TARGET && !seq->masked ? 1 : 0;
    uint32_t shift = set->shifts ? (uint32_t)(sl_data_synth_latent(set, ask->sample).group & 7) : 0;
    uint64_t first = (uint64_t)ask->sample * (uint64_t)(seq->length / 4 + 1);
    struct sl_rng_block block;
    uint32_t x = 0;
    for (int64_t t = 0; t < seq->length + skip; t++) {
        if (t % 4 == 0)
            block = sl_rng_draw(world, STREAM_SEQUENCE, first + (uint64_t)t / 4);
        uint32_t draw = block.word[t % 4];
        if (t == 0 || (draw & 7) == 0)
            x = (draw >> 3) % tokens;
        else
            x = (5 * x + 7 + shift) % tokens;
        if (t >= skip)
            dst[t - skip] = base + (int32_t)(x < max ? x : 0);
    }
    if (seq->masked)
        sl_data_seq_mask(seq, bound, ask);
}

/* ---- features ---- */

/* The templates of a sample and their weights. */
struct mix {
    int count;
    uint64_t id[2];
    float weight[2];
    uint64_t stream;
};

static struct mix mix_of(const struct sl_synth_set *set, const struct sl_data_synth_latent *latent,
                         uint64_t stream) {
    if (set->has_class)
        return (struct mix){1, {(uint64_t)latent->group}, {1}, stream};
    return (struct mix){2, {0, 1}, {latent->z[0], latent->z[1]}, stream};
}

/* Returns a value of the mixed template. A template has `cells` values; the row length is a
 * multiple of four. */
static float mix_at(const struct mix *mix, uint64_t cells, uint64_t cell) {
    float sum = 0;
    for (int i = 0; i < mix->count; i++)
        sum += mix->weight[i] * noise_at(mix->stream, mix->id[i] * ((cells + 3) & ~3ull) + cell);
    return sum;
}

static void mix_row(const struct mix *mix, uint64_t cells, float *dst) {
    for (uint64_t cell = 0; cell < cells; cell += 4) {
        uint64_t end = cells - cell < 4 ? cells - cell : 4;
        for (int i = 0; i < mix->count; i++) {
            float four[4];
            noise4(mix->stream, (mix->id[i] * ((cells + 3) & ~3ull) + cell) / 4, four);
            for (uint64_t k = 0; k < end; k++)
                dst[cell + k] += mix->weight[i] * four[k];
        }
    }
}

static void add_image(const struct sl_synth_set *set, const struct sl_data_synth_latent *latent,
                      const struct sl_data_bound *bound, const struct mix *mix, float *dst) {
    int rank = bound->want.rank;
    int64_t height = bound->want.dim[rank - 2], width = bound->want.dim[rank - 1];
    int64_t planes = bound->numel / (height * width);
    for (int64_t row = 0; row < planes * height; row++) {
        int64_t y = row % height, field_row = (row / height) * FIELDS + y * FIELDS / height;
        float field[FIELDS];
        for (int64_t i = 0; i < FIELDS; i++)
            field[i] = mix_at(mix, (uint64_t)(planes * FIELDS * FIELDS),
                              (uint64_t)(field_row * FIELDS + i));
        float down = ((float)y + 0.5f) / (float)height;
        for (int64_t x = 0; x < width; x++) {
            float across = ((float)x + 0.5f) / (float)width;
            dst[row * width + x] += field[x * FIELDS / width];
            if (set->has_dense && in_box(latent, down, across))
                dst[row * width + x] += 2;
        }
    }
}

void sl_data_synth_floats(const struct sl_synth_set *set, const struct sl_data_bound *bound,
                          const struct sl_data_ask *ask) {
    float *dst = ask->dst;
    uint64_t stream = set->stream[ask->input], numel = (uint64_t)bound->numel;
    uint64_t first = (uint64_t)ask->sample * ((numel + 3) / 4);
    struct sl_data_synth_latent latent = sl_data_synth_latent(set, ask->sample);
    struct mix mix = mix_of(set, &latent, stream ^ 1);
    for (uint64_t i = 0; i < numel; i += 4) {
        float four[4];
        noise4(stream, first + i / 4, four);
        for (uint64_t k = 0; k < 4 && i + k < numel; k++)
            dst[i + k] = 0.5f * four[k];
    }
    int rank = bound->want.rank;
    if (rank >= 3 || (rank == 2 && bound->role == SL_ROLE_IMAGE)) {
        add_image(set, &latent, bound, &mix, dst);
        return;
    }
    uint64_t columns = rank ? (uint64_t)bound->want.dim[rank - 1] : 1;
    for (uint64_t row = 0; row < numel / columns; row++)
        mix_row(&mix, columns, dst + row * columns);
}

void sl_data_synth_category(const struct sl_synth_set *set, const struct sl_data_bound *bound,
                            const struct sl_data_ask *ask) {
    int32_t *dst = ask->dst;
    uint64_t stream = set->stream[ask->input];
    uint64_t first = (uint64_t)ask->sample * (uint64_t)bound->numel;
    int64_t group = sl_data_synth_latent(set, ask->sample).group;
    int64_t below = bound->want.below ? bound->want.below : CATEGORIES_MAX;
    uint32_t max = (uint32_t)(below < CATEGORIES_MAX ? below : CATEGORIES_MAX);
    for (int64_t i = 0; i < bound->numel; i++) {
        uint32_t draw = sl_rng_u32(world, stream, first + (uint64_t)i);
        if ((draw & 3) == 0)
            dst[i] = (int32_t)((draw >> 4) % max);
        else
            dst[i] =
                (int32_t)(sl_rng_u32(world, stream ^ 1, (uint64_t)group * 4 + (draw >> 2 & 3)) %
                          max);
    }
}

/* ---- labels ---- */

static void dense_label(const struct sl_data_bound *bound,
                        const struct sl_data_synth_latent *latent, void *dst) {
    int rank = bound->want.rank;
    int64_t height = bound->want.dim[rank - 2], width = bound->want.dim[rank - 1];
    int64_t below = bound->want.below ? bound->want.below : 2;
    int32_t inside = below > 1 ? 1 + (int32_t)(latent->group % (below - 1)) : 0;
    for (int64_t i = 0; i < bound->numel; i++) {
        float down = ((float)(i / width % height) + 0.5f) / (float)height;
        bool is = in_box(latent, down, ((float)(i % width) + 0.5f) / (float)width);
        if (bound->want.dtype == SL_DATA_INT)
            ((int32_t *)dst)[i] = is ? inside : 0;
        else
            ((float *)dst)[i] = is ? 1.0f : 0.0f;
    }
}

/* Maps to (0, 1), which suits squared and logistic losses. */
static float squash(float v) { return 0.5f + 0.5f * v / (1 + fabsf(v)); }

void sl_data_synth_label(const struct sl_synth_set *set, const struct sl_data_bound *bound,
                         const struct sl_data_ask *ask) {
    struct sl_data_synth_latent latent = sl_data_synth_latent(set, ask->sample);
    uint64_t stream = set->stream[ask->input];
    struct mix mix = mix_of(set, &latent, stream);
    int64_t below = bound->want.below ? bound->want.below : set->classes;
    for (int64_t i = 0; i < bound->numel; i++) {
        switch (set->how[ask->input]) {
        case SL_SYNTH_CLASS: ((int32_t *)ask->dst)[i] = (int32_t)(latent.group % below); break;
        case SL_SYNTH_CODE:
            ((int32_t *)ask->dst)[i] =
                (int32_t)(sl_rng_u32(world, stream, (uint64_t)(latent.group * bound->numel + i)) %
                          (uint64_t)below);
            break;
        case SL_SYNTH_DENSE: dense_label(bound, &latent, ask->dst); return;
        default:
            ((float *)ask->dst)[i] = squash(3 * mix_at(&mix, (uint64_t)bound->numel, (uint64_t)i));
        }
    }
}
