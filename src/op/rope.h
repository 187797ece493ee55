/* The attributes of rope, and the angle per position by which it rotates a pair of features. */
#ifndef SL_OP_ROPE_H
#define SL_OP_ROPE_H

#include "graph/op.h"

#include <math.h>

enum {
    SL_ROPE_BASE,
    SL_ROPE_OFFSET,
    SL_ROPE_STYLE,
    SL_ROPE_SCALE,
    SL_ROPE_INVERSE,
    SL_ROPE_RAMP,
    SL_ROPE_LOW,
    SL_ROPE_HIGH,
    SL_ROPE_ATTRS
};
enum { SL_ROPE_HALF, SL_ROPE_INTERLEAVED };
enum { SL_ROPE_NO_RAMP, SL_ROPE_BY_FREQUENCY, SL_ROPE_BY_INDEX };

/* Returns the angle per position of pair i, in heads with d features. */
static inline double sl_op_rope_rate(const union sl_attr *attr, int64_t i, int64_t d) {
    double f = pow(attr[SL_ROPE_BASE].f, -2.0 * (double)i / (double)d);
    double scale = attr[SL_ROPE_SCALE].f, low = attr[SL_ROPE_LOW].f, high = attr[SL_ROPE_HIGH].f;
    if (attr[SL_ROPE_RAMP].i == SL_ROPE_NO_RAMP)
        return scale * f;
    double u = attr[SL_ROPE_RAMP].i == SL_ROPE_BY_FREQUENCY ? f : (double)i;
    return f * (scale + (1 - scale) * fmin(fmax((u - low) / (high - low), 0), 1));
}

#endif
