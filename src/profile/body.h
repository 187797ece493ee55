/* Body: a worker for measurements. It is one program, bound to a device, with filled memory. */
#ifndef SL_PROFILE_BODY_H
#define SL_PROFILE_BODY_H

#include "base/vec.h"
#include "comm/crowd.h"
#include "profile/measure.h"

enum sl_feed_kind { SL_FEED_INPUT, SL_FEED_SEED, SL_FEED_ACT, SL_FEED_GRAD };

struct sl_profile_body_feed {
    enum sl_feed_kind kind;
    struct sl_operand operand;
    void *host;
    void *message;  /* message buffer in device memory; NULL: the value comes from the host */
    int input;      /* index of the graph input; -1: it is no input */
    int reader;     /* first node that reads it (for a seed: the node of the loss); -1: a message */
    int64_t dur_ns; /* duration of the last feed */
};

/* The part of a model that a body runs. */
struct sl_body_part {
    const int *stage_of; /* [forward node]; NULL: the whole model */
    int stage;
    /* number of micro-batches in flight, at least 2, so that the activations of a pass are not in
     * the cache, as in a pipeline */
    int slots;
    int place; /* place of the core binding (device/bind.h); -1: not bound */
};

struct sl_body {
    const struct sl_profile_spec *spec;
    struct sl_body_part part;
    struct sl_device *device;
    struct sl_program *program;
    struct sl_exec *exec;
    void *base[SL_SPACE_COUNT];
    void **slots;                              /* [part.slots] memory of each slot */
    int64_t *op_ns;                            /* [instr] duration of each instruction */
    SL_VEC(struct sl_profile_body_feed) feeds; /* inputs, seeds, messages */
    void *message;                             /* buffer of sent values in device memory */
    /* copied messages, in and out: bytes and time; the caller resets them to 0 */
    int64_t copied_bytes, copied_ns;
};

SL_MUST_CHECK sl_err sl_profile_body_open(const struct sl_profile_spec *spec,
                                          const struct sl_body_part *part, int64_t micro,
                                          struct sl_body **out);
/* Write the inputs of micro-batch `round` into a slot. Needed before every F: later instructions
 * reuse the memory of inputs. */
SL_MUST_CHECK sl_err sl_profile_body_feed(struct sl_body *body, int slot, int64_t round);
void sl_profile_body_close(struct sl_body *body);
/* Allocates device memory; 0 bytes are allowed. */
SL_MUST_CHECK sl_err sl_profile_body_alloc(struct sl_body *body, int64_t bytes, void **out);
/* Run one phase. Gradients accumulate, as for all micro-batches but the first. Messages are copied
 * as in a run. */
SL_MUST_CHECK sl_err sl_profile_body_pass(struct sl_body *body, enum sl_phase phase, int slot);

/* Measures the bytes per second of a copy between host and device, for a body without messages. */
SL_MUST_CHECK sl_err sl_profile_body_copy_rate(struct sl_body *body, double *out);

/* Rounds of a short measurement: about 24 over all workers, 3 to 9 per worker. */
enum { SL_ROUNDS_MAX = 9 };
static inline int sl_rounds_of(int workers) {
    enum { LEAST = 3, ENOUGH = 24 };
    int rounds = ENOUGH / workers;
    return rounds < LEAST ? LEAST : rounds < SL_ROUNDS_MAX ? rounds : SL_ROUNDS_MAX;
}

#endif
