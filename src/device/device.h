/* A device: memory, ordered streams, and kernels that run programs.
 *
 *   open -> alloc, upload -> bind a program -> run its phases, step -> unbind -> free -> close
 *
 * One worker owns one device object and drives it from one thread. Work on a stream runs in order;
 * events order streams relative to each other. On the CPU, a call on a stream returns when the work
 * is done. Binding a program looks up its kernels; nothing is allocated between bind and unbind.
 */
#ifndef SL_DEVICE_DEVICE_H
#define SL_DEVICE_DEVICE_H

#include "optim/optim.h"
#include "pass/program.h"

struct sl_device_row;
struct sl_exec; /* a program that is bound to kernels of a device */

enum sl_stream { SL_STREAM_COMPUTE, SL_STREAM_SEND, SL_STREAM_RECV, SL_STREAM_COUNT };

struct sl_device_config {
    int threads; /* CPU: number of threads of this worker */
    bool bind;   /* CPU: pin the threads to places (device/bind.h) from `place` on; the caller's
                    thread, which is the first, pins itself */
    int place;
    int index; /* GPU: its index */
    bool tf32; /* GPU: products of fp32 numbers may round their factors to tf32 */
};

struct sl_device {
    const struct sl_device_row *row;
    int threads;
};

/* The arguments of one run of a phase. */
struct sl_device_args {
    enum sl_phase phase;
    bool recompute_done;        /* for B, I: phase R ran last; not used by rows with `whole` */
    void *base[SL_SPACE_COUNT]; /* device memory of each space */
    bool accumulate;            /* true: gradients are added, false: they are written */
    uint64_t seed;              /* random seed of this step, for dropout */
    int64_t first_sample;       /* number of the first sample of this micro-batch */
    int64_t *op_ns;             /* [instr_count] time per instruction, or NULL */
    /* Called after each instruction, when its outputs are complete; an error ends the run. NULL:
     * not called. */
    sl_err (*after)(void *ctx, int instr);
    void *ctx;
};

/* The optimizer step of one parameter, or its prediction. All pointers are device memory. */
struct sl_step_item {
    const struct sl_optim_param *param;
    struct sl_step_coef coef; /* coefficients of this step; for a prediction, of the last step */
    struct sl_step_io io;
    double lr;  /* for a prediction: learning rate of the last step */
    float *out; /* for a prediction: receives the predicted weights */
};

/* The squared norm of one tensor, in the canonical order of optim/norm.h. */
struct sl_norm_item {
    const float *x; /* device memory */
    int64_t count;
    double *sum; /* receives the result, in host memory */
};

/* Facts about one device. 0 or "" means unknown. */
struct sl_device_facts {
    char name[64];
    int64_t memory_bytes;
    int processors;                /* number of multiprocessors of a GPU */
    double stream;                 /* peak bytes per second to and from its own memory */
    double flops_fp32, flops_bf16; /* peak operations per second */
    double host_rate, peer_rate;   /* bytes per second to the host; to another such device */
    int peer_links;                /* number of active NVLinks; 0: peers communicate by the host */
};

struct sl_device_row {
    const char *name, *brief;
    bool halves;  /* runs programs with bf16 activations */
    bool fp16;    /* runs programs with fp16 activations */
    bool tf32;    /* can round the factors of fp32 products to tf32 */
    bool whole;   /* runs a phase as one unit, so a callback per instruction is expensive */
    bool is_host; /* computes on the cores of the host */
    bool apart;   /* has its own memory, which only upload, download and copy access */
    /* Returns NULL if the device is usable, else the reason. */
    const char *(*missing)(void);
    /* Returns the number of devices; describes the first `max`. NULL: it is the host itself. */
    int (*list)(struct sl_device_facts *out, int max);
    sl_err (*open)(const struct sl_device_config *config, struct sl_device **out);
    void (*close)(struct sl_device *device);

    /* Allocates memory that is zeroed and aligned to at least 64 bytes. */
    sl_err (*alloc)(struct sl_device *device, int64_t size_bytes, void **out);
    void (*free)(struct sl_device *device, void *memory);
    sl_err (*upload)(struct sl_device *device, enum sl_stream stream, void *to, const void *from,
                     int64_t size_bytes);
    sl_err (*download)(struct sl_device *device, enum sl_stream stream, void *to, const void *from,
                       int64_t size_bytes);
    /* Copies device memory. `from` may belong to another device of the same kind. */
    sl_err (*copy)(struct sl_device *device, enum sl_stream stream, void *to, const void *from,
                   int64_t size_bytes);
    sl_err (*sync)(struct sl_device *device, enum sl_stream stream);

    /* Programs. An error of bind names the missing kernel. No has_kernel: no fused kernels. */
    bool (*has_kernel)(const char *name);
    sl_err (*bind)(struct sl_device *device, const struct sl_program *program,
                   struct sl_exec **out);
    void (*unbind)(struct sl_device *device, struct sl_exec *exec);
    sl_err (*run)(struct sl_device *device, struct sl_exec *exec,
                  const struct sl_device_args *args);
    /* Returns the bytes that binding this program added to the scratch, which all programs of a
     * device share. */
    int64_t (*scratch_bytes)(const struct sl_device *device, const struct sl_exec *exec);
    /* For plans, without an open device: returns the bytes that a worker needs besides the spaces
     * of the program, for kernels, steps, threads and the process. NULL: none. */
    int64_t (*extra_bytes)(const struct sl_program *program, int threads);

    /* y += x, over floats. It sums the gradients of a parameter's uses. */
    sl_err (*add)(struct sl_device *device, void *y, const void *x, int64_t numel);

    /* Each handles all parameters of a worker, on the compute stream. step, predict give the bits
     * of optim/rules.h and do not wait. norm_sq waits, since the host decides by the norm. */
    sl_err (*step)(struct sl_device *device, const struct sl_step_item *items, int count);
    /* out = w - lr*ahead*Delta (sl_optim_predict). The optimizer's row says whether Delta comes
     * from io.delta or from the state. */
    sl_err (*predict)(struct sl_device *device, const struct sl_step_item *items, int count,
                      double ahead);
    sl_err (*norm_sq)(struct sl_device *device, const struct sl_norm_item *items, int count);
};

/* All devices, in alphabetical order; ends with NULL. */
extern const struct sl_device_row *const sl_device_rows[];
/* Returns true if the device runs programs with activations of this type. */
static inline bool sl_device_takes(const struct sl_device_row *row, enum sl_dtype dtype) {
    return dtype == SL_FP16 ? row->fp16 : dtype != SL_BF16 || row->halves;
}
const struct sl_device_row *sl_device_find(const char *name);

/* Returns SL_ERR_REFUSED, with the reason, for an op that has a cost but no arithmetic. */
static inline sl_err sl_device_refuse_plan_only(const struct sl_op *op) {
    if (!op || !op->plan_only)
        return SL_OK;
    return sl_fail(
        SL_ERR_REFUSED,
        "'%s' states a cost but no arithmetic: a model with it can be planned, simulated "
        "and exported, but not run. Write the layer with other ops to train it.",
        op->name);
}

#endif
