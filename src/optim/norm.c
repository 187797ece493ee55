/* Computes the global gradient norm in its canonical order. */
#include "optim/norm.h"

#include <math.h>

int64_t sl_optim_norm_block_count(int64_t count) {
    return (count + SL_NORM_BLOCK - 1) / SL_NORM_BLOCK;
}

static double block_sum(const float *x, int64_t count) {
    double lane[SL_NORM_LANES] = {0};
    int64_t at = 0;
    for (; at + SL_NORM_LANES <= count; at += SL_NORM_LANES)
        for (int l = 0; l < SL_NORM_LANES; l++)
            lane[l] += (double)x[at + l] * (double)x[at + l];
    for (int l = 0; at + l < count; l++)
        lane[l] += (double)x[at + l] * (double)x[at + l];
    for (int h = SL_NORM_LANES / 2; h; h /= 2)
        for (int l = 0; l < h; l++)
            lane[l] += lane[l + h];
    return lane[0];
}

void sl_optim_norm_sq_blocks(const float *x, int64_t count, int64_t first, int64_t blocks,
                             double *out) {
    for (int64_t i = 0; i < blocks; i++) {
        int64_t start = (first + i) * SL_NORM_BLOCK, left = count - start;
        out[i] = block_sum(x + start, left < SL_NORM_BLOCK ? left : SL_NORM_BLOCK);
    }
}

/* Partial sums of 1, 2, 4, ... blocks; bit i of `count` is set if level i has one. Adding a block
 * carries as in a binary counter, which builds the tree level by level. */
struct tree {
    double level[64];
    uint64_t count;
};

static void tree_add(struct tree *tree, double sum) {
    int i = 0;
    for (; tree->count >> i & 1; i++)
        sum = tree->level[i] + sum;
    tree->level[i] = sum;
    tree->count++;
}

static double tree_sum(const struct tree *tree) {
    double sum = 0;
    bool any = false;
    for (int i = 0; i < 64; i++)
        if (tree->count >> i & 1) {
            sum = any ? tree->level[i] + sum : tree->level[i];
            any = true;
        }
    return sum;
}

double sl_optim_norm_sq_tree(const double *block, int64_t blocks) {
    struct tree tree = {.count = 0};
    for (int64_t i = 0; i < blocks; i++)
        tree_add(&tree, block[i]);
    return tree_sum(&tree);
}

double sl_optim_norm_sq(const float *x, int64_t count) {
    struct tree tree = {.count = 0};
    for (int64_t i = 0; i < sl_optim_norm_block_count(count); i++) {
        double sum;
        sl_optim_norm_sq_blocks(x, count, i, 1, &sum);
        tree_add(&tree, sum);
    }
    return tree_sum(&tree);
}

struct sl_norm_verdict sl_optim_norm_judge(double sum, double scale, double clip) {
    struct sl_norm_verdict out = {.finite = isfinite(sum)};
    out.norm = fabs(scale) * sqrt(sum);
    double ratio = clip > 0 ? clip / (out.norm + 1e-6) : 1;
    out.scale = (float)(ratio < 1 ? scale * ratio : scale);
    return out;
}
