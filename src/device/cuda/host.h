/* The interface between the program and the module libsluice_cuda.so.
 *
 * The program looks up the one exported function and calls it once. The module gets functions of
 * the program through `host`; all other code that it uses is compiled into it.
 */
#ifndef SL_DEVICE_CUDA_HOST_H
#define SL_DEVICE_CUDA_HOST_H

#include "device/device.h"
#include "device/ipc.h"
#include "device/nccl_link.h"

enum { SL_CUDA_MODULE_VERSION = 4 };

struct sl_cuda_host {
    int version; /* SL_CUDA_MODULE_VERSION of the program */
    /* sizes of structs of the program, in which program and module must agree */
    size_t device_row_bytes, program_bytes;
    void (*set_message)(const char *text); /* sets the error message of the calling thread */
    void (*assert_fail)(const char *expr, const char *file, int line); /* does not return */
    void (*out_of_memory)(size_t size_bytes);                          /* does not return */
};

struct sl_cuda_module {
    const struct sl_device_row *device;
    const struct sl_nccl_link_row *nccl_link;
    const struct sl_ipc_row *ipc;
};

/* Returns NULL if the module was built for another version of the program. */
typedef const struct sl_cuda_module *sl_cuda_module_fn(const struct sl_cuda_host *host);
#define SL_CUDA_MODULE_SYMBOL "sl_cuda_module"

#endif
