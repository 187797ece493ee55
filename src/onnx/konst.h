/* Constant tensors of an import: values that are known while the graph is built. Integers may be
 * multiples of B, so that arithmetic on shapes keeps the symbolic batch. An axis may have size
 * B, for masks that are equal for all samples and for the sample numbers. */
#ifndef SL_ONNX_KONST_H
#define SL_ONNX_KONST_H

#include "graph/shape.h"
#include "proto/proto.h"

/* Larger constants are not computed; an initialiser may have any size. */
#define SL_ONNX_KONST_MAX ((int64_t)1 << 24)

/* Marks an element that depends on the sample in a way that is not represented. */
#define SL_ONNX_UNKNOWN INT64_MIN

struct sl_onnx_konst {
    int type, rank;
    int64_t dim[SL_ONNX_RANK];
    int64_t count;
    /* bit i: axis i has size B; then dim is 1, and the element stands for all samples */
    unsigned stretch;
    int64_t *per_sample; /* [count] the element is i plus this times the sample number; NULL: 0 */
    double *f;           /* elements that are floating-point numbers */
    struct sl_dim *i;    /* elements that are integers: n, or n times B */
    const struct sl_proto_tensor *from; /* f and i are NULL until they are needed */
};

/* Makes a constant of zeros. */
SL_MUST_CHECK sl_err sl_onnx_konst_new(struct sl_arena *arena, int type, int rank,
                                       const int64_t *dim, struct sl_onnx_konst **out);
/* Makes a constant of a tensor in the file; sl_onnx_konst_load reads its elements. */
struct sl_onnx_konst *sl_onnx_konst_of_tensor(struct sl_arena *arena,
                                              const struct sl_proto_tensor *tensor);
SL_MUST_CHECK sl_err sl_onnx_konst_load(struct sl_arena *arena, struct sl_proto_file *file,
                                        struct sl_onnx_konst *konst);
/* Return elements as plain numbers; SL_ERR_REFUSED if one contains B. */
SL_MUST_CHECK sl_err sl_onnx_konst_int(const struct sl_onnx_konst *konst, int64_t at, int64_t *out);
void sl_onnx_konst_set_sample(struct sl_arena *arena, struct sl_onnx_konst *konst, int64_t at,
                              int64_t per_sample);
int64_t sl_onnx_konst_per_sample(const struct sl_onnx_konst *konst, int64_t at);
/* Returns the size of an axis, with B if it is stretched. */
struct sl_dim sl_onnx_konst_dim(const struct sl_onnx_konst *konst, int axis);
double sl_onnx_konst_number(const struct sl_onnx_konst *konst, int64_t at);
/* Are all elements equal? If so, *value is the value. */
bool sl_onnx_konst_uniform(const struct sl_onnx_konst *konst, double *value);
bool sl_onnx_konst_has_batch(const struct sl_onnx_konst *konst);

/* Computes the node's outputs from constant inputs (NULL: absent). *known is false if this op is
 * not computed here. `out` has node->out_count entries. */
SL_MUST_CHECK sl_err sl_onnx_konst_fold(struct sl_arena *arena, const struct sl_proto_node *node,
                                        const struct sl_onnx_konst *const *in,
                                        struct sl_onnx_konst **out, bool *known);

#endif
