/* The CUDA device: one worker's GPU with its streams and library handles, and the table of
 * kernels.
 *
 * All of this is in the module libsluice_cuda.so. The program loads it when a CUDA device is
 * opened (device/module_cuda.c); no other code knows CUDA.
 *
 *   sl_program --bind--> sl_exec: a kernel per instruction, scratch, 16-bit copies of weights
 *   run(phase) --------> the phase's kernels run on the compute stream; later as a CUDA graph
 *
 * A kernel launches on call->stream and returns at once. Each operand is fp32, bf16, fp16 or
 * int32: a kernel accepts any mixture, adds in fp32 and rounds once, when it stores. Results do
 * not depend on the order in which blocks run: there are no floating-point atomics. */
#ifndef SL_DEVICE_CUDA_CUDA_H
#define SL_DEVICE_CUDA_CUDA_H

#include <cublasLt.h>
#include <cuda_runtime.h>
#include <cudnn.h>

#ifdef __cplusplus
#define _Noreturn [[noreturn]] /* for C headers of Sluice that C++ includes */
extern "C" {
#endif

#include "device/device.h"

/* Values that change from pass to pass. Kernels read them from device memory, because a graph would
 * freeze arguments. */
struct sl_cuda_draw {
    uint64_t seed;
    int64_t first_sample;
};

/* The type of the elements of a float array; below, its names in the libraries. */
enum sl_half { SL_HALF_NOT, SL_HALF_BF16, SL_HALF_FP16 };
static inline enum sl_half sl_half_of(enum sl_dtype dtype) {
    return dtype == SL_BF16 ? SL_HALF_BF16 : dtype == SL_FP16 ? SL_HALF_FP16 : SL_HALF_NOT;
}
static inline cudaDataType_t sl_half_blas(int half) {
    return half == SL_HALF_BF16 ? CUDA_R_16BF : half == SL_HALF_FP16 ? CUDA_R_16F : CUDA_R_32F;
}
static inline cudnnDataType_t sl_half_dnn(int half) {
    return half == SL_HALF_BF16   ? CUDNN_DATA_BFLOAT16
           : half == SL_HALF_FP16 ? CUDNN_DATA_HALF
                                  : CUDNN_DATA_FLOAT;
}

enum { SL_CUDA_SLABS = 64 };

struct sl_cuda_gemms; /* cuBLASLt plans by shape; see gemm.h */
struct sl_dnn_plans;  /* cuDNN plans by key; see dnn_graph.h */
struct sl_fingerprint;

struct sl_cuda_device {
    struct sl_device device; /* first, because a handle to the device points to this struct */
    int index;
    cudaStream_t streams[SL_STREAM_COUNT];
    cublasLtHandle_t blas;
    cudnnHandle_t dnn;
    struct sl_cuda_gemms *gemms;
    struct sl_dnn_plans *plans;
    void *workspace; /* for the libraries, on the compute stream */
    int64_t workspace_bytes;
    struct sl_fingerprint *print; /* scratch of gemm.c, which compares algorithms */
    cudaEvent_t clock[2];
    bool tf32;            /* fp32 products may round their factors to tf32 */
    struct sl_cuda_slab { /* one version of the weights, with its 16-bit copy */
        const char *at;
        int64_t size_bytes;
        void *halves;
        enum sl_half half;
        bool fresh; /* `halves` is up to date */
    } slabs[SL_CUDA_SLABS];
    int slab_count;
    struct sl_cuda_pin { /* a ring of pinned memory for uploads and scalars */
        char *at;
        int64_t size_bytes, next; /* `next` is the offset in the current half */
        int half;
        cudaEvent_t done[2]; /* one event per half of the ring */
    } pin;
    struct sl_cuda_room { /* device memory that grows only in the first step */
        void *at;
        int64_t size_bytes;
    } room;
};

/* Bit masks that tell which operands of an instruction are images with their channels last. */
struct sl_cuda_last {
    uint32_t in, out;
};

struct sl_cuda_call {
    const struct sl_instr *instr;
    struct sl_cuda_last last;
    const void *in[SL_INSTR_IN]; /* NULL: the operand is absent */
    void *out[SL_INSTR_OUT];
    struct sl_cuda_device *device;
    cudaStream_t stream;
    /* at least what scratch_bytes() of this kernel returns, 256-byte aligned, not zeroed */
    void *scratch;
    bool add; /* adds to out[0] instead of overwriting it; only for instructions that accumulate */
    const struct sl_cuda_draw *draw;
    int64_t samples;
};

struct sl_cuda_kernel {
    const char *name; /* name in sl_instr.kernel; a row {0} ends a table */
    sl_err (*run)(const struct sl_cuda_call *call);
    int64_t (*scratch_bytes)(const struct sl_instr *instr); /* NULL: needs no scratch */
    bool halves; /* reads 16-bit weights if activations have 16 bits: products, convolutions */
    /* Returns the bytes of scratch with those that libraries need; the call has no addresses yet.
     * NULL: no library needs any. */
    int64_t (*library_bytes)(const struct sl_cuda_call *call);
    bool draws; /* uses the random seed of the step */
};

/* The tables, one per family of kernels; the list ends with NULL. */
extern const struct sl_cuda_kernel *const sl_cuda_tables[];
const struct sl_cuda_kernel *sl_cuda_find(const char *name);

/* Turn an error of one of the three libraries into an sl_err with the message "what: ...". */
sl_err sl_cuda_check(cudaError_t status, const char *what);
sl_err sl_cuda_blas_check(cublasStatus_t status, const char *what);
sl_err sl_cuda_dnn_check(cudnnStatus_t status, const char *what);
#define SL_CUDA(call_) sl_cuda_check((call_), #call_)
#define SL_CUBLAS(call_) sl_cuda_blas_check((call_), #call_)
#define SL_CUDNN(call_) sl_cuda_dnn_check((call_), #call_)

/* layout.c: tells for each instruction which images have their channels last, and which images of
 * other stages are transposed from and to [B,C,H,W], and when. */
struct sl_cuda_turn {
    struct sl_operand image; /* image in space SLOT */
    enum sl_phase phase;
    bool at_end;  /* at the end of the phase, else at its beginning */
    bool to_last; /* from [B,C,H,W] to channels last, else back */
};
struct sl_cuda_layout {
    struct sl_cuda_last *last; /* [instr_count] */
    struct sl_cuda_turn *turns;
    int turn_count;
};
void sl_cuda_layout_make(struct sl_cuda_device *cuda, const struct sl_program *program,
                         const struct sl_instr *instrs, struct sl_cuda_layout *out);
void sl_cuda_layout_free(struct sl_cuda_layout *layout);
/* turn.cu: transposes in place. `scratch` has the size of the image. */
sl_err sl_cuda_turn(const struct sl_cuda_turn *turn, void *image, void *scratch,
                    cudaStream_t stream);

/* facts.c: describes the GPUs of this host. */
int sl_cuda_list(struct sl_device_facts *out, int max);

/* exec.c */
bool sl_cuda_has_kernel(const char *name);
sl_err sl_cuda_bind(struct sl_device *device, const struct sl_program *program,
                    struct sl_exec **out);
void sl_cuda_unbind(struct sl_device *device, struct sl_exec *exec);
sl_err sl_cuda_run(struct sl_device *device, struct sl_exec *exec,
                   const struct sl_device_args *args);
int64_t sl_cuda_scratch_bytes(const struct sl_device *device, const struct sl_exec *exec);

/* optim.cu, gradnorm.cu */
sl_err sl_cuda_add(struct sl_device *device, void *y, const void *x, int64_t numel);
sl_err sl_cuda_step(struct sl_device *device, const struct sl_step_item *items, int count);
sl_err sl_cuda_predict(struct sl_device *device, const struct sl_step_item *items, int count,
                       double ahead);
sl_err sl_cuda_norm_sq(struct sl_device *device, const struct sl_norm_item *items, int count);
sl_err sl_cuda_muon(struct sl_cuda_device *cuda, const struct sl_step_item *item);
/* halves.c: tells that this memory was written, so its 16-bit copy is out of date. */
void sl_cuda_touch(struct sl_cuda_device *cuda, const void *at, int64_t size_bytes);
/* Frees the copy of this memory, which will be freed itself. */
void sl_cuda_forget(struct sl_cuda_device *cuda, const void *at);
/* Returns the up-to-date 16-bit copy of these weights, for a kernel that writes both; NULL if there
 * is none. */
void *sl_cuda_half_of(struct sl_cuda_device *cuda, const void *at, int64_t size_bytes,
                      enum sl_half *half);
struct sl_weights { /* one version of the weights */
    const void *at;
    int64_t size_bytes;
};
/* Returns the 16-bit copy of these weights, after converting them if it is out of date. */
sl_err sl_cuda_halves(struct sl_cuda_device *cuda, struct sl_weights weights, enum sl_half half,
                      void **out);
/* cast.cu: converts fp32 to 16 bits. */
sl_err sl_cuda_round(void *to, enum sl_half half, const void *from, int64_t count,
                     cudaStream_t stream);

/* device.c: returns pinned bytes that stay valid until the copy on `stream` has read them. */
sl_err sl_cuda_pin(struct sl_cuda_device *cuda, int64_t size_bytes, cudaStream_t stream,
                   void **out);
sl_err sl_cuda_room(struct sl_cuda_device *cuda, int64_t size_bytes, void **out);

static inline struct sl_cuda_device *sl_cuda_of(struct sl_device *device) {
    return (struct sl_cuda_device *)device;
}

#ifdef __cplusplus
}
#endif

#endif
