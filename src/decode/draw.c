#include "decode/draw.h"

#include "base/rng.h"
#include "base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RNG_STREAM = 99 };

static int compare_down(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

static double weight(const struct sl_decode_draw *how, float score, float best) {
    return exp(((double)score - (double)best) / how->temperature);
}

/* Returns the lowest score that may be drawn. */
static float find_cutoff(const struct sl_decode_draw *how, const float *scores, int64_t vocab) {
    bool top = how->top > 0 && how->top<vocab, share = how->top_p> 0 && how->top_p < 1;
    double sum = 0, reached = 0;
    if (!top && !share)
        return -INFINITY;
    float *sorted = sl_realloc(NULL, sizeof *sorted * (size_t)vocab);
    memcpy(sorted, scores, sizeof *sorted * (size_t)vocab);
    qsort(sorted, (size_t)vocab, sizeof *sorted, compare_down);
    int64_t count = top ? how->top : vocab, last = count - 1;
    for (int64_t i = 0; share && i < count; i++)
        sum += weight(how, sorted[i], sorted[0]);
    for (int64_t i = 0; share && i < count; i++) {
        reached += weight(how, sorted[i], sorted[0]);
        if (reached >= how->top_p * sum) {
            last = i;
            break;
        }
    }
    float cutoff = sorted[last];
    free(sorted);
    return cutoff;
}

int32_t sl_decode_draw_token(const struct sl_decode_draw *how, const float *scores, int64_t vocab,
                             int64_t sequence, int64_t number) {
    double sum = 0;
    int64_t best = 0;
    for (int64_t k = 1; k < vocab; k++)
        if (scores[k] > scores[best])
            best = k;
    if (how->temperature <= 0)
        return (int32_t)best;
    float cutoff = find_cutoff(how, scores, vocab);
    for (int64_t k = 0; k < vocab; k++)
        sum += scores[k] >= cutoff ? weight(how, scores[k], scores[best]) : 0;
    double left = sum * sl_rng_uniform((uint64_t)how->seed, (uint64_t)(RNG_STREAM + sequence),
                                       (uint64_t)number);
    for (int64_t k = 0; k < vocab; k++) {
        left -= scores[k] >= cutoff ? weight(how, scores[k], scores[best]) : 0;
        if (left < 0)
            return (int32_t)k;
    }
    return (int32_t)best;
}
