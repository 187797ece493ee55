/* Fusion of the gradients of layernorm and rmsnorm: they read the same rows. The results are
 * bit-identical to those of the separate kernels. */
#include "pass/fuse.h"

static const struct kind {
    const char *dx, *dw, *joined;
    int in_count; /* number of inputs of dx */
    bool centred; /* the kernel also sums dy, which is the gradient of a bias */
} kinds[] = {
    {"layernorm_dx", "layernorm_dw", SL_FUSED_LAYERNORM_GRAD, 5, true},
    {"rmsnorm_dx", "rmsnorm_dw", SL_FUSED_RMSNORM_GRAD, 4, false},
};

static int out_count(const struct kind *kind) { return kind->centred ? 3 : 2; }

/* Fuses the add of another gradient of x, which becomes input r. */
static void fuse_sum(struct sl_build *b, int i, const struct kind *kind) {
    struct sl_instr *first = &b->instrs.at[i];
    int value = first->out[0].value, j = sl_pass_fuse_reader(b, i, "add", value);
    if (j < 0 || b->readers[value] != 1 || !sl_pass_build_own_value(b, value))
        return;
    struct sl_instr *second = &b->instrs.at[j];
    struct sl_operand other = second->in[second->in[0].value == value];
    if (!sl_pass_fuse_plain(second) || other.value == value || other.numel != first->out[0].numel ||
        other.dtype != first->out[0].dtype || second->out[0].dtype != first->out[0].dtype ||
        sl_pass_fuse_made_between(b, i, j, other.value))
        return;
    sl_pass_fuse_operands(b, first, kind->in_count + 1, out_count(kind));
    first->in[kind->in_count] = other;
    first->out[0] = second->out[0];
    sl_pass_fuse_absorb(first, second);
}

/* Fuses the add that computes dy, if nothing else reads the sum. The second summand becomes input
 * e. */
static void fuse_dy(struct sl_build *b, int i, const struct kind *kind) {
    struct sl_instr *grad = &b->instrs.at[i];
    int dy = grad->in[0].value, k = sl_pass_fuse_maker(b, i, dy), e = kind->in_count + 1;
    if (k < b->forward_end || !sl_pass_fuse_is(&b->instrs.at[k], "add") ||
        b->readers[dy] != out_count(kind) || !sl_pass_build_own_value(b, dy))
        return;
    struct sl_instr *sum = &b->instrs.at[k];
    for (int s = 0; s < 2; s++)
        if (sum->in[s].numel != sum->out[0].numel || sum->in[s].dtype != sum->out[0].dtype ||
            sl_pass_fuse_made_between(b, k + 1, i, sum->in[s].value))
            return;
    if (!sl_pass_fuse_plain(sum))
        return;
    /* shape of the norm, which may be a view of the sum */
    struct sl_shape rows = grad->in[0].shape;
    sl_pass_fuse_operands(b, grad, e + 1, out_count(kind));
    grad->in[0] = sum->in[0];
    grad->in[e] = sum->in[1];
    grad->in[0].shape = grad->in[e].shape = rows;
    sl_pass_fuse_absorb(grad, sum);
}

/* Returns the instruction that sums dy for the gradient of the bias, or NULL. */
static struct sl_instr *find_db(const struct sl_build *b, int i, int dy, int64_t n) {
    int s = sl_pass_fuse_reader(b, i, "sum_to", dy);
    struct sl_instr *db = s < 0 ? NULL : &b->instrs.at[s];
    return db && db->accumulate && db->out[0].shape.rank == 1 && db->out[0].numel == n &&
                   !db->in[0].row
               ? db
               : NULL;
}

static bool fuse_kind(struct sl_build *b, int i, const struct kind *kind) {
    struct sl_instr *first = &b->instrs.at[i], *dw, *db = NULL;
    int dy = first->in[0].value, x = first->in[1].value;
    int w = sl_pass_fuse_reader(b, i, kind->dw, dy);
    if (b->spec->split || w < 0 || !sl_pass_fuse_plain(first) ||
        first->in_count != kind->in_count || !b->spec->has_kernel(kind->joined))
        return false;
    dw = &b->instrs.at[w];
    if (dw->in[1].value != x || !dw->accumulate)
        return false;
    if (kind->centred && !(db = find_db(b, i, dy, first->in[2].numel)))
        return false;
    sl_pass_fuse_operands(b, first, kind->in_count, out_count(kind));
    first->out[1] = dw->out[0];
    sl_pass_fuse_remove(b, first, dw);
    if (db) {
        first->out[2] = db->out[0];
        sl_pass_fuse_remove(b, first, db);
    }
    first->accumulate = true;
    first->kernel = kind->joined;
    fuse_sum(b, i, kind);
    fuse_dy(b, i, kind);
    return true;
}

bool sl_pass_fuse_norm_grad(struct sl_build *b, int i) {
    for (int k = 0; k < SL_COUNT(kinds); k++)
        if (sl_pass_fuse_is(&b->instrs.at[i], kinds[k].dx))
            return fuse_kind(b, i, &kinds[k]);
    return false;
}
