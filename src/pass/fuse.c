/* Fusion: replaces groups of instructions by one kernel of the device (pass/fused.h).
 *
 *   matmul, gelu        -> matmul_gelu       writes both the product and its activation
 *   matmul, add         -> matmul_add        adds a residual before the store
 *   matmul, gelu_dx     -> matmul_gelu_dx    applies gelu's derivative before the store
 *   matmul, sum_to      -> matmul_sum_a/_b   gradients of a weight and its bias
 *   add, layernorm      -> add_layernorm
 *   (add,) layernorm_dx, layernorm_dw, sum_to (, add) -> layernorm_grad          fuse_norms.c
 *   (add,) rmsnorm_dx, rmsnorm_dw (, add)             -> rmsnorm_grad
 *   silu, mul; mul, mul, silu_dx       -> silu_mul, silu_mul_grad; so gelu       fuse_gates.c
 *   batchnorm (, add), relu            -> batchnorm_relu
 *   (relu_dx,) batchnorm_dx, batchnorm_dw, sum_to -> batchnorm_grad, batchnorm_relu_grad
 *   cross_entropy, cross_entropy_dx    -> cross_entropy_grad
 *
 * The second instruction moves up to the first; its other inputs must exist by then. A fused kernel
 * may round differently from the separate kernels. A plan must therefore not cut between nodes that
 * the whole model fuses: sl_pass_glue groups them, and plans respect the groups.
 */
#include "pass/fuse.h"

#include <string.h>

bool sl_pass_fuse_is(const struct sl_instr *instr, const char *kernel) {
    return instr->kernel && strcmp(instr->kernel, kernel) == 0;
}

int sl_pass_fuse_phase_end(const struct sl_build *b, int i) {
    return i < b->forward_end ? b->forward_end
           : i < b->split_at  ? b->split_at
                              : (int)b->instrs.count;
}

static bool reads(const struct sl_instr *instr, int value) {
    for (int i = 0; i < instr->in_count; i++)
        if (instr->in[i].value == value)
            return true;
    return false;
}

static bool writes(const struct sl_instr *instr, int value) {
    for (int i = 0; i < instr->out_count; i++)
        if (instr->out[i].value == value)
            return true;
    return false;
}

/* Lists for each value the instructions that read or write it. The list stays valid: fusion moves
 * operands only to the instruction on which it works, and looks only for readers after it. */
static void list_users(struct sl_build *b) {
    int64_t values = b->graph->values.count;
    b->users_at = SL_NEW(&b->scratch, int, values + 2);
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t n = 0; n < b->instrs.count; n++) {
            const struct sl_instr *instr = &b->instrs.at[n];
            for (int i = 0; i < instr->in_count + instr->out_count; i++) {
                int value = i < instr->in_count ? instr->in[i].value
                                                : instr->out[i - instr->in_count].value;
                if (value >= 0 && pass)
                    b->users[b->users_at[value + 1]++] = (int)n;
                else if (value >= 0)
                    b->users_at[value + 2]++;
            }
        }
        for (int64_t v = 2; v < values + 2 && !pass; v++)
            b->users_at[v] += b->users_at[v - 1];
        if (!pass)
            b->users = SL_NEW(&b->scratch, int, b->users_at[values + 1] + 1);
    }
}

/* Returns the first instruction of this kernel after i and before `end` that reads `value`. */
static int find_reader_until(const struct sl_build *b, int i, int end, const char *kernel,
                             int value) {
    for (int at = b->users_at[value]; at < b->users_at[value + 1]; at++) {
        int j = b->users[at];
        const struct sl_instr *instr = &b->instrs.at[j];
        if (j <= i || j >= end)
            continue;
        if (instr->kernel && sl_pass_fuse_is(instr, kernel) && reads(instr, value))
            return j;
        if (instr->kernel && writes(instr, value))
            return -1; /* from here on, recomputation makes another item of it */
    }
    return -1;
}

int sl_pass_fuse_reader(const struct sl_build *b, int i, const char *kernel, int value) {
    return find_reader_until(b, i, sl_pass_fuse_phase_end(b, i), kernel, value);
}

bool sl_pass_fuse_made_between(const struct sl_build *b, int i, int j, int value) {
    for (int k = i; k < j && value >= 0; k++)
        if (b->instrs.at[k].kernel && writes(&b->instrs.at[k], value))
            return true;
    return false;
}

void sl_pass_fuse_operands(struct sl_build *b, struct sl_instr *instr, int in_count,
                           int out_count) {
    struct sl_operand *in = SL_NEW(&b->program->arena, struct sl_operand, in_count);
    struct sl_operand *out = SL_NEW(&b->program->arena, struct sl_operand, out_count);
    memcpy(in, instr->in,
           sizeof *in * (size_t)(instr->in_count < in_count ? instr->in_count : in_count));
    memcpy(out, instr->out,
           sizeof *out * (size_t)(instr->out_count < out_count ? instr->out_count : out_count));
    for (int i = instr->in_count; i < in_count; i++)
        in[i].value = -1;
    instr->in = in;
    instr->out = out;
    instr->in_count = in_count;
    instr->out_count = out_count;
}

void sl_pass_fuse_absorb(struct sl_instr *first, struct sl_instr *second) {
    first->flops += second->flops;
    second->kernel = NULL;
}

void sl_pass_fuse_remove(struct sl_build *b, struct sl_instr *first, struct sl_instr *second) {
    struct sl_fused_pair pair = {first->node, second->node};
    SL_PUSH(&b->fused, pair);
    sl_pass_fuse_absorb(first, second);
}

bool sl_pass_fuse_plain(const struct sl_instr *instr) {
    for (int i = 0; i < instr->in_count; i++)
        if (instr->in[i].row)
            return false;
    return !instr->accumulate && instr->out[0].row == 0;
}

int sl_pass_fuse_maker(const struct sl_build *b, int i, int value) {
    while (--i >= 0 && !(b->instrs.at[i].kernel && writes(&b->instrs.at[i], value)))
        ;
    return i;
}

static void join_grads(struct sl_build *b, struct sl_instr *dx, struct sl_instr *dw,
                       struct sl_instr *db, const char *kernel) {
    sl_pass_fuse_operands(b, dx, 5, 3);
    dx->out[1] = dw->out[0];
    dx->out[2] = db->out[0];
    dx->accumulate = true;
    dx->kernel = kernel;
    sl_pass_fuse_remove(b, dx, dw);
    sl_pass_fuse_remove(b, dx, db);
}

static bool fuse_gelu(struct sl_build *b, int i) {
    struct sl_instr *first = &b->instrs.at[i];
    int j = sl_pass_fuse_reader(b, i, "gelu", first->out[0].value);
    if (j < 0)
        return false;
    struct sl_instr *second = &b->instrs.at[j];
    const char *kernel = second->attr[0].i ? SL_FUSED_MATMUL_GELU_ERF : SL_FUSED_MATMUL_GELU;
    if (!b->spec->has_kernel(kernel))
        return false;
    sl_pass_fuse_operands(b, first, 3, 2);
    first->out[1] = second->out[0];
    first->kernel = kernel;
    sl_pass_fuse_remove(b, first, second);
    return true;
}

static bool fuse_gelu_dx(struct sl_build *b, int i) {
    struct sl_instr *first = &b->instrs.at[i];
    int value = first->out[0].value, j = sl_pass_fuse_reader(b, i, "gelu_dx", value);
    if (j < 0 || b->readers[value] != 1 || (first->in_count > 2 && first->in[2].value >= 0))
        return false;
    struct sl_instr *second = &b->instrs.at[j];
    const char *kernel = second->attr[0].i ? SL_FUSED_MATMUL_GELU_ERF_DX : SL_FUSED_MATMUL_GELU_DX;
    if (!b->spec->has_kernel(kernel) || second->in[0].value != value ||
        sl_pass_fuse_made_between(b, i, j, second->in[1].value))
        return false;
    sl_pass_fuse_operands(b, first, 3, 1);
    first->in[2] = second->in[1];
    first->out[0] = second->out[0];
    first->kernel = kernel;
    sl_pass_fuse_remove(b, first, second);
    return true;
}

static bool fuse_add(struct sl_build *b, int i) {
    struct sl_instr *first = &b->instrs.at[i];
    int value = first->out[0].value, j = sl_pass_fuse_reader(b, i, "add", value);
    if (j < 0 || b->readers[value] != 1 || !b->spec->has_kernel(SL_FUSED_MATMUL_ADD))
        return false;
    struct sl_instr *second = &b->instrs.at[j];
    if (second->pass != SL_PASS_F) /* a sum of gradients may be in another stage */
        return false;
    const struct sl_operand *other = &second->in[second->in[0].value == value];
    if (other->numel != first->out[0].numel || other->value == value ||
        !sl_pass_fuse_plain(second) || sl_pass_fuse_made_between(b, i, j, other->value))
        return false;
    struct sl_operand residual = *other;
    sl_pass_fuse_operands(b, first, 4, 1);
    first->in[3] = residual;
    first->out[0] = second->out[0];
    first->kernel = SL_FUSED_MATMUL_ADD;
    sl_pass_fuse_remove(b, first, second);
    return true;
}

/* Fuses the bias gradient (the column sums of dy) into the weight gradient dw = a b. */
static bool fuse_sum(struct sl_build *b, int i) {
    struct sl_instr *first = &b->instrs.at[i];
    bool ta = first->attr[0].i, tb = first->attr[1].i;
    if (!first->accumulate || !ta || first->in[0].shape.rank != 2 || first->in[1].shape.rank != 2)
        return false;
    for (int side = 0; side < 2; side++) {
        int dy = first->in[side].value, j = sl_pass_fuse_reader(b, i, "sum_to", dy);
        const char *kernel = side ? SL_FUSED_MATMUL_SUM_B : SL_FUSED_MATMUL_SUM_A;
        if (j < 0 || (side == 0 && tb) || (side == 1 && tb) || !b->spec->has_kernel(kernel))
            continue;
        struct sl_instr *second = &b->instrs.at[j];
        int64_t columns = first->in[side].shape.dim[1];
        if (!second->accumulate || second->out[0].shape.rank != 1 ||
            second->out[0].numel != columns || second->in[0].row || first->in[side].row)
            continue;
        sl_pass_fuse_operands(b, first, 2, 2);
        first->out[1] = second->out[0];
        first->kernel = kernel;
        sl_pass_fuse_remove(b, first, second);
        return true;
    }
    return false;
}

static bool fuse_layernorm(struct sl_build *b, int i) {
    struct sl_instr *first = &b->instrs.at[i];
    int j = sl_pass_fuse_reader(b, i, "layernorm", first->out[0].value);
    if (j < 0 || !b->spec->has_kernel(SL_FUSED_ADD_LAYERNORM) || !sl_pass_fuse_plain(first) ||
        first->in[0].numel != first->out[0].numel || first->in[1].numel != first->out[0].numel)
        return false;
    struct sl_instr *second = &b->instrs.at[j];
    if (second->in[0].value != first->out[0].value ||
        sl_pass_fuse_made_between(b, i, j, second->in[1].value))
        return false;
    struct sl_shape rows = second->in[0].shape; /* of the norm; may be a view of the sum */
    sl_pass_fuse_operands(b, first, 4, 4);
    first->in[0].shape = first->in[1].shape = rows;
    first->in[2] = second->in[1];
    if (second->in_count > 2)
        first->in[3] = second->in[2];
    for (int k = 0; k < 3; k++)
        first->out[1 + k] = second->out[k];
    first->attr = second->attr;
    first->kernel = SL_FUSED_ADD_LAYERNORM;
    sl_pass_fuse_remove(b, first, second);
    return true;
}

static bool sums_channels(const struct sl_instr *sum, int64_t n) {
    const struct sl_shape *y = &sum->out[0].shape;
    return sum->accumulate && y->rank == 4 && y->dim[1] == n && sum->out[0].numel == n &&
           sum->in[0].shape.rank == 4 && !sum->in[0].row;
}

/* Fuses the gradient of a relu that follows the batchnorm into the batchnorm gradient. */
static void fuse_relu_dx(struct sl_build *b, int i) {
    struct sl_instr *grad = &b->instrs.at[i];
    int masked = grad->in[0].value, k = sl_pass_fuse_maker(b, i, masked);
    int forward = sl_pass_fuse_maker(b, i, grad->in[3].value);
    if (k < 0 || forward < 0 || !sl_pass_fuse_is(&b->instrs.at[k], "relu_dx") ||
        b->readers[masked] != 3 || k < b->forward_end ||
        !b->spec->has_kernel(SL_FUSED_BATCHNORM_RELU_GRAD))
        return;
    struct sl_instr *relu = &b->instrs.at[k], *made = &b->instrs.at[forward];
    if (!sl_pass_fuse_plain(relu) || !sl_pass_fuse_is(made, SL_FUSED_BATCHNORM_RELU) ||
        made->in_count != 5 || made->out[0].value != relu->in[1].value ||
        made->in[0].value != grad->in[1].value)
        return;
    sl_pass_fuse_operands(b, grad, 7, 3);
    grad->in[0] = relu->in[0];
    grad->in[5] = made->in[2];
    grad->in[6] = relu->in[1];
    grad->kernel = SL_FUSED_BATCHNORM_RELU_GRAD;
    sl_pass_fuse_absorb(grad, relu);
}

/* Fuses the three gradients of a batchnorm over images. */
static bool fuse_batchnorm_grad(struct sl_build *b, int i) {
    struct sl_instr *first = &b->instrs.at[i];
    int dy = first->in[0].value;
    int w = sl_pass_fuse_reader(b, i, "batchnorm_dw", dy),
        s = sl_pass_fuse_reader(b, i, "sum_to", dy);
    if (b->spec->split || w < 0 || s < 0 || !sl_pass_fuse_plain(first) ||
        !b->spec->has_kernel(SL_FUSED_BATCHNORM_GRAD))
        return false;
    struct sl_instr *dw = &b->instrs.at[w], *db = &b->instrs.at[s];
    if (dw->in[1].value != first->in[1].value || !dw->accumulate ||
        !sums_channels(db, first->in[2].numel))
        return false;
    join_grads(b, first, dw, db, SL_FUSED_BATCHNORM_GRAD);
    fuse_relu_dx(b, i);
    return true;
}

/* Returns the other operand of the add j that reads `value`; false if i cannot do the add. */
static bool find_other(const struct sl_build *b, int i, int j, int value, struct sl_operand *out) {
    const struct sl_instr *add = &b->instrs.at[j];
    *out = add->in[add->in[0].value == value];
    return sl_pass_fuse_plain(add) && out->value != value && out->numel == add->out[0].numel &&
           out->dtype == add->out[0].dtype && b->readers[add->out[0].value] == 1 &&
           !sl_pass_fuse_made_between(b, i, j, out->value);
}

/* Fuses relu(batchnorm(x)) or relu(batchnorm(x) + r). The result is bit-identical. */
static bool fuse_batchnorm_relu(struct sl_build *b, int i) {
    struct sl_instr *first = &b->instrs.at[i];
    int value = first->out[0].value, sum = sl_pass_fuse_reader(b, i, "add", value);
    struct sl_operand other;
    if (b->readers[value] != 1 || !b->spec->has_kernel(SL_FUSED_BATCHNORM_RELU) ||
        !sl_pass_fuse_plain(first))
        return false;
    if (sum >= 0 && (b->instrs.at[sum].out[0].numel != first->out[0].numel ||
                     !find_other(b, i, sum, value, &other)))
        return false;
    if (sum >= 0)
        value = b->instrs.at[sum].out[0].value;
    int j = sl_pass_fuse_reader(b, sum >= 0 ? sum : i, "relu", value);
    if (j < 0 || !sl_pass_fuse_plain(&b->instrs.at[j]))
        return false;
    sl_pass_fuse_operands(b, first, sum >= 0 ? 6 : 5, 5);
    if (sum >= 0) {
        first->in[5] = other;
        sl_pass_fuse_absorb(first, &b->instrs.at[sum]);
    }
    first->out[0] = b->instrs.at[j].out[0];
    first->kernel = SL_FUSED_BATCHNORM_RELU;
    sl_pass_fuse_absorb(first, &b->instrs.at[j]);
    return true;
}

/* Lets the loss compute the gradient of the logits too, although that belongs to the next phase.
 * With recomputation, both run in the backward pass. */
static bool fuse_cross_entropy(struct sl_build *b, int i) {
    struct sl_instr *first = &b->instrs.at[i];
    int logits = first->in[0].value;
    int j = find_reader_until(b, i, (int)b->instrs.count, "cross_entropy_dx", logits);
    if (j < 0 || b->readers[logits] != 2 || !b->spec->has_kernel(SL_FUSED_CROSS_ENTROPY_GRAD) ||
        (b->spec->recompute && i < b->forward_end))
        return false;
    struct sl_instr *second = &b->instrs.at[j];
    int seed = second->in[0].value;
    if (seed < 0 || sl_graph_value(b->graph, seed)->kind != SL_VALUE_SEED ||
        second->in[3].value != first->out[1].value || !sl_pass_fuse_plain(first) ||
        !sl_pass_fuse_plain(second))
        return false;
    sl_pass_fuse_operands(b, first, 3, 3);
    first->in[2] = second->in[0];
    first->out[2] = first->out[1];
    first->out[1] = first->out[0];
    first->out[0] = second->out[0];
    first->kernel = SL_FUSED_CROSS_ENTROPY_GRAD;
    sl_pass_fuse_absorb(first, second);
    return true;
}

static void compact(struct sl_build *b) {
    int64_t kept = 0;
    int forward_end = 0, recompute_end = 0, split_at = 0;
    for (int64_t i = 0; i < b->instrs.count; i++) {
        if (!b->instrs.at[i].kernel)
            continue;
        forward_end += i < b->forward_end;
        recompute_end += i < b->recompute_end;
        split_at += i < b->split_at;
        b->instrs.at[kept++] = b->instrs.at[i];
    }
    b->instrs.count = kept;
    b->forward_end = forward_end;
    b->recompute_end = recompute_end;
    b->split_at = split_at;
}

void sl_pass_build_fuse(struct sl_build *b) {
    list_users(b);
    sl_pass_fuse_gates(b);
    for (int i = 0; i < (int)b->instrs.count; i++) {
        const struct sl_instr *instr = &b->instrs.at[i];
        if (!instr->kernel)
            continue;
        if (sl_pass_fuse_is(instr, "matmul") && instr->accumulate)
            fuse_sum(b, i);
        else if (sl_pass_fuse_is(instr, "matmul") && sl_pass_fuse_plain(instr))
            (void)(fuse_gelu(b, i) || fuse_gelu_dx(b, i) || fuse_add(b, i));
        else if (sl_pass_fuse_is(instr, "add"))
            fuse_layernorm(b, i);
        else if (sl_pass_fuse_norm_grad(b, i))
            continue;
        else if (sl_pass_fuse_is(instr, "batchnorm"))
            fuse_batchnorm_relu(b, i);
        else if (sl_pass_fuse_is(instr, "batchnorm_dx"))
            fuse_batchnorm_grad(b, i);
        else if (sl_pass_fuse_is(instr, "cross_entropy"))
            fuse_cross_entropy(b, i);
    }
    compact(b);
}
