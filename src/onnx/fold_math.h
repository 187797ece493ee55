/* Constant folding, in several files: arithmetic by element, moving elements, indices. */
#ifndef SL_ONNX_FOLD_MATH_H
#define SL_ONNX_FOLD_MATH_H

#include "onnx/konst.h"

struct sl_onnx_fold {
    struct sl_arena *arena;
    const struct sl_proto_node *node;
    const struct sl_onnx_konst *const *in;
    struct sl_onnx_konst **out;
};

/* A row of a folding table. A row without `stretched` gets no constants with axes of size B. A
 * function that leaves out[0] NULL does not compute these inputs; the node is lowered instead. */
struct sl_onnx_fold_row {
    const char *op;
    sl_err (*run)(const struct sl_onnx_fold *f);
    bool stretched;
};

sl_err sl_onnx_fold_need(const struct sl_onnx_fold *f, int input);
/* Checks an axis of a list; negative ones count from the end. */
sl_err sl_onnx_fold_axis(const struct sl_onnx_fold *f, int64_t axis, int rank, int *out);

/* Copies one element. */
void sl_onnx_fold_copy(const struct sl_onnx_fold *f, struct sl_onnx_konst *to, int64_t at,
                       const struct sl_onnx_konst *from, int64_t source);

/* A constant seen as [outer, axis, inner]. */
struct sl_onnx_blocks {
    int64_t outer, axis, inner;
};
struct sl_onnx_blocks sl_onnx_fold_blocks(const struct sl_onnx_konst *a, int axis);

extern const struct sl_onnx_fold_row sl_onnx_fold_math[]; /* ends with {0} */
extern const struct sl_onnx_fold_row sl_onnx_fold_move[];
extern const struct sl_onnx_fold_row sl_onnx_fold_index[];

#endif
