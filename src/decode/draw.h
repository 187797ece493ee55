/* Drawing a token from scores. */
#ifndef SL_DECODE_DRAW_H
#define SL_DECODE_DRAW_H

#include <stdint.h>

struct sl_decode_draw {
    double temperature; /* 0: always the most probable token */
    int64_t top;        /* draw from so many tokens with the highest scores; 0: all */
    double top_p;       /* and from the fewest whose probabilities reach this sum; 0 or 1: all */
    int64_t seed;
};

/* Draw number `number` of a sequence. The same scores and numbers give the same token. */
int32_t sl_decode_draw_token(const struct sl_decode_draw *how, const float *scores, int64_t vocab,
                             int64_t sequence, int64_t number);

#endif
