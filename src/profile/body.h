/* A worker for measuring: one program, bound to a device, with memory full of plausible numbers. */
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
    void *message;  /* of the device, where messages lie; NULL: from the host */
    int input;      /* of the graph; -1: none */
    int reader;     /* the first node of the part that reads it; of a seed: that makes the loss; -1:
                       part of the copy of a message */
    int64_t dur_ns; /* the last time */
};

/* What a body holds: a stage, how many micro-batches of it, and where its threads are. */
struct sl_body_part {
    const int *stage_of; /* [forward node]; NULL: the whole model */
    int stage;
    int slots; /* micro-batches in flight, 2 at least: a pass finds the caches as a pipeline leaves
                  them, not with its own activations still there */
    int place; /* device/bind.h; -1: anywhere */
};

struct sl_body {
    const struct sl_profile_spec *spec;
    struct sl_body_part part;
    struct sl_device *device;
    struct sl_program *program;
    struct sl_exec *exec;
    void *base[SL_SPACE_COUNT];
    void **slots;                              /* [part.slots] */
    int64_t *op_ns;                            /* [instr] */
    SL_VEC(struct sl_profile_body_feed) feeds; /* inputs, seeds, messages */
    void *message;                             /* of the device: what leaves */
    int64_t copied_bytes, copied_ns; /* messages in and out, since the caller set them to 0 */
};

SL_MUST_CHECK sl_err sl_profile_body_open(const struct sl_profile_spec *spec,
                                          const struct sl_body_part *part, int64_t micro,
                                          struct sl_body **out);
/* The inputs of micro-batch number `round` into a slot: other values lie there once they have been
 * read. */
SL_MUST_CHECK sl_err sl_profile_body_feed(struct sl_body *body, int slot, int64_t round);
void sl_profile_body_close(struct sl_body *body);
/* Of its device; also where there is nothing to keep. */
SL_MUST_CHECK sl_err sl_profile_body_alloc(struct sl_body *body, int64_t bytes, void **out);
/* Gradients are added, as for all micro-batches but the first. Messages are copied as in a run. */
SL_MUST_CHECK sl_err sl_profile_body_pass(struct sl_body *body, enum sl_phase phase, int slot);

/* Bytes per second of a copy between host and device, for a body without messages. */
SL_MUST_CHECK sl_err sl_profile_body_copy_rate(struct sl_body *body, double *out);

/* Rounds of a short measurement by all workers: enough of them in all. */
enum { SL_ROUNDS_MAX = 9 };
static inline int sl_rounds_of(int workers) {
    enum { LEAST = 3, ENOUGH = 24 };
    int rounds = ENOUGH / workers;
    return rounds < LEAST ? LEAST : rounds < SL_ROUNDS_MAX ? rounds : SL_ROUNDS_MAX;
}

#endif
