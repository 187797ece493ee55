/* gru and rnn: one layer over a sequence, with gates in PyTorch's order. bidirectional: two
 * layers, one of which reads from the end.
 *
 *   x [B,T,I]   w_ih [P H,I]   w_hh [P H,H]   bias_ih, bias_hh [P H]   h0 [B,H] (absent: 0)   y [B,T,H]
 *
 *   gru, P = 3:  r, z = sigmoid(of x and h)   m = w_hn h + bias_hn   n = tanh(of x + r m)
 *                h' = (1 - z) n + z h         gates [B,T,4H] keeps r, z, n, m
 *   rnn, P = 1:  h' = tanh or relu(w_ih x + bias_ih + w_hh h + bias_hh)
 *
 * As in lstm, only the gradient before the non-linearities is serial in time (NAME_dgates). For the
 * gru it differs between the two products: dgates_h has r times the n of dgates_x. */
#include "op/common.h"

#include "graph/graph.h"

#include <math.h>
#include <string.h>

enum { X, W_IH, W_HH, BIAS_IH, BIAS_HH, H0, IN_COUNT };

static sl_err need_shape(const struct sl_infer *c, int i, const struct sl_shape *want) {
    char got[SL_SHAPE_TEXT], expected[SL_SHAPE_TEXT], x[SL_SHAPE_TEXT];
    SL_TRY(sl_op_need_float(c, i));
    if (c->present[i] && !sl_graph_shape_equal(&c->in[i], want))
        return sl_graph_infer_fail(
            c, "input %d must be %s for x %s, it is %s", i, sl_graph_shape_text(want, expected),
            sl_graph_shape_text(&c->in[X], x), sl_graph_shape_text(&c->in[i], got));
    return SL_OK;
}

/* Shape inference; parts: number of gates per unit. */
static sl_err infer_layer(struct sl_infer *c, int64_t parts) {
    char x[SL_SHAPE_TEXT], w[SL_SHAPE_TEXT];
    const struct sl_shape *in = c->in;
    SL_TRY(sl_op_need_float(c, X));
    if (in[X].rank != 3 || (in[X].batch & ~1u) || in[W_HH].rank != 2 || in[W_HH].batch ||
        in[W_HH].dim[1] > SL_MAX_NUMEL / 4)
        return sl_graph_infer_fail(c, "x must be [B,T,I] and w_hh [%lldH,H], they are %s and %s",
                                   (long long)parts, sl_graph_shape_text(&in[X], x),
                                   sl_graph_shape_text(&in[W_HH], w));
    int64_t h = in[W_HH].dim[1];
    struct sl_shape state = SL_SHAPE(2, in[X].batch, in[X].dim[0], h);
    SL_TRY(need_shape(c, W_IH, &SL_SHAPE(2, 0, parts * h, in[X].dim[2])));
    SL_TRY(need_shape(c, W_HH, &SL_SHAPE(2, 0, parts * h, h)));
    SL_TRY(need_shape(c, BIAS_IH, &SL_SHAPE(1, 0, parts * h)));
    SL_TRY(need_shape(c, BIAS_HH, &SL_SHAPE(1, 0, parts * h)));
    SL_TRY(need_shape(c, H0, &state));
    c->out[0] = c->out[1] = in[X];
    c->out[0].dim[2] = h;
    c->out[1].dim[2] = 4 * h;
    return SL_OK;
}

static sl_err infer_gru(struct sl_infer *c) { return infer_layer(c, 3); }
static sl_err infer_rnn(struct sl_infer *c) { return infer_layer(c, 1); }

static double flops(const struct sl_op_view *v) {
    double cells = (double)sl_op_numel(&v->out[0]), parts = v->out_count == 2 ? 3 : 1;
    return 2 * parts * cells * (double)(v->in[X].dim[2] + v->out[0].dim[2]) + 20 * cells;
}

static int product(struct sl_grad *g, int a, int b, bool ta) {
    union sl_attr attr[2] = {{.i = ta}, {.i = false}};
    return sl_graph_grad_emit(g, "matmul", 2, (int[]){a, b}, attr);
}

/* dgates: output that is the gradient of the product with x; its output number `of_h`: that of the
 * product with h; its last output: dh0. */
static int grad_layer(struct sl_grad *g, int input, int dgates, int of_h) {
    int h0 = sl_graph_grad_input(g, H0), dh = sl_graph_grad_output(g, dgates, of_h);
    switch (input) {
    case X: return product(g, dgates, g->in[W_IH], false);
    case W_IH: return product(g, sl_op_grad_rows(g, dgates), sl_op_grad_rows(g, g->in[X]), true);
    case W_HH: {
        int shifted = sl_graph_grad_emit(g, "lstm_hprev", 2, (int[]){g->out[0], h0}, NULL);
        return product(g, sl_op_grad_rows(g, dh), sl_op_grad_rows(g, shifted), true);
    }
    case BIAS_IH: return sl_op_grad_sum_to(g, dgates, g->in[input]);
    case BIAS_HH: return sl_op_grad_sum_to(g, dh, g->in[input]);
    default: return sl_graph_grad_output(g, dgates, of_h + 1);
    }
}

static int grad_gru(struct sl_grad *g, int input) {
    int in[5] = {g->out[1], g->out[0], g->in[W_HH], g->dout[0], sl_graph_grad_input(g, H0)};
    if (!sl_op_grad_flows(g, 1))
        return -1;
    return grad_layer(g, input, sl_graph_grad_emit(g, "gru_dgates", 5, in, NULL), 1);
}

static int grad_rnn(struct sl_grad *g, int input) {
    int in[3] = {g->out[0], g->in[W_HH], g->dout[0]};
    return grad_layer(g, input, sl_graph_grad_emit(g, "rnn_dgates", 3, in, g->attr), 0);
}

static double row_sum(const double *w, const double *x, int64_t n, const double *bias) {
    double sum = bias ? *bias : 0;
    for (int64_t i = 0; x && i < n; i++)
        sum += w[i] * x[i];
    return sum;
}

static double sigmoid(double a) { return 1 / (1 + exp(-a)); }

/* Returns element `row` of w x + bias: of the product with the inputs (x) or with the state (h). */
static double of_x(const struct sl_ref *r, int64_t row, const double *x) {
    int64_t n = r->in[X].shape.dim[2];
    return row_sum(r->in[W_IH].f + row * n, x, n, r->in[BIAS_IH].f ? r->in[BIAS_IH].f + row : NULL);
}
static double of_h(const struct sl_ref *r, int64_t row, const double *h) {
    int64_t n = r->in[W_HH].shape.dim[1];
    return row_sum(r->in[W_HH].f + row * n, h, n, r->in[BIAS_HH].f ? r->in[BIAS_HH].f + row : NULL);
}

static void ref_layer(const struct sl_ref *r, bool gru) {
    const int64_t *x = r->in[X].shape.dim;
    int64_t size = r->out[0].shape.dim[2];
    for (int64_t at = 0; at < x[0] * x[1]; at++) {
        const double *in = r->in[X].f + at * x[2], *h0 = r->in[H0].f;
        double *y = r->out[0].f + at * size;
        const double *h = at % x[1] ? y - size : h0 ? h0 + at / x[1] * size : NULL;
        for (int64_t j = 0; j < size; j++) {
            if (!gru) {
                double a = of_x(r, j, in) + of_h(r, j, h);
                y[j] = r->attr[0].i ? fmax(a, 0) : tanh(a);
                continue;
            }
            double *gates = r->out[1].f + at * 4 * size + j;
            double rr = sigmoid(of_x(r, j, in) + of_h(r, j, h));
            double z = sigmoid(of_x(r, size + j, in) + of_h(r, size + j, h));
            double m = of_h(r, 2 * size + j, h), n = tanh(of_x(r, 2 * size + j, in) + rr * m);
            gates[0] = rr;
            gates[size] = z;
            gates[2 * size] = n;
            gates[3 * size] = m;
            y[j] = (1 - z) * n + (h ? z * h[j] : 0);
        }
    }
}

static void ref_gru(const struct sl_ref *r) { ref_layer(r, true); }
static void ref_rnn(const struct sl_ref *r) { ref_layer(r, false); }

static const struct sl_attr_desc attrs_rnn[] = {{"act", SL_ATTR_ENUM, "tanh", "tanh|relu"}, {0}};

SL_OP_ROW(gru, "one GRU layer over a sequence", "x w_ih w_hh bias_ih? bias_hh? h0?", "y gates",
          .layer = SL_LAYER_LSTM, .exact_out = 3, .infer = infer_gru, .flops = flops,
          .grad = grad_gru, .ref = ref_gru)
SL_OP_ROW(rnn, "one layer of a plain recurrent network", "x w_ih w_hh bias_ih? bias_hh? h0?", "y",
          .attrs = attrs_rnn, .layer = SL_LAYER_LSTM, .exact_out = 1, .infer = infer_rnn,
          .flops = flops, .grad = grad_rnn, .ref = ref_rnn)

/* ---- backward in time; dh: the gradient of y[t] so far ---- */

static sl_err infer_gru_back(struct sl_infer *c) {
    const struct sl_shape *y = &c->in[1];
    c->out[0] = c->out[1] = *y;
    c->out[0].dim[2] = c->out[1].dim[2] = 3 * y->dim[2];
    c->out[2] = SL_SHAPE(2, y->batch, y->dim[0], y->dim[2]);
    return SL_OK;
}

static sl_err infer_rnn_back(struct sl_infer *c) {
    c->out[0] = c->in[0];
    c->out[1] = SL_SHAPE(2, c->in[0].batch, c->in[0].dim[0], c->in[0].dim[2]);
    return SL_OK;
}

static double flops_back(const struct sl_op_view *v) {
    return 2.0 * (double)sl_op_numel(&v->out[0]) * (double)v->in[0].dim[2];
}

/* Adds to carry[j] the sum over rows of da[row] w[row][j]. */
static void carry_back(double *carry, const double *da, const double *w, int64_t rows, int64_t h) {
    for (int64_t row = 0; row < rows; row++)
        for (int64_t j = 0; j < h; j++)
            carry[j] += da[row] * w[row * h + j];
}

/* Inputs: gates, y, w_hh, dy, h0?. */
static void ref_gru_dgates(const struct sl_ref *r) {
    const int64_t *dim = r->in[1].shape.dim;
    int64_t h = dim[2];
    memset(r->out[2].f, 0, sizeof(double) * (size_t)(dim[0] * h));
    for (int64_t b = 0; b < dim[0]; b++)
        for (int64_t at = (b + 1) * dim[1] - 1; at >= b * dim[1]; at--) {
            const double *g = r->in[0].f + at * 4 * h, *h0 = r->in[4].f;
            const double *before = at % dim[1] ? r->in[1].f + (at - 1) * h : h0 ? h0 + b * h : NULL;
            double *dx = r->out[0].f + at * 3 * h, *dh = r->out[1].f + at * 3 * h;
            double *carry = r->out[2].f + b * h;
            for (int64_t j = 0; j < h; j++) {
                double rr = g[j], z = g[h + j], n = g[2 * h + j], m = g[3 * h + j];
                double d = carry[j] + r->in[3].f[at * h + j], dn = d * (1 - z) * (1 - n * n);
                dx[j] = dh[j] = dn * m * rr * (1 - rr);
                dx[h + j] = dh[h + j] = d * ((before ? before[j] : 0) - n) * z * (1 - z);
                dx[2 * h + j] = dn;
                dh[2 * h + j] = dn * rr;
                carry[j] = d * z;
            }
            carry_back(carry, dh, r->in[2].f, 3 * h, h);
        }
}

/* Inputs: y, w_hh, dy. */
static void ref_rnn_dgates(const struct sl_ref *r) {
    const int64_t *dim = r->in[0].shape.dim;
    int64_t h = dim[2];
    memset(r->out[1].f, 0, sizeof(double) * (size_t)(dim[0] * h));
    for (int64_t b = 0; b < dim[0]; b++)
        for (int64_t at = (b + 1) * dim[1] - 1; at >= b * dim[1]; at--) {
            double *da = r->out[0].f + at * h, *carry = r->out[1].f + b * h;
            for (int64_t j = 0; j < h; j++) {
                double y = r->in[0].f[at * h + j], d = carry[j] + r->in[2].f[at * h + j];
                da[j] = r->attr[0].i ? (y > 0 ? d : 0) : d * (1 - y * y);
                carry[j] = 0;
            }
            carry_back(carry, da, r->in[1].f, h, h);
        }
}

SL_OP_ROW(gru_dgates, "gradient of a gru before its non-linearities, through time",
          "gates y w_hh dy h0?", "dgates_x dgates_h dh0", .internal = true, .layer = SL_LAYER_LSTM,
          .exact_out = 7, .infer = infer_gru_back, .flops = flops_back, .ref = ref_gru_dgates)
SL_OP_ROW(rnn_dgates, "gradient of an rnn before its non-linearity, through time", "y w_hh dy",
          "dgates dh0", .attrs = attrs_rnn, .internal = true, .layer = SL_LAYER_LSTM,
          .exact_out = 3, .infer = infer_rnn_back, .flops = flops_back, .ref = ref_rnn_dgates)

/* ---- bidirectional: [y of x, y of x from its end] along the last axis ---- */

static sl_err infer_both(struct sl_infer *c) {
    char x[SL_SHAPE_TEXT], w[SL_SHAPE_TEXT];
    for (int i = 0; i < c->in_count; i++)
        SL_TRY(sl_op_need_float(c, i));
    if (c->in[X].rank != 3 || c->in[W_HH].rank != 2)
        return sl_graph_infer_fail(c, "x must be [B,T,I] and w_hh [P H,H], they are %s and %s",
                                   sl_graph_shape_text(&c->in[X], x),
                                   sl_graph_shape_text(&c->in[W_HH], w));
    c->out[0] = c->in[X]; /* the two layers check the rest */
    c->out[0].dim[2] = 2 * c->in[W_HH].dim[1];
    return SL_OK;
}

static sl_err expand_both(struct sl_graph *graph, const struct sl_node_spec *spec, int *out) {
    static const char *const kinds[] = {"lstm", "gru", "rnn"};
    union sl_attr flip = {.ints = {1, {1}}}, last = {.i = -1};
    struct sl_node_spec layer = *spec;
    int y[2];
    layer.op = graph->find_op(sl_str(kinds[spec->attr[0].i]));
    layer.attr = NULL;
    for (int i = 0; i < 2; i++) {
        int in[5] = {spec->in[X]};
        memcpy(in + 1, spec->in + 1 + 4 * i, 4 * sizeof *in);
        if (i)
            SL_TRY(sl_graph_apply(graph, "flip", 1, &in[X], &flip, &in[X]));
        layer.in = in;
        layer.in_count = 5;
        SL_TRY(sl_graph_node(graph, &layer, &y[i]));
        if (i)
            SL_TRY(sl_graph_apply(graph, "flip", 1, &y[i], &flip, &y[i]));
    }
    return sl_graph_apply(graph, "concat", 2, y, &last, out);
}

static const struct sl_attr_desc attrs_both[] = {{"kind", SL_ATTR_ENUM, "lstm", "lstm|gru|rnn"},
                                                 {0}};

SL_OP_ROW(bidirectional, "two recurrent layers over a sequence, one from its end",
          "x w_ih w_hh bias_ih bias_hh w_ih_reverse w_hh_reverse bias_ih_reverse bias_hh_reverse",
          "y", .attrs = attrs_both, .infer = infer_both, .expand = expand_both)
