/* Internal ops of lstm's backward pass: the gradient through time, and y shifted by one step. */
#include "op/common.h"

#include <math.h>
#include <string.h>

enum { GATES, C, W_HH, C0, DY, DC };

static sl_err infer_dgates(struct sl_infer *c) {
    const struct sl_shape *cell = &c->in[C];
    c->out[0] = c->in[GATES];
    c->out[1] = c->out[2] = SL_SHAPE(2, cell->batch, cell->dim[0], cell->dim[2]);
    return SL_OK;
}

static double flops_dgates(const struct sl_op_view *v) {
    double cells = (double)sl_op_numel(&v->in[C]);
    return 8.0 * cells * (double)v->in[C].dim[2] + 25.0 * cells;
}

/* The state of one sample while the steps run backward. */
struct cell {
    int64_t h;
    /* values at this step; before, dy, dc: NULL means zero */
    const double *gates, *c, *before, *dy, *dc;
    double *da; /* [4H] */
    /* [H] gradient from step t+1, which is replaced by the one for step t-1 */
    double *carry_h, *carry_c;
};

/*  dc += dh o (1 - tanh(c)^2);  di = dc g, df = dc c[t-1], dg = dc i, do = dh tanh(c) */
static void step_back(const struct cell *z, const double *w_hh) {
    const double *i = z->gates, *f = i + z->h, *g = f + z->h, *o = g + z->h;
    for (int64_t j = 0; j < z->h; j++) {
        double squashed = tanh(z->c[j]);
        double dh = z->carry_h[j] + (z->dy ? z->dy[j] : 0);
        double dc = z->carry_c[j] + (z->dc ? z->dc[j] : 0) + dh * o[j] * (1 - squashed * squashed);
        z->da[j] = dc * g[j] * i[j] * (1 - i[j]);
        z->da[z->h + j] = dc * (z->before ? z->before[j] : 0) * f[j] * (1 - f[j]);
        z->da[2 * z->h + j] = dc * i[j] * (1 - g[j] * g[j]);
        z->da[3 * z->h + j] = dh * squashed * o[j] * (1 - o[j]);
        z->carry_c[j] = dc * f[j];
    }
    for (int64_t j = 0; j < z->h; j++) {
        z->carry_h[j] = 0;
        for (int64_t row = 0; row < 4 * z->h; row++)
            z->carry_h[j] += z->da[row] * w_hh[row * z->h + j];
    }
}

static void ref_dgates(const struct sl_ref *r) {
    const int64_t *dim = r->in[C].shape.dim;
    int64_t steps = dim[1], h = dim[2];
    for (int i = 1; i < 3; i++)
        memset(r->out[i].f, 0, sizeof(double) * (size_t)(dim[0] * h));
    for (int64_t b = 0; b < dim[0]; b++)
        for (int64_t t = steps - 1; t >= 0; t--) {
            int64_t at = b * steps + t;
            const double *c = r->in[C].f + at * h;
            struct cell cell = {
                .h = h,
                .gates = r->in[GATES].f + at * 4 * h,
                .c = c,
                .before = t ? c - h : (r->in[C0].f ? r->in[C0].f + b * h : NULL),
                .dy = r->in[DY].f ? r->in[DY].f + at * h : NULL,
                .dc = r->in[DC].f ? r->in[DC].f + at * h : NULL,
                .da = r->out[0].f + at * 4 * h,
                .carry_h = r->out[1].f + b * h,
                .carry_c = r->out[2].f + b * h,
            };
            step_back(&cell, r->in[W_HH].f);
        }
}

SL_OP_ROW(lstm_dgates, "gradient of an lstm's gates before their non-linearity, through time",
          "gates c w_hh c0? dy? dc?", "dgates dh0 dc0", .internal = true, .layer = SL_LAYER_LSTM,
          .exact_out = 7, .infer = infer_dgates, .flops = flops_dgates, .ref = ref_dgates)

/* Shifts y: output at step t is y at step t-1; at step 0 it is h0, or zero without h0. */
static void ref_hprev(const struct sl_ref *r) {
    const int64_t *dim = r->in[0].shape.dim;
    size_t row = sizeof(double) * (size_t)dim[2];
    for (int64_t b = 0; b < dim[0]; b++) {
        double *out = r->out[0].f + b * dim[1] * dim[2];
        memset(out, 0, row);
        if (r->in[1].f)
            memcpy(out, r->in[1].f + b * dim[2], row);
        memcpy(out + dim[2], r->in[0].f + b * dim[1] * dim[2], row * (size_t)(dim[1] - 1));
    }
}

SL_OP_ROW(lstm_hprev, "the output of an lstm, shifted by one step", "y h0?", "shifted",
          .internal = true, .layer = SL_LAYER_LSTM, .exact_out = 1, .infer = sl_op_infer_same,
          .flops = sl_op_flops_none, .ref = ref_hprev)
