/* Constant folding in two files: arithmetic by element, and moving elements. */
#ifndef SL_ONNX_FOLD_MATH_H
#define SL_ONNX_FOLD_MATH_H

#include "onnx/konst.h"

struct sl_onnx_fold {
    struct sl_arena *arena;
    const struct sl_onnx_node *node;
    const struct sl_onnx_konst *const *in;
    struct sl_onnx_konst **out;
};

/* A row of a folding table. */
struct sl_onnx_fold_row {
    const char *op;
    sl_err (*run)(const struct sl_onnx_fold *f);
};

sl_err sl_onnx_fold_need(const struct sl_onnx_fold *f, int input);
/* Axis i of a list, negative from the end; checked. */
sl_err sl_onnx_fold_axis(const struct sl_onnx_fold *f, int64_t axis, int rank, int *out);

extern const struct sl_onnx_fold_row sl_onnx_fold_math[]; /* ends with {0} */
extern const struct sl_onnx_fold_row sl_onnx_fold_move[];

#endif
