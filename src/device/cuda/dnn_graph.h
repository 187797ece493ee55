/* Graphs of operations for cuDNN's backend: tensors, operations on them, an execution plan.
 *
 *   struct sl_dnn_graph g = {0};
 *   sl_dnn_tensor x = sl_cuda_dnn_memory(&g, ...);     what lies in memory, by an id of its own
 *   sl_cuda_dnn_matmul(&g, x, w, y); ...               the first failure is kept; all after it do
 * nothing sl_cuda_dnn_plan(&g, handle)                       an engine for the whole graph, SL_ERR_REFUSED:
 * there is none sl_cuda_dnn_run(&g, handle, &binding)              addresses by id
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
    int64_t inner_count; /* values inside of the graph so far */
    cudnnStatus_t status;
    const char *failed;    /* what failed first */
    bool exact;            /* only engines that say they are deterministic */
    int64_t max_workspace; /* bytes; 0: any */
    cudnnBackendDescriptor_t plan;
    int64_t workspace_bytes;
};

/* In memory, aligned to 16 bytes; ids are below 1000. */
sl_dnn_tensor sl_cuda_dnn_memory(struct sl_dnn_graph *g, int64_t id, const sl_dnn_tensor *like);
/* One fp32 number that the host gives at each run. */
sl_dnn_tensor sl_cuda_dnn_number(struct sl_dnn_graph *g, int64_t id);
/* A value that is never stored. */
sl_dnn_tensor sl_cuda_dnn_inner(struct sl_dnn_graph *g, const sl_dnn_tensor *like);

void sl_cuda_dnn_matmul(struct sl_dnn_graph *g, sl_dnn_tensor a, sl_dnn_tensor b, sl_dnn_tensor y);
/* The same, but of y [m,n] = a [m,k] b [k,n] only so many rows, columns or terms as these numbers
 * say, one per sample: int [batch,1,1,1] in memory. NULL: all. */
struct sl_dnn_upto {
    const sl_dnn_tensor *m, *n, *k;
};
void sl_cuda_dnn_matmul_upto(struct sl_dnn_graph *g, sl_dnn_tensor a, sl_dnn_tensor b,
                             sl_dnn_tensor y, struct sl_dnn_upto upto);
void sl_cuda_dnn_reduce(struct sl_dnn_graph *g, cudnnReduceTensorOp_t op, sl_dnn_tensor x,
                        sl_dnn_tensor y);
/* y's shape and strides over x's elements: a transposition, here. */
void sl_cuda_dnn_reshape(struct sl_dnn_graph *g, sl_dnn_tensor x, sl_dnn_tensor y);

struct sl_cuda_dnn_map {
    cudnnPointwiseMode_t mode;
    const sl_dnn_tensor *x, *b, *t; /* b, t: NULL where the mode has none */
    cudnnDataType_t math;
    int64_t axis; /* of CUDNN_POINTWISE_GEN_INDEX */
};
void sl_cuda_dnn_map(struct sl_dnn_graph *g, const struct sl_cuda_dnn_map *map, sl_dnn_tensor y);
/* op(x, b) in fp32, in the shape of x. */
sl_dnn_tensor sl_cuda_dnn_mapped(struct sl_dnn_graph *g, cudnnPointwiseMode_t mode, sl_dnn_tensor x,
                                 const sl_dnn_tensor *b);

enum sl_dnn_conv { SL_DNN_CONV, SL_DNN_CONV_DX, SL_DNN_CONV_DW };
/* x: the image or its gradient, w: the filter or its gradient, y: the result or its gradient;
 * groups follow from the channels. */
struct sl_dnn_convolution {
    enum sl_dnn_conv what;
    int64_t stride[2], pad[2], gap[2];
};
void sl_cuda_dnn_convolve(struct sl_dnn_graph *g, const struct sl_dnn_convolution *c,
                          sl_dnn_tensor x, sl_dnn_tensor w, sl_dnn_tensor y);

/* The first of the heuristic's engines that takes the graph: the same every time. */
sl_err sl_cuda_dnn_plan(struct sl_dnn_graph *g, cudnnHandle_t handle);

/* The planned graph of a key, made by `make` when it is asked for the first time and kept by the
 * device. NULL: cuDNN has no engine for it. Keys start as zeros and are compared byte by byte. */
struct sl_dnn_graph *sl_cuda_dnn_find(struct sl_cuda_device *cuda, const void *key,
                                      size_t key_bytes,
                                      void (*make)(struct sl_dnn_graph *g, const void *key));
void sl_cuda_dnn_plans_close(struct sl_dnn_plans *plans);

struct sl_dnn_binding {
    int count;
    int64_t id[SL_DNN_BOUND];
    void *at[SL_DNN_BOUND]; /* device memory; of numbers, host memory that is read at once */
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
