/* The tables of CUDA kernels, one per family. */
#include "device/cuda/cuda.h"

#include <string.h>

/* One list makes the declarations and the array, so a family cannot be in only one of them. */
#define FAMILIES(X)                                                                                \
    X(attentions)                                                                                  \
    X(batchnorms)                                                                                  \
    X(convolutions)                                                                                \
    X(copies)                                                                                      \
    X(elementwise)                                                                                 \
    X(embeddings)                                                                                  \
    X(entropies)                                                                                   \
    X(experts)                                                                                     \
    X(extrema)                                                                                     \
    X(features)                                                                                    \
    X(gates)                                                                                       \
    X(groupnorms)                                                                                  \
    X(images)                                                                                      \
    X(indexing)                                                                                    \
    X(losses)                                                                                      \
    X(lstms)                                                                                       \
    X(norm_grads)                                                                                  \
    X(norms_back)                                                                                  \
    X(norms_table)                                                                                 \
    X(pointwise)                                                                                   \
    X(products)                                                                                    \
    X(reductions)                                                                                  \
    X(ropes)                                                                                       \
    X(softmaxes)

#define DECLARE(family) extern const struct sl_cuda_kernel sl_cuda_##family[];
FAMILIES(DECLARE)

#define POINTER(family) sl_cuda_##family,
const struct sl_cuda_kernel *const sl_cuda_tables[] = {FAMILIES(POINTER) NULL};

const struct sl_cuda_kernel *sl_cuda_find(const char *name) {
    for (int t = 0; sl_cuda_tables[t]; t++)
        for (const struct sl_cuda_kernel *k = sl_cuda_tables[t]; k->name; k++)
            if (strcmp(k->name, name) == 0)
                return k;
    return NULL;
}

bool sl_cuda_has_kernel(const char *name) { return sl_cuda_find(name) != NULL; }
