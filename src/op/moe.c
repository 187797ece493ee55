/* Mixture of experts: tokens go to the experts that a router chose, and the results return as a
 * weighted sum.
 *
 *   indices [...,k] --> moe_slots --> slots [...,k], ranges [E,2]
 *   x [...,C] --> moe_dispatch --> rows [R,C] --> grouped_matmul (w [E,C,F]) ... --> [R,C]
 *             --> moe_combine (weights [...,k]) --> y [...,C]
 *
 * Rows of an expert are next to each other, in the order of the tokens: expert e has the rows
 * ranges[e] = [from, to). Dropless (capacity 0): R is the number of choices, whatever the router
 * does, so memory does not depend on the load. With a capacity c, each expert has room for c times
 * its equal share; a choice beyond it has the slot -1 and adds nothing. Rows without a token are 0.
 * All sums run in a fixed order. */
#include "op/common.h"

#include <math.h>
#include <string.h>

enum { EXPERTS, CAPACITY };
enum { TB };

static const struct sl_attr_desc attrs_room[] = {
    {"experts", SL_ATTR_INT, NULL, NULL}, {"capacity", SL_ATTR_FLOAT, "0", NULL}, {0}};

/* Rows of one expert with a capacity: per sample if the choices contain B, else of all samples. */
static int64_t room_of(int64_t choices, const union sl_attr *attr) {
    return (int64_t)ceil(attr[CAPACITY].f * (double)choices / (double)attr[EXPERTS].i);
}

static struct sl_dim rows_for(const struct sl_shape *choices, const union sl_attr *attr) {
    struct sl_dim all = sl_graph_shape_product(choices, 0, choices->rank);
    if (attr[CAPACITY].f > 0)
        all.n = attr[EXPERTS].i * room_of(all.n, attr);
    return all;
}

static sl_err need_room(const struct sl_infer *c, int choices) {
    char text[SL_SHAPE_TEXT];
    SL_TRY(sl_op_need_int(c, choices));
    double room = c->attr[CAPACITY].f;
    if (c->in[choices].rank < 1 || c->attr[EXPERTS].i < 1 || c->attr[EXPERTS].i > 1 << 20 ||
        !(room >= 0 && room <= 1e6))
        return sl_graph_infer_fail(c, "choices %s of %lld experts with capacity %g",
                                   sl_graph_shape_text(&c->in[choices], text),
                                   (long long)c->attr[EXPERTS].i, room);
    return SL_OK;
}

/* ---- moe_slots ---- */

static sl_err infer_slots(struct sl_infer *c) {
    SL_TRY(need_room(c, 0));
    c->out[0] = c->in[0];
    c->out[1] = SL_SHAPE(2, 0, c->attr[EXPERTS].i, 2);
    c->out_dtype[0] = c->out_dtype[1] = SL_INT;
    return SL_OK;
}

static void ref_slots(const struct sl_ref *r) {
    int64_t count = sl_op_numel(&r->in[0].shape), experts = r->attr[EXPERTS].i, next = 0;
    int64_t samples = r->samples > 0 && count % r->samples == 0 ? r->samples : 1;
    for (int64_t e = 0; e < experts; e++) {
        int64_t room =
            r->attr[CAPACITY].f > 0 ? samples * room_of(count / samples, r->attr) : count;
        int64_t first = r->attr[CAPACITY].f > 0 ? e * room : next, used = 0;
        for (int64_t i = 0; i < count; i++) {
            SL_ASSERT(r->in[0].i[i] >= 0 && r->in[0].i[i] < experts);
            if (r->in[0].i[i] == e)
                r->out[0].i[i] = used < room ? (int32_t)(first + used++) : -1;
        }
        next = first + used;
        r->out[1].i[2 * e] = (int32_t)first;
        r->out[1].i[2 * e + 1] = (int32_t)next;
    }
}

SL_OP_ROW(moe_slots, "the row of every choice of an expert, and the rows of every expert",
          "indices", "slots ranges", .attrs = attrs_room, .infer = infer_slots,
          .flops = sl_op_flops_none, .ref = ref_slots, .exact_out = 3)

/* ---- moe_dispatch, moe_combine: inputs are x or rows, slots, weights? ---- */

static sl_err need_choices(const struct sl_infer *c, const struct sl_shape *tokens) {
    char text[SL_SHAPE_TEXT], slots[SL_SHAPE_TEXT];
    struct sl_shape leading = {0}, of_slots = {0};
    SL_TRY(sl_op_need_float(c, 0));
    SL_TRY(sl_op_need_int(c, 1));
    SL_TRY(sl_op_need_float(c, 2));
    bool fits = tokens->rank > 0 && c->in[1].rank > 0;
    if (fits) {
        leading = sl_op_shape_without_last(tokens);
        of_slots = sl_op_shape_without_last(&c->in[1]);
    }
    if (!fits || !sl_graph_shape_equal(&leading, &of_slots) ||
        (c->present[2] && !sl_graph_shape_equal(&c->in[1], &c->in[2])))
        return sl_graph_infer_fail(c, "x %s, slots %s and weights differ in their tokens",
                                   sl_graph_shape_text(tokens, text),
                                   sl_graph_shape_text(&c->in[1], slots));
    return SL_OK;
}

static sl_err infer_dispatch(struct sl_infer *c) {
    SL_TRY(need_room(c, 1));
    SL_TRY(need_choices(c, &c->in[0]));
    c->out[0] = (struct sl_shape){.rank = 2};
    sl_graph_shape_set(&c->out[0], 0, rows_for(&c->in[1], c->attr));
    sl_graph_shape_set(&c->out[0], 1, sl_graph_shape_dim(&c->in[0], -1));
    return SL_OK;
}

static sl_err infer_combine(struct sl_infer *c) {
    char text[SL_SHAPE_TEXT];
    struct sl_shape y = c->in[1];
    if (c->in[0].rank != 2 || y.rank < 1)
        return sl_graph_infer_fail(c, "rows must be [R,C], they are %s",
                                   sl_graph_shape_text(&c->in[0], text));
    sl_graph_shape_set(&y, y.rank - 1, sl_graph_shape_dim(&c->in[0], 1));
    SL_TRY(need_choices(c, &y));
    c->out[0] = y;
    return SL_OK;
}

static int grad_dispatch(struct sl_grad *g, int input) {
    int weights = sl_graph_grad_input(g, 2), in[3] = {g->dout[0], g->in[1], weights};
    if (input == 0)
        return sl_graph_grad_emit(g, "moe_combine", weights >= 0 ? 3 : 2, in, NULL);
    if (input == 1)
        return -1;
    return sl_graph_grad_emit(g, "moe_combine_dw", 3, (int[]){g->in[0], g->dout[0], g->in[1]},
                              NULL);
}

static int grad_combine(struct sl_grad *g, int input) {
    int weights = sl_graph_grad_input(g, 2), in[3] = {g->dout[0], g->in[1], weights};
    union sl_attr attr[1] = {{.shape = *sl_graph_grad_shape(g, g->in[0])}};
    if (input == 0)
        return sl_graph_grad_emit(g, "moe_combine_dx", weights >= 0 ? 3 : 2, in, attr);
    if (input == 1)
        return -1;
    return sl_graph_grad_emit(g, "moe_combine_dw", 3, (int[]){g->dout[0], g->in[0], g->in[1]},
                              NULL);
}

static double flops_choices(const struct sl_op_view *v) {
    const struct sl_shape *x = &v->in[0];
    return 2.0 * (double)sl_op_numel(&v->in[1]) * (double)x->dim[x->rank - 1];
}

/* Calls f(call, choice, token, row) for every choice that has a row. */
static void ref_choices(const struct sl_ref *r, const struct sl_array *slots,
                        void (*f)(const struct sl_ref *r, int64_t choice, int64_t token,
                                  int64_t row)) {
    int64_t k = slots->shape.dim[slots->shape.rank - 1];
    for (int64_t i = 0; i < sl_op_numel(&slots->shape); i++)
        if (slots->i[i] >= 0)
            f(r, i, i / k, slots->i[i]);
}

static double weight_of(const struct sl_ref *r, int64_t choice) {
    return r->in[2].f ? r->in[2].f[choice] : 1;
}

static void clear(const struct sl_ref *r) {
    memset(r->out[0].f, 0, (size_t)sl_op_numel(&r->out[0].shape) * sizeof(double));
}

static void to_row(const struct sl_ref *r, int64_t choice, int64_t token, int64_t row) {
    int64_t n = r->out[0].shape.dim[1];
    for (int64_t j = 0; j < n; j++)
        r->out[0].f[row * n + j] = weight_of(r, choice) * r->in[0].f[token * n + j];
}

static void from_row(const struct sl_ref *r, int64_t choice, int64_t token, int64_t row) {
    int64_t n = r->in[0].shape.dim[1];
    for (int64_t j = 0; j < n; j++)
        r->out[0].f[token * n + j] += weight_of(r, choice) * r->in[0].f[row * n + j];
}

static void dot_row(const struct sl_ref *r, int64_t choice, int64_t token, int64_t row) {
    int64_t n = r->in[1].shape.dim[1];
    for (int64_t j = 0; j < n; j++)
        r->out[0].f[choice] += r->in[0].f[token * n + j] * r->in[1].f[row * n + j];
}

static void ref_dispatch(const struct sl_ref *r) {
    clear(r);
    ref_choices(r, &r->in[1], to_row);
}
static void ref_combine(const struct sl_ref *r) {
    clear(r);
    ref_choices(r, &r->in[1], from_row);
}
static void ref_combine_dw(const struct sl_ref *r) {
    clear(r);
    ref_choices(r, &r->in[2], dot_row);
}

static const struct sl_attr_desc attrs_shape[] = {{"shape", SL_ATTR_SHAPE, NULL, NULL}, {0}};

static sl_err infer_combine_dx(struct sl_infer *c) {
    c->out[0] = c->attr[0].shape;
    return SL_OK;
}

static sl_err infer_combine_dw(struct sl_infer *c) {
    c->out[0] = c->in[2];
    return SL_OK;
}

SL_OP_ROW(moe_dispatch, "the rows of the experts from the tokens, times weights [1]",
          "x slots weights?", "rows", .attrs = attrs_room, .infer = infer_dispatch,
          .flops = flops_choices, .ref = ref_dispatch, .grad = grad_dispatch)
SL_OP_ROW(moe_combine, "for every token the sum of its rows, times weights [1]",
          "rows slots weights?", "y", .infer = infer_combine, .flops = flops_choices,
          .ref = ref_combine, .grad = grad_combine)
SL_OP_ROW(moe_combine_dx, "gradient of moe_combine with respect to the rows", "dy slots weights?",
          "drows", .attrs = attrs_shape, .infer = infer_combine_dx, .flops = flops_choices,
          .ref = ref_dispatch, .internal = true)
SL_OP_ROW(moe_combine_dw, "gradient of moe_combine and moe_dispatch with respect to the weights",
          "dy rows slots", "dw", .infer = infer_combine_dw, .flops = flops_choices,
          .ref = ref_combine_dw, .internal = true)

/* ---- grouped_matmul: y[r] = x[r] w[expert of r] ---- */

static sl_err infer_grouped(struct sl_infer *c) {
    char x[SL_SHAPE_TEXT], w[SL_SHAPE_TEXT], ranges[SL_SHAPE_TEXT];
    SL_TRY(sl_op_need_float(c, 0));
    SL_TRY(sl_op_need_float(c, 1));
    SL_TRY(sl_op_need_int(c, 2));
    const struct sl_shape want = SL_SHAPE(2, 0, c->in[1].dim[0], 2);
    int k = c->attr[TB].i ? 2 : 1;
    if (c->in[0].rank != 2 || c->in[1].rank != 3 || c->in[1].batch ||
        c->in[0].dim[1] != c->in[1].dim[k] || !sl_graph_shape_equal(&c->in[2], &want))
        return sl_graph_infer_fail(
            c, "x %s, w %s and ranges %s do not fit", sl_graph_shape_text(&c->in[0], x),
            sl_graph_shape_text(&c->in[1], w), sl_graph_shape_text(&c->in[2], ranges));
    c->out[0] = c->in[0];
    c->out[0].dim[1] = c->in[1].dim[3 - k];
    return SL_OK;
}

/* Every row has one expert, so the flops do not depend on the load. */
static double flops_grouped(const struct sl_op_view *v) {
    return 2.0 * (double)sl_op_numel(&v->in[0]) * (double)v->out[0].dim[1];
}

static double flops_grouped_dw(const struct sl_op_view *v) {
    return 2.0 * (double)sl_op_numel(&v->in[0]) * (double)v->in[1].dim[1];
}

static int grad_grouped(struct sl_grad *g, int input) {
    union sl_attr tb = {.i = !g->attr[TB].i};
    int a = g->attr[TB].i ? g->dout[0] : g->in[0], b = g->attr[TB].i ? g->in[0] : g->dout[0];
    if (input == 0)
        return sl_graph_grad_emit(g, "grouped_matmul", 3, (int[]){g->dout[0], g->in[1], g->in[2]},
                                  &tb);
    return input == 2
               ? -1
               : sl_graph_grad_emit(g, "grouped_matmul_dw", 3, (int[]){a, b, g->in[2]}, NULL);
}

static void ref_grouped(const struct sl_ref *r) {
    int64_t k = r->in[0].shape.dim[1], n = r->out[0].shape.dim[1];
    const int64_t *dim = r->in[1].shape.dim;
    clear(r);
    for (int64_t e = 0; e < dim[0]; e++)
        for (int64_t row = r->in[2].i[2 * e]; row < r->in[2].i[2 * e + 1]; row++)
            for (int64_t i = 0; i < k * n; i++) {
                int64_t j = i % n, l = i / n, at = r->attr[TB].i ? j * k + l : i;
                r->out[0].f[row * n + j] += r->in[0].f[row * k + l] * r->in[1].f[e * k * n + at];
            }
}

static sl_err infer_grouped_dw(struct sl_infer *c) {
    c->out[0] = SL_SHAPE(3, 0, c->in[2].dim[0], c->in[0].dim[1], c->in[1].dim[1]);
    return SL_OK;
}

/* dw[e] = a' b over the rows of expert e */
static void ref_grouped_dw(const struct sl_ref *r) {
    int64_t m = r->in[0].shape.dim[1], n = r->in[1].shape.dim[1];
    clear(r);
    for (int64_t e = 0; e < r->in[2].shape.dim[0]; e++)
        for (int64_t row = r->in[2].i[2 * e]; row < r->in[2].i[2 * e + 1]; row++)
            for (int64_t i = 0; i < m * n; i++)
                r->out[0].f[e * m * n + i] +=
                    r->in[0].f[row * m + i / n] * r->in[1].f[row * n + i % n];
}

static const struct sl_attr_desc attrs_tb[] = {{"tb", SL_ATTR_BOOL, "0", NULL}, {0}};

SL_OP_ROW(grouped_matmul, "products of the rows of each expert with its matrix", "x w ranges", "y",
          .attrs = attrs_tb, .infer = infer_grouped, .flops = flops_grouped, .ref = ref_grouped,
          .grad = grad_grouped, .layer = SL_LAYER_PRODUCT)
SL_OP_ROW(grouped_matmul_dw, "gradient of grouped_matmul with respect to w", "a b ranges", "dw",
          .infer = infer_grouped_dw, .flops = flops_grouped_dw, .ref = ref_grouped_dw,
          .internal = true, .layer = SL_LAYER_PRODUCT)

/* ---- balance: the share of every expert; a bias of the choice that follows it ---- */

static sl_err infer_load(struct sl_infer *c) {
    SL_TRY(sl_op_need_int(c, 0));
    if (c->attr[0].i < 1 || c->attr[0].i > 1 << 20)
        return sl_graph_infer_fail(c, "experts = %lld", (long long)c->attr[0].i);
    c->out[0] = SL_SHAPE(1, 0, c->attr[0].i);
    return SL_OK;
}

static void ref_load(const struct sl_ref *r) {
    int64_t count = sl_op_numel(&r->in[0].shape);
    clear(r);
    for (int64_t i = 0; i < count; i++)
        r->out[0].f[r->in[0].i[i]] += 1 / (double)count;
}

static const struct sl_attr_desc attrs_load[] = {{"experts", SL_ATTR_INT, NULL, NULL}, {0}};

SL_OP_ROW(moe_load, "the share of all choices that every expert has", "indices", "load",
          .attrs = attrs_load, .infer = infer_load, .flops = sl_op_flops_none, .ref = ref_load,
          .exact_out = 1)

static sl_err infer_balance(struct sl_infer *c) {
    char bias[SL_SHAPE_TEXT], load[SL_SHAPE_TEXT];
    SL_TRY(sl_op_need_float(c, 0));
    SL_TRY(sl_op_need_float(c, 1));
    if (c->in[0].rank != 1 || !sl_graph_shape_equal(&c->in[0], &c->in[1]))
        return sl_graph_infer_fail(c, "bias %s and load %s differ",
                                   sl_graph_shape_text(&c->in[0], bias),
                                   sl_graph_shape_text(&c->in[1], load));
    c->out[0] = c->in[0];
    return SL_OK;
}

/* Lowers the bias of an expert with more than its share by `rate`, and raises that of the others
 * (Wang et al. 2024, auxiliary-loss-free load balancing). */
static void ref_balance(const struct sl_ref *r) {
    int64_t n = r->in[0].shape.dim[0];
    for (int64_t e = 0; e < n; e++) {
        double off = 1 / (double)n - r->in[1].f[e];
        r->out[0].f[e] = r->in[0].f[e] + r->attr[0].f * ((off > 0) - (off < 0));
    }
}

static void ref_keep(const struct sl_ref *r) {
    memcpy(r->out[0].f, r->in[0].f, (size_t)r->in[0].shape.dim[0] * sizeof(double));
}

static const struct sl_attr_desc attrs_rate[] = {{"rate", SL_ATTR_FLOAT, "0.001", NULL}, {0}};

SL_OP_ROW(moe_balance, "moves the bias of experts towards an equal load", "bias load", "next",
          .attrs = attrs_rate, .infer = infer_balance, .flops = sl_op_flops_elementwise,
          .ref = ref_balance, .exact_out = 1, .eval_op = "moe_balance_eval", .update_count = 1,
          .updates = {{0, 0}})
SL_OP_ROW(moe_balance_eval, "keeps the bias of experts", "bias load", "next", .attrs = attrs_rate,
          .infer = infer_balance, .flops = sl_op_flops_none, .ref = ref_keep, .exact_out = 1,
          .internal = true)
