/* Graphs of operations for cuDNN's backend: tensors, operations on them, an execution plan.
 *
 *   struct sl_dnn_graph g = {0};
 *   sl_dnn_tensor x = sl_cuda_dnn_memory(&g, ...);   a tensor in memory, with an id
 *   sl_cuda_dnn_matmul(&g, x, w, y); ...             keeps the first failure; later calls do nothing
 *   sl_cuda_dnn_plan(&g, handle)                     an engine for the graph; SL_ERR_REFUSED: none
 *   sl_cuda_dnn_run(&g, handle, &binding)            addresses by id
 */
#ifndef SL_DEVICE_CUDA_DNN_GRAPH_H
#define SL_DEVICE_CUDA_DNN_GRAPH_H

#include "device/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SL_DNN_DESCRIPTORS = 192, SL_DNN_OPERATIONS = 40, SL_DNN_BOUND = 16 };

typedef struct sl_dnn_tensor {
    cudnnBackendDescriptor_t at;
    cudnnDataType_t type;
    int64_t dim[4], stride[4]; /* strides in elements */
} sl_dnn_tensor;

struct sl_dnn_graph {
    cudnnBackendDescriptor_t all[SL_DNN_DESCRIPTORS], ops[SL_DNN_OPERATIONS];
    int all_count, op_count;
    int64_t inner_count; /* number of values inside the graph so far */
    cudnnStatus_t status;
    const char *failed;    /* name of the call that failed first */
    bool exact;            /* use only engines that declare that they are deterministic */
    int64_t max_workspace; /* bytes; 0: any */
    cudnnBackendDescriptor_t plan;
    int64_t workspace_bytes;
};

/* Adds a tensor in memory, aligned to 16 bytes. Ids are below 1000. */
sl_dnn_tensor sl_cuda_dnn_memory(struct sl_dnn_graph *g, int64_t id, const sl_dnn_tensor *like);
/* Adds an fp32 number that the host passes at each run. */
sl_dnn_tensor sl_cuda_dnn_number(struct sl_dnn_graph *g, int64_t id);
/* Adds a value that is never stored. */
sl_dnn_tensor sl_cuda_dnn_inner(struct sl_dnn_graph *g, const sl_dnn_tensor *like);

void sl_cuda_dnn_matmul(struct sl_dnn_graph *g, sl_dnn_tensor a, sl_dnn_tensor b, sl_dnn_tensor y);
/* Limits for y [m,n] = a [m,k] b [k,n]: the number of rows, columns or terms of each sample, as an
 * int tensor [batch,1,1,1] in memory. NULL: no limit. */
struct sl_dnn_upto {
    const sl_dnn_tensor *m, *n, *k;
};
void sl_cuda_dnn_matmul_upto(struct sl_dnn_graph *g, sl_dnn_tensor a, sl_dnn_tensor b,
                             sl_dnn_tensor y, struct sl_dnn_upto upto);
void sl_cuda_dnn_reduce(struct sl_dnn_graph *g, cudnnReduceTensorOp_t op, sl_dnn_tensor x,
                        sl_dnn_tensor y);
/* y is x with another shape and strides. This transposes. */
void sl_cuda_dnn_reshape(struct sl_dnn_graph *g, sl_dnn_tensor x, sl_dnn_tensor y);

struct sl_cuda_dnn_map {
    cudnnPointwiseMode_t mode;
    const sl_dnn_tensor *x, *b, *t; /* b and t are NULL if the mode has no such operand */
    cudnnDataType_t math;
    int64_t axis; /* for CUDNN_POINTWISE_GEN_INDEX only */
};
void sl_cuda_dnn_map(struct sl_dnn_graph *g, const struct sl_cuda_dnn_map *map, sl_dnn_tensor y);
/* Returns op(x, b) in fp32, with the shape of x. */
sl_dnn_tensor sl_cuda_dnn_mapped(struct sl_dnn_graph *g, cudnnPointwiseMode_t mode, sl_dnn_tensor x,
                                 const sl_dnn_tensor *b);

enum sl_dnn_conv { SL_DNN_CONV, SL_DNN_CONV_DX, SL_DNN_CONV_DW };
/* A convolution of an image x with a filter w, whose result is y, or one of its gradients. The
 * number of groups follows from the channels. */
struct sl_dnn_convolution {
    enum sl_dnn_conv what;
    int64_t stride[2], pad[2], gap[2];
};
void sl_cuda_dnn_convolve(struct sl_dnn_graph *g, const struct sl_dnn_convolution *c,
                          sl_dnn_tensor x, sl_dnn_tensor w, sl_dnn_tensor y);

/* Plans with the first of the heuristic's engines that supports the graph, which is always the same
 * one. */
sl_err sl_cuda_dnn_plan(struct sl_dnn_graph *g, cudnnHandle_t handle);

/* Returns the planned graph of a key, or NULL if cuDNN has no engine for it. `make` builds it at
 * the first call; the device keeps it. Keys are compared byte by byte, so initialise them with
 * zeros. */
struct sl_dnn_graph *sl_cuda_dnn_find(struct sl_cuda_device *cuda, const void *key,
                                      size_t key_bytes,
                                      void (*make)(struct sl_dnn_graph *g, const void *key));
void sl_cuda_dnn_plans_close(struct sl_dnn_plans *plans);

struct sl_dnn_binding {
    int count;
    int64_t id[SL_DNN_BOUND];
    /* device memory; for a number, host memory that is read during the call */
    void *at[SL_DNN_BOUND];
    void *workspace;
};
void sl_cuda_dnn_bind(struct sl_dnn_binding *binding, int64_t id, const void *at);
sl_err sl_cuda_dnn_run(const struct sl_dnn_graph *g, cudnnHandle_t handle,
                       const struct sl_dnn_binding *binding);
void sl_cuda_dnn_close(struct sl_dnn_graph *g);

#ifdef __cplusplus
}
#endif

#endif
