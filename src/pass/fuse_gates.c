/* Fusion of gated layers: h = s u with s = f(g), forward, recomputed and backward. The activation s is
 * not stored: the backward kernel computes it again.
 *
 *   s = f(g)   h = s u                                -> f_mul        g u    -> h
 *   du = dh s  ds = dh u  dg = f_dx(ds, g)            -> f_mul_grad   dh g u -> dg du h?
 *
 * A gate is fused as a whole or not at all: without the backward part, s must be stored. If only
 * a product in front and the gradient of its weight read h, the backward kernel computes h
 * again, for that gradient, and it is not stored either. The fused kernels round like the
 * separate ones. */
#include "pass/fuse.h"

static const struct kind {
    const char *f, *f_dx, *forward, *backward;
} kinds[] = {
    {"gelu", "gelu_dx", SL_FUSED_GELU_MUL, SL_FUSED_GELU_MUL_GRAD},
    {"silu", "silu_dx", SL_FUSED_SILU_MUL, SL_FUSED_SILU_MUL_GRAD},
};

enum { COPIES = 2 }; /* the forward pass, and its repetition in the backward pass */

struct gate {
    const struct kind *kind;
    int f[COPIES], mul[COPIES], copies; /* indices of instructions */
    int du, ds, dg;                     /* indices of instructions; -1: there is no backward part */
    int g, u, s, dh;                    /* ids of values */
};

static int other_input(const struct sl_instr *mul, int value) {
    return mul->in[mul->in[0].value == value].value;
}

/* Returns true if instruction i is a product of two values with the shape and dtype of its
 * result. */
static bool is_product(const struct sl_build *b, int i) {
    const struct sl_instr *mul = &b->instrs.at[i];
    if (i < 0 || !sl_pass_fuse_is(mul, "mul") || !sl_pass_fuse_plain(mul))
        return false;
    for (int k = 0; k < 2; k++)
        if (mul->in[k].numel != mul->out[0].numel || mul->in[k].dtype != mul->out[0].dtype ||
            mul->in[k].value < 0)
            return false;
    return mul->in[0].value != mul->in[1].value;
}

/* Adds activation i of one copy of the forward pass, and the product that reads its result. */
static bool add_copy(const struct sl_build *b, int i, struct gate *z) {
    const struct sl_instr *f = &b->instrs.at[i];
    int j = sl_pass_fuse_reader(b, i, "mul", f->out[0].value);
    if (!sl_pass_fuse_plain(f) || !is_product(b, j) || z->copies == COPIES ||
        f->out[0].dtype != f->in[0].dtype)
        return false;
    z->s = f->out[0].value;
    z->g = f->in[0].value;
    z->u = other_input(&b->instrs.at[j], z->s);
    z->f[z->copies] = i;
    z->mul[z->copies++] = j;
    return true;
}

/* Returns a product that reads `value` behind the forward pass and its repetition, other than
 * `not`. */
static int find_product(const struct sl_build *b, int value, int not ) {
    for (int at = b->users_at[value]; at < b->users_at[value + 1]; at++) {
        int i = b->users[at];
        if (i >= b->recompute_end && i != not &&is_product(b, i) &&
            (b->instrs.at[i].in[0].value == value || b->instrs.at[i].in[1].value == value))
            return i;
    }
    return -1;
}

/* Finds ds = dh u, which only the gradient of the activation may read. */
static bool find_ds(const struct sl_build *b, struct gate *z) {
    for (int at = b->users_at[z->u]; at < b->users_at[z->u + 1]; at++) {
        int i = b->users[at];
        if (i < b->recompute_end || i == z->du || !is_product(b, i) ||
            b->instrs.at[i].out[0].value == z->u || other_input(&b->instrs.at[i], z->u) != z->dh)
            continue;
        int ds = b->instrs.at[i].out[0].value;
        z->ds = i;
        z->dg = sl_pass_fuse_reader(b, i, z->kind->f_dx, ds);
        return z->dg >= 0 && b->readers[ds] == 1 && sl_pass_fuse_plain(&b->instrs.at[z->dg]) &&
               b->instrs.at[z->dg].in[0].value == ds && b->instrs.at[z->dg].in[1].value == z->g;
    }
    return false;
}

/* Finds the three instructions of the backward part. Returns false if s has other readers. */
static bool find_backward(const struct sl_build *b, struct gate *z) {
    z->du = z->ds = z->dg = -1;
    if (b->readers[z->s] == 1)
        return true;
    z->du = find_product(b, z->s, -1);
    if (b->readers[z->s] != 2 || z->du < 0)
        return false;
    z->dh = other_input(&b->instrs.at[z->du], z->s);
    if (!find_ds(b, z))
        return false;
    int end = sl_pass_fuse_phase_end(b, z->du), first = z->du < z->ds ? z->du : z->ds;
    return sl_pass_fuse_phase_end(b, z->ds) == end && sl_pass_fuse_phase_end(b, z->dg) == end &&
           !sl_pass_fuse_made_between(b, first, z->dg, z->dh);
}

static bool is_output(const struct sl_build *b, int value) {
    for (int64_t i = 0; i < b->graph->outputs.count; i++)
        if (b->root[b->graph->outputs.at[i].value] == value)
            return true;
    return false;
}

static void set_instr(struct sl_build *b, struct sl_instr *to, const struct sl_instr *f,
                      const char *kernel, const struct sl_operand *in, int in_count) {
    struct sl_operand out = to->out[0];
    sl_pass_fuse_operands(b, to, in_count, in_count - 1);
    for (int i = 0; i < in_count; i++)
        to->in[i] = in[i];
    to->out[0] = out;
    to->op = f->op;
    to->attr = f->attr;
    to->kernel = kernel;
}

/* Returns the gradient of a weight that alone reads h in the backward pass; -1: h must be
 * stored. */
static int find_dw(const struct sl_build *b, int h) {
    int found = -1;
    if (b->spec->recompute || b->readers[h] != 2 || is_output(b, h))
        return -1;
    for (int at = b->users_at[h]; at < b->users_at[h + 1]; at++) {
        const struct sl_instr *instr = &b->instrs.at[b->users[at]];
        if (b->users[at] < b->recompute_end)
            continue;
        if (found >= 0 || !sl_pass_fuse_is(instr, "matmul") || !instr->accumulate)
            return -1;
        found = b->users[at];
    }
    return found;
}

/* Makes the backward kernel of a gate compute h again, before dw reads it. `vacant` is an
 * instruction that was removed. */
static void compute_again(struct sl_build *b, struct sl_instr *grad, int vacant,
                          const struct sl_operand *h) {
    struct sl_instr *to = &b->instrs.at[vacant];
    int dw = find_dw(b, h->value);
    if (dw < 0)
        return;
    if (dw < vacant) {
        *to = b->instrs.at[dw];
        b->instrs.at[dw].kernel = NULL;
    }
    sl_pass_fuse_operands(b, grad, grad->in_count, 3);
    grad->out[2] = *h;
    b->again[h->value] = true;
}

static void fuse(struct sl_build *b, const struct gate *z) {
    struct sl_operand g = b->instrs.at[z->f[0]].in[0];
    const struct sl_instr *mul = &b->instrs.at[z->mul[0]];
    struct sl_operand u = mul->in[mul->in[0].value == z->s];
    for (int i = 0; i < z->copies; i++) {
        struct sl_instr *f = &b->instrs.at[z->f[i]], *h = &b->instrs.at[z->mul[i]];
        set_instr(b, h, f, z->kind->forward, (struct sl_operand[]){g, u}, 2);
        sl_pass_fuse_remove(b, h, f);
    }
    if (z->du < 0)
        return;
    bool du_first = z->du < z->ds;
    struct sl_instr *du = &b->instrs.at[z->du], *ds = &b->instrs.at[z->ds];
    struct sl_instr *first = du_first ? du : ds, *second = du_first ? ds : du;
    struct sl_instr *dg = &b->instrs.at[z->dg];
    struct sl_operand dh = du->in[du->in[0].value == z->s], du_out = du->out[0];
    set_instr(b, first, dg, z->kind->backward, (struct sl_operand[]){dh, g, u}, 3);
    first->out[0] = dg->out[0];
    first->out[1] = du_out;
    sl_pass_fuse_remove(b, first, second);
    sl_pass_fuse_remove(b, first, dg);
    compute_again(b, first, du_first ? z->ds : z->du, &b->instrs.at[z->mul[0]].out[0]);
}

/* Fuses the gate that begins with the activation i of the forward pass. */
static void try_gate(struct sl_build *b, int i, const struct kind *kind) {
    struct gate z = {.kind = kind};
    int s = b->instrs.at[i].out[0].value;
    if (!b->spec->has_kernel(kind->forward) || !b->spec->has_kernel(kind->backward) ||
        is_output(b, s))
        return;
    for (int at = b->users_at[s]; at < b->users_at[s + 1]; at++) {
        const struct sl_instr *f = &b->instrs.at[b->users[at]];
        if (sl_pass_fuse_is(f, kind->f) && f->out[0].value == s && !add_copy(b, b->users[at], &z))
            return;
    }
    if (z.copies && find_backward(b, &z))
        fuse(b, &z);
}

void sl_pass_fuse_gates(struct sl_build *b) {
    for (int i = 0; i < (int)b->instrs.count; i++)
        for (int k = 0; k < SL_COUNT(kinds) && b->instrs.at[i].kernel; k++)
            if (sl_pass_fuse_is(&b->instrs.at[i], kinds[k].f)) {
                try_gate(b, i, &kinds[k]);
                break;
            }
}
