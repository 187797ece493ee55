/* The table of ops, in alphabetical order. */
#include "op/registry.h"

#include <stdlib.h>
#include <string.h>

extern const struct sl_op sl_op_add;
extern const struct sl_op sl_op_layernorm;
extern const struct sl_op sl_op_layernorm_dw;
extern const struct sl_op sl_op_layernorm_dx;
extern const struct sl_op sl_op_matmul;
extern const struct sl_op sl_op_reshape;
extern const struct sl_op sl_op_sum_to;

const struct sl_op *const sl_ops[] = {
    &sl_op_add,
    &sl_op_layernorm,
    &sl_op_layernorm_dw,
    &sl_op_layernorm_dx,
    &sl_op_matmul,
    &sl_op_reshape,
    &sl_op_sum_to,
};

const int sl_op_count = SL_COUNT(sl_ops);

const struct sl_op *sl_op_find(struct sl_str name) {
    int low = 0, high = sl_op_count;
    while (low < high) {
        int middle = (low + high) / 2;
        const char *at = sl_ops[middle]->name;
        size_t length = strlen(at);
        int order = memcmp(name.at, at, name.length < length ? name.length : length);
        if (order == 0)
            order = (name.length > length) - (name.length < length);
        if (order == 0)
            return sl_ops[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

static const char *name_at(const void *ctx, int i) {
    (void)ctx;
    return sl_ops[i]->internal ? "" : sl_ops[i]->name;
}

const char *sl_op_nearest(const char *name) {
    return sl_nearest(name, sl_op_count, name_at, NULL);
}
