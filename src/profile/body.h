/* A worker for measuring: one program, bound to a device, with memory full of plausible numbers. */
#ifndef SL_PROFILE_BODY_H
#define SL_PROFILE_BODY_H

#include "base/vec.h"
#include "profile/measure.h"

/* Micro-batches in flight: a pass finds the caches as a pipeline leaves them, not with its own
 * activations still there. */
enum { SL_BODY_SLOTS = 2 };

struct sl_body_feed {
    struct sl_operand operand;
    void *host;
    int input;      /* of the graph; -1: a seed */
    int reader;     /* the first forward node that reads it; of a seed: that makes the loss */
    int64_t dur_ns; /* the last time */
};

struct sl_body {
    const struct sl_profile_spec *spec;
    struct sl_device *device;
    struct sl_program *program;
    struct sl_exec *exec;
    void *base[SL_SPACE_COUNT];
    void *slots[SL_BODY_SLOTS];
    int64_t *op_ns;                    /* [instr] */
    SL_VEC(struct sl_body_feed) feeds; /* inputs and seeds */
};

SL_MUST_CHECK sl_err sl_body_open(const struct sl_profile_spec *spec, int64_t micro,
                                  struct sl_body **out);
/* The inputs of micro-batch number `round` into a slot: other values lie there once they have been
 * read. */
SL_MUST_CHECK sl_err sl_body_feed(struct sl_body *body, int slot, int64_t round);
void sl_body_close(struct sl_body *body);
/* Gradients are added, as for all micro-batches but the first. */
SL_MUST_CHECK sl_err sl_body_pass(struct sl_body *body, enum sl_phase phase, int slot);
/* Bytes of parameters that a step takes per second, the norm of the gradient included; 0 when there
 * are none. */
SL_MUST_CHECK sl_err sl_body_step_rate(struct sl_body *body, const struct sl_optim *optim,
                                       double *out);
/* Bytes per second of a hand-over: out of one worker's memory, into another's. */
SL_MUST_CHECK sl_err sl_body_copy_rate(struct sl_body *body, double *out);

#endif
