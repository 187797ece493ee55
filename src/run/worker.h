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
    const struct sl_graph *graph; /* the differentiated graph */
    const int *stage_of;          /* NULL: the worker runs the whole graph */
    int stage;
    int64_t samples; /* samples of a full micro-batch */
    /* samples of the last micro-batch of a batch; 0 or equal to `samples`: all are full */
    int64_t last_samples;
    const struct sl_graph *eval_graph; /* graph of the same model for evaluation, or NULL */
    int64_t eval_samples;
    bool (*has_kernel)(const char *name); /* the device's kernel query */
    enum sl_dtype dtype;                  /* of activations */
    bool split, recompute;
    int slots;       /* number of micro-batches in flight */
    int versions;    /* number of weight slabs */
    int grad_slots;  /* number of gradient slabs */
    int state_count; /* number of optimizer state slabs */
    /* zero1: has the optimizer state of replica `replica` of `width`; NULL: all of it */
    const struct sl_optim *divides;
    int width, replica;
    uint64_t seed;       /* seed of the initial values */
    bool borrows;        /* the caller provides work area and staging with sl_run_worker_lend */
    bool eval_in_flight; /* evaluation may run while micro-batches are in flight */
    int64_t audit;       /* audit one of this many actions; 0: none */
};

struct sl_part {
    int64_t first, count; /* range of elements */
};

struct sl_worker {
    struct sl_device *device;
    const struct sl_graph *graph;
    int stage;
    struct sl_program *programs[SL_WORKER_PROGRAMS]; /* NULL: the worker does not need it */
    struct sl_exec *execs[SL_WORKER_PROGRAMS];
    int slots, versions, grad_slots, state_count;
    /* [slots + 1] the last one is for evaluation; its memory is that of other slots or of WORK */
    void **slot;
    void **param, **grad, **opt; /* device memory */
    struct sl_part own;          /* floats of a weight slab whose optimizer state opt holds */
    void *fixed, *state, *work;
    bool *tied;    /* [params] the caller adds the uses of this tied parameter */
    void *staging; /* host memory for one input of one micro-batch */
    int64_t slot_bytes;
    bool borrows, eval_in_flight, eval_in_work;
    int64_t work_bytes, staging_bytes; /* bytes that it needs; see sl_run_worker_lend */
    int64_t train_work_bytes;          /* the part of work_bytes that training needs */
    int64_t bytes;          /* device memory that it has allocated, without lent memory */
    struct sl_audit *audit; /* NULL: no audit */
};

SL_MUST_CHECK sl_err sl_run_worker_open(struct sl_device *device,
                                        const struct sl_worker_config *config,
                                        struct sl_worker **out);
void sl_run_worker_close(struct sl_worker *worker);
/* Lends memory to a worker that borrows, before its first pass: work_bytes on the device,
 * staging_bytes on the host. The contents do not last from one pass to the next. */
void sl_run_worker_lend(struct sl_worker *worker, void *work, void *staging);

/* init.c. Writes initial values into every weight version and the running statistics. */
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
/* The same without an audit. */
SL_MUST_CHECK sl_err sl_run_worker_run(struct sl_worker *worker, const struct sl_worker_pass *pass);

/* Returns the program for training micro-batches of this size. */
enum sl_worker_program sl_run_worker_program_for(const struct sl_worker *worker, int64_t samples);

/* Copy host data into a port of a slot, or out of it. */
SL_MUST_CHECK sl_err sl_run_worker_put(struct sl_worker *worker, int slot,
                                       const struct sl_program_port *port, const void *host);
SL_MUST_CHECK sl_err sl_run_worker_get(struct sl_worker *worker, int slot,
                                       const struct sl_program_port *port, void *host);
SL_MUST_CHECK sl_err sl_run_worker_get_part(struct sl_worker *worker, int slot,
                                            const struct sl_program_port *port, struct sl_part part,
                                            void *host);

/* Adds the uses of every parameter; the memory of the first use then holds the gradient. */
SL_MUST_CHECK sl_err sl_run_worker_sum_uses(struct sl_worker *worker, int grad_slot);

/* Copies weight slab `from` to slab `to`. */
SL_MUST_CHECK sl_err sl_run_worker_copy_weights(struct sl_worker *worker, int to, int from);

/* For replicas. clear_grads: sets the gradient to zero. scale_state: multiplies the summed running
 * statistics, to get their mean. */
SL_MUST_CHECK sl_err sl_run_worker_clear_grads(struct sl_worker *worker, int grad_slot);
SL_MUST_CHECK sl_err sl_run_worker_scale_state(struct sl_worker *worker, float by);

/* Returns the row of a graph parameter (or state) in a program's list; NULL if the stage lacks
 * it. */
const struct sl_program_param *sl_run_worker_find(const struct sl_program_param *list, int count,
                                                  int index);

/* Returns the device memory of an operand of a pass; NULL if the operand is absent. */
void *sl_run_worker_operand(const struct sl_worker *worker, const struct sl_worker_pass *pass,
                            const struct sl_operand *operand);
/* Returns the elements of a parameter whose optimizer state this worker holds and that it steps. */
struct sl_part sl_run_worker_own(const struct sl_worker *worker, int param);
/* The device memory of a parameter's weights, gradient and own optimizer state. */
void *sl_run_worker_weight(const struct sl_worker *worker, int version, int param);
void *sl_run_worker_grad(const struct sl_worker *worker, int grad_slot, int param);
void *sl_run_worker_opt(const struct sl_worker *worker, int state, int param);

#endif
