/* Comparing two checkpoints bit by bit, tensor by tensor, by name. */
#ifndef SL_CKPT_COMPARE_H
#define SL_CKPT_COMPARE_H

#include "ckpt/ckpt.h"

/* How one tensor differs. */
struct sl_ckpt_difference {
    const char *name;
    /* why they cannot be compared; "": type and shape agree and values differ */
    const char *reason;
    int64_t elements, count; /* elements: how many differ; count: of how many */
    int64_t first;           /* index of the first element that differs */
    double a, b;             /* the values of that element */
    double largest;          /* largest absolute difference of an element */
};

struct sl_ckpt_comparison {
    struct sl_ckpt *a, *b;
    bool weights_only; /* skip optimizer state and older weight versions */
    /* the results follow */
    int64_t tensors, size_bytes; /* number of tensors that were compared, and their bytes */
    int64_t differing;           /* number of tensors that differ */
    struct sl_ckpt_difference first;
    double largest; /* largest absolute difference over all tensors */
    const char *largest_name;
};

/* Fills the results for a, b and weights_only. Verifies the checksum of every tensor that it
 * reads. */
SL_MUST_CHECK sl_err sl_ckpt_compare(struct sl_ckpt_comparison *all);

/* Have both the same step, seed and data cursor? */
bool sl_ckpt_same_place(const struct sl_ckpt_comparison *all);

/* compare_text.c. Both append the results: put as text, json as JSON. */
void sl_ckpt_compare_put(const struct sl_ckpt_comparison *all, struct sl_text *text);
void sl_ckpt_compare_json(const struct sl_ckpt_comparison *all, struct sl_text *text);

#endif
