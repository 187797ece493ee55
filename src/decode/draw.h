/* Draws a token from scores. */
#ifndef SL_DECODE_DRAW_H
#define SL_DECODE_DRAW_H

#include <stdint.h>

struct sl_decode_draw {
    double temperature; /* 0: always take the most probable token */
    int64_t top;        /* draw from this many tokens with the highest scores; 0: from all */
    /* and from the fewest tokens whose probabilities reach this sum; 0 or 1: from all */
    double top_p;
    int64_t seed;
};

/* Makes draw number `number` of a sequence. The same scores and numbers give the same token. */
int32_t sl_decode_draw_token(const struct sl_decode_draw *how, const float *scores, int64_t vocab,
                             int64_t sequence, int64_t number);

#endif
