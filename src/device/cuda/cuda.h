/* The CUDA device: one worker's GPU with its streams and library handles, and the table of kernels.
 *
 * All of this is in the module libsluice_cuda.so, which the program loads when a CUDA device is
 * asked for (device/module_cuda.c); nothing else of the program knows CUDA.
 *
 *   sl_program --bind--> sl_exec: per instruction a kernel; scratch; 16-bit copies of weights
 *   run(phase)  ------->  the phase's kernels on the compute stream, as a graph after the first
 * time
 *
 * A kernel launches on call->stream and returns at once. Operands are fp32, bf16, fp16 or int32,
 * each by its own dtype: a kernel takes any mixture, sums in fp32 and rounds once, when it stores.
 * Results do not depend on the order in which blocks run: no floating-point atomics anywhere.
 */
#ifndef SL_DEVICE_CUDA_CUDA_H
#define SL_DEVICE_CUDA_CUDA_H

#include <cublasLt.h>
#include <cuda_runtime.h>
#include <cudnn.h>

#ifdef __cplusplus
#define _Noreturn [[noreturn]] /* of our headers, which are C */
extern "C" {
#endif

#include "device/device.h"

/* What changes from pass to pass and must not be baked into a graph; in device memory. */
struct sl_cuda_draw {
    uint64_t seed;
    int64_t first_sample;
};

/* What an array of floats holds. The libraries' names for it. */
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
struct sl_dnn_plans;  /* of cuDNN; see dnn_graph.h */
struct sl_fingerprint;

struct sl_cuda_device {
    struct sl_device device; /* first: the handle is this struct */
    int index;
    cudaStream_t streams[SL_STREAM_COUNT];
    cublasLtHandle_t blas;
    cudnnHandle_t dnn;
    struct sl_cuda_gemms *gemms;
    struct sl_dnn_plans *plans;
    void *workspace; /* of the libraries, on the compute stream */
    int64_t workspace_bytes;
    struct sl_fingerprint *print; /* device memory, and a clock: to choose among products */
    cudaEvent_t clock[2];
    bool tf32;            /* fp32 products may round their factors to tf32 */
    struct sl_cuda_slab { /* weights (a version of them) with their copy in 16 bits */
        const char *at;
        int64_t size_bytes;
        void *halves;
        enum sl_half half;
        bool fresh; /* halves are of the weights as they are */
    } slabs[SL_CUDA_SLABS];
    int slab_count;
    struct sl_cuda_pin { /* a ring of pinned memory for uploads and scalars */
        char *at;
        int64_t size_bytes, next; /* next: in the half at hand */
        int half;
        cudaEvent_t done[2]; /* of each half */
    } pin;
    struct sl_cuda_room { /* device memory that grows in the first step only */
        void *at;
        int64_t size_bytes;
    } room;
};

/* Which operands of an instruction are images with their channels last: bits, by number. */
struct sl_cuda_last {
    uint32_t in, out;
};

struct sl_cuda_call {
    const struct sl_instr *instr;
    struct sl_cuda_last last;
    const void *in[SL_INSTR_IN]; /* NULL: absent */
    void *out[SL_INSTR_OUT];
    struct sl_cuda_device *device;
    cudaStream_t stream;
    void *scratch; /* scratch_bytes() of this kernel at least, 256-byte aligned, not zeroed */
    bool add;      /* out[0] += instead of =; only for instructions that accumulate */
    const struct sl_cuda_draw *draw;
    int64_t samples;
};

struct sl_cuda_kernel {
    const char *name; /* of sl_instr.kernel; a row {0} ends a table */
    sl_err (*run)(const struct sl_cuda_call *call);
    int64_t (*scratch_bytes)(const struct sl_instr *instr); /* NULL: none */
    bool halves; /* reads weights in 16 bits when activations are (products, convolutions) */
    /* Scratch that the device's libraries ask for, the kernel's own included; the call has no
     * addresses yet. NULL: none. */
    int64_t (*library_bytes)(const struct sl_cuda_call *call);
    bool draws; /* uses the seed of the step */
};

/* Tables, one per family of kernels; ends with NULL. */
extern const struct sl_cuda_kernel *const sl_cuda_tables[];
const struct sl_cuda_kernel *sl_cuda_find(const char *name);

/* Errors of the three libraries as ours: "what: message". */
sl_err sl_cuda_check(cudaError_t status, const char *what);
sl_err sl_cuda_blas_check(cublasStatus_t status, const char *what);
sl_err sl_cuda_dnn_check(cudnnStatus_t status, const char *what);
#define SL_CUDA(call_) sl_cuda_check((call_), #call_)
#define SL_CUBLAS(call_) sl_cuda_blas_check((call_), #call_)
#define SL_CUDNN(call_) sl_cuda_dnn_check((call_), #call_)

/* layout.c: which images of a program lie with their channels last, for each instruction; and which
 * are turned where, because they come from other stages or go there: as [B,C,H,W]. */
struct sl_cuda_turn {
    struct sl_operand image; /* in SLOT */
    enum sl_phase phase;
    bool at_end;  /* of the phase, else at its beginning */
    bool to_last; /* else back */
};
struct sl_cuda_layout {
    struct sl_cuda_last *last; /* [instr_count] */
    struct sl_cuda_turn *turns;
    int turn_count;
};
void sl_cuda_layout_make(struct sl_cuda_device *cuda, const struct sl_program *program,
                         const struct sl_instr *instrs, struct sl_cuda_layout *out);
void sl_cuda_layout_free(struct sl_cuda_layout *layout);
/* turn.cu: in place, by way of scratch of the image's size. */
sl_err sl_cuda_turn(const struct sl_cuda_turn *turn, void *image, void *scratch,
                    cudaStream_t stream);

/* facts.c: the GPUs of this computer */
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
/* halves.c: something wrote to this memory, or it is gone; weights in 16 bits, made anew where they
 * changed. */
void sl_cuda_touch(struct sl_cuda_device *cuda, const void *at, int64_t size_bytes);
void sl_cuda_forget(struct sl_cuda_device *cuda, const void *at);
/* The fresh copy of these weights, for whoever writes both; NULL: there is none. */
void *sl_cuda_half_of(struct sl_cuda_device *cuda, const void *at, int64_t size_bytes,
                      enum sl_half *half);
struct sl_weights { /* a version of them */
    const void *at;
    int64_t size_bytes;
};
sl_err sl_cuda_halves(struct sl_cuda_device *cuda, struct sl_weights weights, enum sl_half half,
                      void **out);
/* cast.cu: fp32 to 16 bits */
sl_err sl_cuda_round(void *to, enum sl_half half, const void *from, int64_t count,
                     cudaStream_t stream);

/* device.c: pinned bytes that stay until the copy on `stream` has read them; device memory. */
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
