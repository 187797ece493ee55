/* A device: memory, ordered streams, and kernels that run programs.
 *
 * One worker owns one device object and drives it from one thread. Work is put on a stream and
 * runs in order there; events order streams among each other. On the CPU a stream does its work at
 * once. Kernels are looked up when a program is bound, never while it runs; between bind and unbind
 * nothing is allocated.
 */
#ifndef SL_DEVICE_DEVICE_H
#define SL_DEVICE_DEVICE_H

#include "optim/optim.h"
#include "pass/program.h"

struct sl_device_row;
struct sl_exec; /* a program bound to a device's kernels */

enum sl_stream { SL_STREAM_COMPUTE, SL_STREAM_SEND, SL_STREAM_RECV, SL_STREAM_COUNT };

struct sl_device_config {
    int threads; /* CPU: threads of this worker */
    bool bind;   /* CPU: its threads to places (device/bind.h) from `place` on; the caller's thread,
                    which is the first of them, binds itself */
    int place;
    int index; /* GPU: which one */
    bool tf32; /* GPU: products of fp32 numbers may round them to tf32 */
};

struct sl_device {
    const struct sl_device_row *row;
    int threads;
};

/* What one run of a phase needs to know. */
struct sl_run_args {
    enum sl_phase phase;
    bool recompute_done;        /* B, I: phase R has run, and nothing since; not where `whole` */
    void *base[SL_SPACE_COUNT]; /* device memory of each space */
    bool accumulate;            /* false: gradients are written, true: added */
    uint64_t seed;              /* of this step, for dropout */
    int64_t first_sample;       /* number of the first sample of this micro-batch */
    int64_t *op_ns;             /* [instr_count] time per instruction, or NULL */
    /* To look at what an instruction made: called behind each, when its outputs are there; an error
     * ends the run. NULL: none. */
    sl_err (*after)(void *ctx, int instr);
    void *ctx;
};

/* One parameter's optimizer step, or prediction; all pointers are device memory. */
struct sl_step_item {
    const struct sl_optim_param *param;
    struct sl_step_coef coef; /* of this step; of the last one for a prediction */
    struct sl_step_io io;
    double lr;  /* prediction: of the last step */
    float *out; /* prediction: where the predicted weights go */
};

/* The squared norm of one tensor, in the canonical order of optim/norm.h. */
struct sl_norm_item {
    const float *x; /* device memory */
    int64_t count;
    double *sum; /* host memory: the result */
};

/* What is known of one device; 0 or "": not known. */
struct sl_device_facts {
    char name[64];
    int64_t memory_bytes;
    int processors;                /* multiprocessors of a GPU */
    double stream;                 /* bytes per second to and from its memory, at most */
    double flops_fp32, flops_bf16; /* per second, at most */
    double host_rate, peer_rate;   /* bytes per second: to the host, to a neighbour of its kind */
    int peer_links;                /* NVLinks that are up; 0: neighbours go through the host */
};

struct sl_device_row {
    const char *name, *brief;
    bool halves; /* takes programs whose activations are bf16, */
    bool fp16;   /* or fp16 */
    bool tf32;   /* can round the factors of fp32 products to tf32 */
    bool whole;  /* runs a phase as a whole; to look behind every instruction costs much */
    bool apart;  /* its memory is not the host's: only upload, download and copy reach it */
    /* NULL when usable, else why not. */
    const char *(*missing)(void);
    /* How many there are here; the first `most` are described. NULL: the computer itself. */
    int (*list)(struct sl_device_facts *out, int max);
    sl_err (*open)(const struct sl_device_config *config, struct sl_device **out);
    void (*close)(struct sl_device *device);

    /* Memory, zeroed, aligned to 64 bytes at least. */
    sl_err (*alloc)(struct sl_device *device, int64_t size_bytes, void **out);
    void (*free)(struct sl_device *device, void *memory);
    sl_err (*upload)(struct sl_device *device, enum sl_stream stream, void *to, const void *from,
                     int64_t size_bytes);
    sl_err (*download)(struct sl_device *device, enum sl_stream stream, void *to, const void *from,
                       int64_t size_bytes);
    /* From device memory to device memory; `from` may be another device's of the same kind. */
    sl_err (*copy)(struct sl_device *device, enum sl_stream stream, void *to, const void *from,
                   int64_t size_bytes);
    sl_err (*sync)(struct sl_device *device, enum sl_stream stream);

    /* Programs. A missing kernel is named. has_kernel NULL: no fused ones. */
    bool (*has_kernel)(const char *name);
    sl_err (*bind)(struct sl_device *device, const struct sl_program *program,
                   struct sl_exec **out);
    void (*unbind)(struct sl_device *device, struct sl_exec *exec);
    sl_err (*run)(struct sl_device *device, struct sl_exec *exec, const struct sl_run_args *args);
    /* What binding this program added to the scratch of the device, which its programs share. */
    int64_t (*scratch_bytes)(const struct sl_device *device, const struct sl_exec *exec);
    /* For plans, with nothing open: bytes that a worker needs on this device beside the spaces of
     * the program, for its kernels, its steps, its threads and the process. NULL: none. */
    int64_t (*extra_bytes)(const struct sl_program *program, int threads);

    /* y += x over floats: sums of a parameter's uses. */
    sl_err (*add)(struct sl_device *device, void *y, const void *x, int64_t numel);

    /* All parameters of a worker in one call, on the compute stream. step and predict give the bits
     * of optim/rules.h and return without waiting; norm_sq waits, because the host judges. */
    sl_err (*step)(struct sl_device *device, const struct sl_step_item *items, int count);
    /* out = w - lr*ahead*Delta (sl_optim_predict); Delta from io.delta or from state, as the
     * optimizer says. */
    sl_err (*predict)(struct sl_device *device, const struct sl_step_item *items, int count,
                      double ahead);
    sl_err (*norm_sq)(struct sl_device *device, const struct sl_norm_item *items, int count);
};

/* All devices, in alphabetical order; ends with NULL. */
extern const struct sl_device_row *const sl_device_rows[];
/* Does it take programs whose activations are of this type? */
static inline bool sl_device_takes(const struct sl_device_row *row, enum sl_dtype dtype) {
    return dtype == SL_FP16 ? row->fp16 : dtype != SL_BF16 || row->halves;
}
const struct sl_device_row *sl_device_find(const char *name);

#endif
