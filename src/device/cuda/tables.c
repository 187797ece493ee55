/* The tables of CUDA kernels, one per family. */
#include "device/cuda/cuda.h"

#include <string.h>

extern const struct sl_cuda_kernel sl_cuda_attentions[];
extern const struct sl_cuda_kernel sl_cuda_batchnorms[];
extern const struct sl_cuda_kernel sl_cuda_convolutions[];
extern const struct sl_cuda_kernel sl_cuda_copies[];
extern const struct sl_cuda_kernel sl_cuda_elementwise[];
extern const struct sl_cuda_kernel sl_cuda_embeddings[];
extern const struct sl_cuda_kernel sl_cuda_entropies[];
extern const struct sl_cuda_kernel sl_cuda_experts[];
extern const struct sl_cuda_kernel sl_cuda_extrema[];
extern const struct sl_cuda_kernel sl_cuda_features[];
extern const struct sl_cuda_kernel sl_cuda_groupnorms[];
extern const struct sl_cuda_kernel sl_cuda_images[];
extern const struct sl_cuda_kernel sl_cuda_indexing[];
extern const struct sl_cuda_kernel sl_cuda_losses[];
extern const struct sl_cuda_kernel sl_cuda_lstms[];
extern const struct sl_cuda_kernel sl_cuda_norms_back[];
extern const struct sl_cuda_kernel sl_cuda_norms_table[];
extern const struct sl_cuda_kernel sl_cuda_pointwise[];
extern const struct sl_cuda_kernel sl_cuda_products[];
extern const struct sl_cuda_kernel sl_cuda_reductions[];
extern const struct sl_cuda_kernel sl_cuda_softmaxes[];

const struct sl_cuda_kernel *const sl_cuda_tables[] = {
    sl_cuda_attentions,  sl_cuda_batchnorms, sl_cuda_convolutions, sl_cuda_copies,
    sl_cuda_elementwise, sl_cuda_embeddings, sl_cuda_entropies,    sl_cuda_extrema,
    sl_cuda_features,    sl_cuda_images,     sl_cuda_indexing,     sl_cuda_losses,
    sl_cuda_lstms,       sl_cuda_norms_back, sl_cuda_norms_table,  sl_cuda_pointwise,
    sl_cuda_products,    sl_cuda_reductions, sl_cuda_softmaxes,    NULL,
};

const struct sl_cuda_kernel *sl_cuda_find(const char *name) {
    for (int t = 0; sl_cuda_tables[t]; t++)
        for (const struct sl_cuda_kernel *k = sl_cuda_tables[t]; k->name; k++)
            if (strcmp(k->name, name) == 0)
                return k;
    return NULL;
}

bool sl_cuda_has_kernel(const char *name) { return sl_cuda_find(name) != NULL; }
