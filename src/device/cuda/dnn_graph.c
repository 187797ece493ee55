/* Graphs of operations for cuDNN's backend. */
#include "device/cuda/dnn_graph.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_INNER = 1000 };

static const cudnnDataType_t fp32 = CUDNN_DATA_FLOAT;

static bool fine(const struct sl_dnn_graph *g) { return g->status == CUDNN_STATUS_SUCCESS; }

static void note(struct sl_dnn_graph *g, cudnnStatus_t status, const char *what) {
    if (!fine(g) || status == CUDNN_STATUS_SUCCESS)
        return;
    g->status = status;
    g->failed = what;
}

static cudnnBackendDescriptor_t make(struct sl_dnn_graph *g, cudnnBackendDescriptorType_t type) {
    cudnnBackendDescriptor_t made = NULL;
    if (!fine(g))
        return NULL;
    SL_ASSERT(g->all_count < SL_DNN_DESCRIPTORS);
    note(g, cudnnBackendCreateDescriptor(type, &made), "a descriptor");
    if (made)
        g->all[g->all_count++] = made;
    return made;
}

struct many {
    int64_t count;
    const void *at;
};

static void set_many(struct sl_dnn_graph *g, cudnnBackendDescriptor_t to,
                     cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                     struct many values) {
    if (fine(g))
        note(g, cudnnBackendSetAttribute(to, name, type, values.count, values.at), "an attribute");
}

static void set(struct sl_dnn_graph *g, cudnnBackendDescriptor_t to,
                cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                const void *value) {
    set_many(g, to, name, type, (struct many){1, value});
}

static void set_part(struct sl_dnn_graph *g, cudnnBackendDescriptor_t to,
                     cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t part) {
    set(g, to, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, &part);
}

static void finish(struct sl_dnn_graph *g, cudnnBackendDescriptor_t made, const char *what) {
    if (fine(g))
        note(g, cudnnBackendFinalize(made), what);
}

static void add_op(struct sl_dnn_graph *g, cudnnBackendDescriptor_t op, const char *what) {
    finish(g, op, what);
    if (!fine(g))
        return;
    SL_ASSERT(g->op_count < SL_DNN_OPERATIONS);
    g->ops[g->op_count++] = op;
}

/* ---- tensors ---- */

static sl_dnn_tensor tensor(struct sl_dnn_graph *g, int64_t id, sl_dnn_tensor t, bool inner,
                            bool by_value) {
    int64_t align = 16;
    t.at = make(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    set(g, t.at, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, &t.type);
    set_many(g, t.at, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, (struct many){4, t.dim});
    set_many(g, t.at, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, (struct many){4, t.stride});
    set(g, t.at, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, &id);
    set(g, t.at, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, &align);
    set(g, t.at, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, &inner);
    set(g, t.at, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, &by_value);
    finish(g, t.at, "a tensor");
    return t;
}

sl_dnn_tensor sl_cuda_dnn_memory(struct sl_dnn_graph *g, int64_t id, const sl_dnn_tensor *like) {
    return tensor(g, id, *like, false, false);
}

sl_dnn_tensor sl_cuda_dnn_number(struct sl_dnn_graph *g, int64_t id) {
    sl_dnn_tensor one = {NULL, CUDNN_DATA_FLOAT, {1, 1, 1, 1}, {1, 1, 1, 1}};
    return tensor(g, id, one, false, true);
}

sl_dnn_tensor sl_cuda_dnn_inner(struct sl_dnn_graph *g, const sl_dnn_tensor *like) {
    return tensor(g, FIRST_INNER + g->inner_count++, *like, true, false);
}

/* ---- operations ---- */

void sl_cuda_dnn_matmul(struct sl_dnn_graph *g, sl_dnn_tensor a, sl_dnn_tensor b, sl_dnn_tensor y) {
    sl_cuda_dnn_matmul_upto(g, a, b, y, (struct sl_dnn_upto){0});
}

void sl_cuda_dnn_matmul_upto(struct sl_dnn_graph *g, sl_dnn_tensor a, sl_dnn_tensor b,
                             sl_dnn_tensor y, struct sl_dnn_upto upto) {
    cudnnBackendDescriptor_t how = make(g, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    set(g, how, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, &fp32);
    finish(g, how, "a product");
    cudnnBackendDescriptor_t op = make(g, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    set_part(g, op, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a.at);
    set_part(g, op, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b.at);
    set_part(g, op, CUDNN_ATTR_OPERATION_MATMUL_CDESC, y.at);
    set_part(g, op, CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
    if (upto.m)
        set_part(g, op, CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, upto.m->at);
    if (upto.n)
        set_part(g, op, CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC, upto.n->at);
    if (upto.k)
        set_part(g, op, CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC, upto.k->at);
    add_op(g, op, "a product");
}

void sl_cuda_dnn_reduce(struct sl_dnn_graph *g, cudnnReduceTensorOp_t mode, sl_dnn_tensor x,
                        sl_dnn_tensor y) {
    cudnnBackendDescriptor_t how = make(g, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    set(g, how, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, &mode);
    set(g, how, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, &fp32);
    finish(g, how, "a reduction");
    cudnnBackendDescriptor_t op = make(g, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    set_part(g, op, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x.at);
    set_part(g, op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y.at);
    set_part(g, op, CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
    add_op(g, op, "a reduction");
}

void sl_cuda_dnn_reshape(struct sl_dnn_graph *g, sl_dnn_tensor x, sl_dnn_tensor y) {
    cudnnBackendDescriptor_t op = make(g, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    set_part(g, op, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x.at);
    set_part(g, op, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y.at);
    add_op(g, op, "a transposition");
}

void sl_cuda_dnn_map(struct sl_dnn_graph *g, const struct sl_cuda_dnn_map *map, sl_dnn_tensor y) {
    cudnnBackendDescriptor_t how = make(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    set(g, how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, &map->mode);
    set(g, how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, &map->math);
    if (map->mode == CUDNN_POINTWISE_GEN_INDEX)
        set(g, how, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, &map->axis);
    finish(g, how, "a function");
    cudnnBackendDescriptor_t op = make(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set_part(g, op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
    set_part(g, op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, map->x->at);
    if (map->b)
        set_part(g, op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, map->b->at);
    if (map->t)
        set_part(g, op, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, map->t->at);
    set_part(g, op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y.at);
    add_op(g, op, "a function");
}

sl_dnn_tensor sl_cuda_dnn_mapped(struct sl_dnn_graph *g, cudnnPointwiseMode_t mode, sl_dnn_tensor x,
                                 const sl_dnn_tensor *b) {
    struct sl_cuda_dnn_map map = {.mode = mode, .x = &x, .b = b, .math = fp32};
    sl_dnn_tensor like = x;
    like.type = fp32;
    sl_dnn_tensor y = sl_cuda_dnn_inner(g, &like);
    sl_cuda_dnn_map(g, &map, y);
    return y;
}

/* ---- convolutions ---- */

static cudnnBackendDescriptor_t describe(struct sl_dnn_graph *g,
                                         const struct sl_dnn_convolution *c) {
    cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    int64_t sides = 2;
    cudnnBackendDescriptor_t how = make(g, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    set(g, how, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, &fp32);
    set(g, how, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, &mode);
    set(g, how, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, &sides);
    set_many(g, how, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, (struct many){2, c->gap});
    set_many(g, how, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64,
             (struct many){2, c->stride});
    set_many(g, how, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64,
             (struct many){2, c->pad});
    set_many(g, how, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64,
             (struct many){2, c->pad});
    finish(g, how, "a convolution");
    return how;
}

void sl_cuda_dnn_convolve(struct sl_dnn_graph *g, const struct sl_dnn_convolution *c,
                          sl_dnn_tensor x, sl_dnn_tensor w, sl_dnn_tensor y) {
    static const struct {
        cudnnBackendDescriptorType_t type;
        cudnnBackendAttributeName_t how, x, w, y, alpha, beta;
    } rows[] = {
        [SL_DNN_CONV] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                         CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
        [SL_DNN_CONV_DX] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
        [SL_DNN_CONV_DW] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
    };
    static const float one = 1, zero = 0;
    cudnnBackendDescriptor_t how = describe(g, c), op = make(g, rows[c->what].type);
    set_part(g, op, rows[c->what].how, how);
    set_part(g, op, rows[c->what].x, x.at);
    set_part(g, op, rows[c->what].w, w.at);
    set_part(g, op, rows[c->what].y, y.at);
    set(g, op, rows[c->what].alpha, CUDNN_TYPE_FLOAT, &one);
    set(g, op, rows[c->what].beta, CUDNN_TYPE_FLOAT, &zero);
    add_op(g, op, "a convolution");
}

/* ---- plans ---- */

enum { MAX_ENGINES = 16, MAX_NOTES = 32 };

/* Asks the heuristic for engines of the graph. Returns their number. */
static int64_t find_engines(struct sl_dnn_graph *g, cudnnHandle_t handle,
                            cudnnBackendDescriptor_t found[MAX_ENGINES]) {
    cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    int64_t count = 0;
    cudnnBackendDescriptor_t graph = make(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set(g, graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, &handle);
    set_many(g, graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
             (struct many){g->op_count, g->ops});
    finish(g, graph, "the graph");
    cudnnBackendDescriptor_t ask = make(g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    set_part(g, ask, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    set(g, ask, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, &mode);
    finish(g, ask, "the heuristic");
    for (int i = 0; i < MAX_ENGINES; i++)
        found[i] = make(g, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (fine(g))
        note(g,
             cudnnBackendGetAttribute(ask, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                      CUDNN_TYPE_BACKEND_DESCRIPTOR, MAX_ENGINES, &count, found),
             "the engines");
    return fine(g) ? count : 0;
}

/* Returns true if the engine of this configuration declares that it is not deterministic. */
static bool wavers(struct sl_dnn_graph *g, cudnnBackendDescriptor_t config) {
    cudnnBackendNumericalNote_t notes[MAX_NOTES];
    cudnnBackendDescriptor_t engine = make(g, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    int64_t count = 0;
    if (!fine(g) ||
        cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                 1, &count, &engine) != CUDNN_STATUS_SUCCESS ||
        cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                 CUDNN_TYPE_NUMERICAL_NOTE, MAX_NOTES, &count,
                                 notes) != CUDNN_STATUS_SUCCESS)
        return true;
    for (int64_t i = 0; i < count && i < MAX_NOTES; i++)
        if (notes[i] == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)
            return true;
    return false;
}

static bool try_engine(struct sl_dnn_graph *g, cudnnHandle_t handle,
                       cudnnBackendDescriptor_t engine) {
    int64_t bytes = 0;
    if (g->exact && wavers(g, engine))
        return false;
    cudnnBackendDescriptor_t plan = make(g, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    set(g, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, &handle);
    set_part(g, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, engine);
    if (!fine(g) || cudnnBackendFinalize(plan) != CUDNN_STATUS_SUCCESS)
        return false;
    note(g,
         cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
                                  1, NULL, &bytes),
         "the workspace");
    if (!fine(g) || (g->max_workspace && bytes > g->max_workspace))
        return false;
    g->plan = plan;
    g->workspace_bytes = bytes;
    return true;
}

sl_err sl_cuda_dnn_plan(struct sl_dnn_graph *g, cudnnHandle_t handle) {
    cudnnBackendDescriptor_t found[MAX_ENGINES];
    int64_t count = find_engines(g, handle, found);
    for (int64_t i = 0; i < count; i++)
        if (try_engine(g, handle, found[i]))
            return SL_OK;
    note(g, CUDNN_STATUS_NOT_SUPPORTED, "a plan");
    return sl_fail(SL_ERR_REFUSED, "cuDNN: %s of a graph of %d operations: %s", g->failed,
                   g->op_count, cudnnGetErrorString(g->status));
}

/* ---- the device's plans ---- */

struct planned {
    void *key;
    size_t key_bytes;
    bool supported;
    struct sl_dnn_graph graph;
};

struct sl_dnn_plans {
    struct planned **at;
    int count;
};

static struct planned *make_planned(struct sl_cuda_device *cuda, const void *key, size_t key_bytes,
                                    void (*make_graph)(struct sl_dnn_graph *g, const void *key)) {
    struct planned *p = calloc(1, sizeof *p);
    if (!p)
        sl_out_of_memory(sizeof *p);
    p->key = memcpy(sl_realloc(NULL, key_bytes), key, key_bytes);
    p->key_bytes = key_bytes;
    make_graph(&p->graph, key);
    p->supported = sl_cuda_dnn_plan(&p->graph, cuda->dnn) == SL_OK;
    return p;
}

struct sl_dnn_graph *sl_cuda_dnn_find(struct sl_cuda_device *cuda, const void *key,
                                      size_t key_bytes,
                                      void (*make_graph)(struct sl_dnn_graph *g, const void *key)) {
    if (!cuda->plans && !(cuda->plans = calloc(1, sizeof *cuda->plans)))
        sl_out_of_memory(sizeof *cuda->plans);
    struct sl_dnn_plans *all = cuda->plans;
    struct planned *p = NULL;
    for (int i = 0; i < all->count && !p; i++)
        if (all->at[i]->key_bytes == key_bytes && memcmp(all->at[i]->key, key, key_bytes) == 0)
            p = all->at[i];
    if (!p) {
        all->at = sl_realloc(all->at, sizeof *all->at * (size_t)(all->count + 1));
        p = all->at[all->count++] = make_planned(cuda, key, key_bytes, make_graph);
    }
    return p->supported ? &p->graph : NULL;
}

void sl_cuda_dnn_plans_close(struct sl_dnn_plans *all) {
    if (!all)
        return;
    for (int i = 0; i < all->count; i++) {
        sl_cuda_dnn_close(&all->at[i]->graph);
        free(all->at[i]->key);
        free(all->at[i]);
    }
    free(all->at);
    free(all);
}

/* ---- running ---- */

void sl_cuda_dnn_bind(struct sl_dnn_binding *binding, int64_t id, const void *at) {
    SL_ASSERT(binding->count < SL_DNN_BOUND);
    binding->id[binding->count] = id;
    binding->at[binding->count++] = (void *)at;
}

static cudnnStatus_t execute(const struct sl_dnn_graph *g, cudnnHandle_t handle,
                             const struct sl_dnn_binding *binding, cudnnBackendDescriptor_t pack) {
    cudnnStatus_t status = cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS,
                                                    CUDNN_TYPE_INT64, binding->count, binding->id);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                                          CUDNN_TYPE_VOID_PTR, binding->count, binding->at);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE,
                                          CUDNN_TYPE_VOID_PTR, 1, &binding->workspace);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendFinalize(pack);
    return status == CUDNN_STATUS_SUCCESS ? cudnnBackendExecute(handle, g->plan, pack) : status;
}

sl_err sl_cuda_dnn_run(const struct sl_dnn_graph *g, cudnnHandle_t handle,
                       const struct sl_dnn_binding *binding) {
    cudnnBackendDescriptor_t pack;
    SL_TRY(SL_CUDNN(cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack)));
    cudnnStatus_t status = execute(g, handle, binding, pack);
    cudnnBackendDestroyDescriptor(pack);
    return sl_cuda_dnn_check(status, "running a graph of cuDNN");
}

void sl_cuda_dnn_close(struct sl_dnn_graph *g) {
    while (g->all_count > 0)
        cudnnBackendDestroyDescriptor(g->all[--g->all_count]);
}
