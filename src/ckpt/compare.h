/* Comparing two checkpoints bit by bit, tensor by tensor, by name. */
#ifndef SL_CKPT_COMPARE_H
#define SL_CKPT_COMPARE_H

#include "ckpt/ckpt.h"

/* How one tensor differs. */
struct sl_ckpt_difference {
    const char *name;
    const char *reason;      /* "" if type and shape agree and values differ */
    int64_t elements, count; /* elements that differ, of `count` */
    int64_t first;           /* index of the first one */
    double a, b;             /* its values */
    double largest;          /* largest absolute difference */
};

struct sl_ckpt_comparison {
    struct sl_ckpt *a, *b;
    bool weights_only; /* skip optimizer state and older weight versions */
    /* results */
    int64_t tensors, size_bytes; /* compared */
    int64_t differing;           /* tensors */
    struct sl_ckpt_difference first;
    double largest; /* over all tensors */
    const char *largest_name;
};

/* Fills the results for a, b and weights_only. Verifies the checksum of every tensor read. */
SL_MUST_CHECK sl_err sl_ckpt_compare(struct sl_ckpt_comparison *all);

/* Do step, seed and data cursor agree? */
bool sl_ckpt_same_place(const struct sl_ckpt_comparison *all);

/* compare_text.c: append the results as text, or as JSON. */
void sl_ckpt_compare_put(const struct sl_ckpt_comparison *all, struct sl_text *text);
void sl_ckpt_compare_json(const struct sl_ckpt_comparison *all, struct sl_text *text);

#endif
