/* A worker: one stage on one device, with its memory. It runs single passes; its caller decides their
 * order.
 *
 *   open -> [lend] -> init or load -> { put inputs, pass, get outputs } ... -> close
 *
 * Opening allocates all memory: a weight slab per version, one of frozen weights, gradient slabs, a slot per micro-batch in
 * flight, one work area, optimizer state. Stages that one thread runs in turn share a work area,
 * which the caller lends to each of them.
 */
#ifndef SL_RUN_WORKER_H
#define SL_RUN_WORKER_H

#include "device/device.h"

/* A worker has up to three programs: for full micro-batches, for the short last one of a batch, and
 * for evaluation. They share all memory. */
enum sl_worker_program { SL_WORKER_FULL, SL_WORKER_LAST, SL_WORKER_EVAL, SL_WORKER_PROGRAMS };

struct sl_worker_config {
    const struct sl_graph *graph; /* differentiated */
    const int *stage_of;          /* NULL: one stage */
    int stage;
    int64_t samples;                   /* of a full micro-batch */
    int64_t last_samples;              /* of the last one of a batch; 0 or equal: all are full */
    const struct sl_graph *eval_graph; /* the same model for evaluation, or NULL */
    int64_t eval_samples;
    bool (*has_kernel)(const char *name); /* of the device */
    enum sl_dtype dtype;                  /* of activations */
    bool split, recompute;
    int slots;        /* micro-batches in flight */
    int versions;     /* weight slabs */
    int grad_slots;   /* gradient slabs */
    int state_count;  /* optimizer state slabs */
    uint64_t seed;    /* of initial values */
    bool borrows;     /* sl_run_worker_lend provides work area and staging */
    bool eval_beside; /* evaluation may run while micro-batches are in flight */
    int64_t audit;    /* repeat and compare one action in this many; 0: none */
};

struct sl_worker {
    struct sl_device *device;
    const struct sl_graph *graph;
    int stage;
    struct sl_program *programs[SL_WORKER_PROGRAMS]; /* NULL: not needed */
    struct sl_exec *execs[SL_WORKER_PROGRAMS];
    int slots, versions, grad_slots, state_count;
    void **slot; /* [slots + 1] the last is for evaluation and uses the memory of others */
    void **param, **grad, **opt; /* device memory */
    void *fixed, *state, *work;
    bool *tied;    /* [params] the caller has summed it over stages */
    void *staging; /* host: one input of one micro-batch */
    int64_t slot_bytes;
    bool borrows, eval_beside, eval_in_work;
    int64_t work_bytes, staging_bytes; /* required */
    int64_t train_work_bytes;          /* of work_bytes, without evaluation */
    int64_t bytes;                     /* of the device, without lent memory */
    struct sl_audit *audit;            /* NULL: no audit */
};

SL_MUST_CHECK sl_err sl_run_worker_open(struct sl_device *device,
                                        const struct sl_worker_config *config,
                                        struct sl_worker **out);
void sl_run_worker_close(struct sl_worker *worker);
/* Before the first pass of a worker that borrows: work_bytes on the device, staging_bytes on the
 * host. Their contents do not last from one pass to the next. */
void sl_run_worker_lend(struct sl_worker *worker, void *work, void *staging);

/* init.c: initial values into every weight version and the running statistics. */
SL_MUST_CHECK sl_err sl_run_worker_init(struct sl_worker *worker, uint64_t seed);

/* A pass of one micro-batch. */
struct sl_worker_pass {
    enum sl_worker_program program;
    enum sl_phase phase;
    bool recompute_done; /* as in sl_device_args */
    int slot, version, grad_slot;
    bool accumulate;
    uint64_t seed;
    int64_t first_sample;
    int64_t *op_ns;
    sl_err (*after)(void *ctx, int instr); /* as in sl_device_args */
    void *ctx;
};
SL_MUST_CHECK sl_err sl_run_worker_pass(struct sl_worker *worker,
                                        const struct sl_worker_pass *pass);
/* The same without audit. */
SL_MUST_CHECK sl_err sl_run_worker_run(struct sl_worker *worker, const struct sl_worker_pass *pass);

/* The program for training micro-batches of this size. */
enum sl_worker_program sl_run_worker_program_for(const struct sl_worker *worker, int64_t samples);

/* Copy host data into a port of a slot, or out of it. */
SL_MUST_CHECK sl_err sl_run_worker_put(struct sl_worker *worker, int slot,
                                       const struct sl_program_port *port, const void *host);
SL_MUST_CHECK sl_err sl_run_worker_get(struct sl_worker *worker, int slot,
                                       const struct sl_program_port *port, void *host);
struct sl_part {
    int64_t first, count; /* elements */
};
SL_MUST_CHECK sl_err sl_run_worker_get_part(struct sl_worker *worker, int slot,
                                            const struct sl_program_port *port, struct sl_part part,
                                            void *host);

/* Add the uses of every parameter; the memory of the first use then holds the gradient. */
SL_MUST_CHECK sl_err sl_run_worker_sum_uses(struct sl_worker *worker, int grad_slot);

/* Copies weight slab `from` to slab `to`. */
SL_MUST_CHECK sl_err sl_run_worker_copy_weights(struct sl_worker *worker, int to, int from);

/* For replicas: set the gradient to zero; scale the sum of running statistics to their mean. */
SL_MUST_CHECK sl_err sl_run_worker_clear_grads(struct sl_worker *worker, int grad_slot);
SL_MUST_CHECK sl_err sl_run_worker_scale_state(struct sl_worker *worker, float by);

/* The row of a graph parameter (or state) in a program's list; NULL when the stage lacks it. */
const struct sl_program_param *sl_run_worker_find(const struct sl_program_param *list, int count,
                                                  int index);

/* Device memory of an operand of a pass; NULL when it is absent. */
void *sl_run_worker_operand(const struct sl_worker *worker, const struct sl_worker_pass *pass,
                            const struct sl_operand *operand);
/* Device memory of a parameter's weights, its gradient, its optimizer state. */
void *sl_run_worker_weight(const struct sl_worker *worker, int version, int param);
void *sl_run_worker_grad(const struct sl_worker *worker, int grad_slot, int param);
void *sl_run_worker_opt(const struct sl_worker *worker, int state, int param);

#endif
