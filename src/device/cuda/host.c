/* The module's entry, and how it reports errors to the program. */
#include "device/cuda/host.h"

#include "device/cuda/cuda.h"

#include <stdio.h>

extern const struct sl_device_row sl_device_cuda;
extern const struct sl_nccl_link_row sl_cuda_nccl_link_nccl;
extern const struct sl_ipc_row sl_cuda_ipc_ipc;
sl_cuda_module_fn sl_cuda_module;

/* These are set once, before any device is opened. */
static void (*set_message)(const char *text);
static void (*assert_fail)(const char *expr, const char *file, int line);

__attribute__((visibility("default"))) const struct sl_cuda_module *
sl_cuda_module(const struct sl_cuda_host *host) {
    if (host->version != SL_CUDA_MODULE_VERSION ||
        host->device_row_bytes != sizeof(struct sl_device_row) ||
        host->program_bytes != sizeof(struct sl_program))
        return NULL;
    set_message = host->set_message;
    assert_fail = host->assert_fail;
    sl_set_out_of_memory(host->out_of_memory);
    static const struct sl_cuda_module module = {&sl_device_cuda, &sl_cuda_nccl_link_nccl,
                                                 &sl_cuda_ipc_ipc};
    return &module;
}

static _Thread_local char message[2048];

sl_err sl_vfail(sl_err code, const char *fmt, va_list args) {
    vsnprintf(message, sizeof message, fmt, args);
    set_message(message);
    return code;
}

const char *sl_err_message(void) { return message; }

/* The module keeps no trail: the trail begins where the program receives the error. */
sl_err sl_err_pass(sl_err code, const char *file, int line, const char *function) {
    (void)file, (void)line, (void)function;
    return code;
}

sl_err(sl_fail)(sl_err code, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    sl_vfail(code, fmt, args);
    va_end(args);
    return code;
}

void sl_assert_fail(const char *expr, const char *file, int line) {
    assert_fail(expr, file, line);
    __builtin_unreachable();
}

sl_err sl_cuda_check(cudaError_t status, const char *what) {
    if (status == cudaSuccess)
        return SL_OK;
    return sl_fail(SL_ERR_SYSTEM, "cuda: %s: %s", what, cudaGetErrorString(status));
}

sl_err sl_cuda_blas_check(cublasStatus_t status, const char *what) {
    if (status == CUBLAS_STATUS_SUCCESS)
        return SL_OK;
    return sl_fail(SL_ERR_SYSTEM, "cuda: %s: %s", what, cublasLtGetStatusString(status));
}

sl_err sl_cuda_dnn_check(cudnnStatus_t status, const char *what) {
    if (status == CUDNN_STATUS_SUCCESS)
        return SL_OK;
    return sl_fail(SL_ERR_SYSTEM, "cuda: %s: %s", what, cudnnGetErrorString(status));
}
