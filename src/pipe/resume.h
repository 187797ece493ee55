/* Pausing a pipeline with micro-batches in flight, and continuing in the same process or from a
 * checkpoint. Private to this directory.
 *
 *   empty --begin--> run --end--> paused after step n --run--> ... --> empty
 *                                   | evaluate, save
 *
 * A checkpoint of a paused pipeline is one of two kinds:
 *   portable   2bw: W(n), W(n-1) and the optimizer. Iterations from n on run again from their start.
 *              Fits any number of stages.
 *   image      all others: weight versions, gradients, slots and messages of every seat. Fits the
 *              same plan, if the schedule of the resumed run has the same actions up to there. */
#ifndef SL_PIPE_RESUME_H
#define SL_PIPE_RESUME_H

#include "pipe/state.h"

/* resume.c. begin: starts a new schedule of at least `steps` steps. end: a run has reached step
 * `done` of the schedule. */
SL_MUST_CHECK sl_err sl_pipe_begin(struct sl_pipe *pipe, int64_t steps);
SL_MUST_CHECK sl_err sl_pipe_end(struct sl_pipe *pipe, int64_t done);
/* Does this action count as run because the schedule begins after it? */
bool sl_pipe_skips(const struct sl_pipe *pipe, const struct sl_action *action);
/* For checkpoints. fits: does the state in flight that the checkpoint holds fit this run? If not,
 * returns SL_ERR_REFUSED unless the state may be dropped. */
struct sl_ckpt_place sl_pipe_place(const struct sl_pipe *pipe);
SL_MUST_CHECK sl_err sl_pipe_fits(struct sl_pipe *pipe, const struct sl_ckpt_place *place,
                                  bool may_drop, bool *fits); /* rank 0 calls */
SL_MUST_CHECK sl_err sl_pipe_restore(struct sl_pipe *pipe, const struct sl_ckpt_place *root);

/* cut_hash.c. Hash of the actions of all workers before a cut. Two schedules with the same hash
 * have the same actions there. */
uint64_t sl_pipe_cut_hash(const struct sl_sched *sched, const int64_t *at);

/* border.c. forward: called before a forward pass. state: the running statistics after step
 * `done`. */
SL_MUST_CHECK sl_err sl_pipe_border_open(const struct sl_pipe *pipe, struct sl_pipe_seat *seat);
void sl_pipe_border_close(struct sl_pipe_seat *seat);
void sl_pipe_border_start(struct sl_pipe_seat *seat);
SL_MUST_CHECK sl_err sl_pipe_border_forward(struct sl_pipe_seat *seat, int64_t iteration);
void *sl_pipe_border_state(const struct sl_pipe *pipe, const struct sl_pipe_seat *seat);

/* image.c. The state of a seat of a full pipeline. open: allocates its host memory. take: all ranks
 * call it after a run. move: copies bytes out of the image, or into it. apply: called after all
 * bytes have been moved in. */
int64_t sl_pipe_image_bytes(const struct sl_pipe *pipe, const struct sl_pipe_seat *seat);
/* Hash of every offset of the seat's programs: only a seat with the same hash can read its
 * image. */
uint64_t sl_pipe_image_layout(const struct sl_pipe_seat *seat);
void sl_pipe_image_open(const struct sl_pipe *pipe, struct sl_pipe_seat *seat);
SL_MUST_CHECK sl_err sl_pipe_image_take(struct sl_pipe *pipe);
SL_MUST_CHECK sl_err sl_pipe_image_get(const struct sl_pipe_seat *seat, int64_t from,
                                       int64_t size_bytes, void *out);
SL_MUST_CHECK sl_err sl_pipe_image_put(const struct sl_pipe_seat *seat, int64_t from,
                                       int64_t size_bytes, const void *in);
SL_MUST_CHECK sl_err sl_pipe_image_apply(struct sl_pipe *pipe);

/* store.c. count_seats: bytes of the images of all ranks. open_requests: channels between rank 0
 * and the others, for tensors. */
SL_MUST_CHECK sl_err sl_pipe_count_seats(struct sl_pipe *pipe);
uint64_t sl_pipe_layouts(const struct sl_pipe *pipe); /* hash of the layouts of all images */
SL_MUST_CHECK sl_err sl_pipe_open_requests(struct sl_pipe *pipe);
void sl_pipe_close_requests(struct sl_pipe *pipe);

/* pipe.c. Allocates the loss terms of `steps` steps from step `done` on, and of the iterations in
 * flight. */
void sl_pipe_terms_grow(struct sl_pipe *pipe, int64_t steps);
/* number of iterations that have begun at a cut */
int64_t sl_pipe_terms_ahead(const struct sl_pipe *pipe);
/* Save and restore the loss terms of the iterations in flight. */
void sl_pipe_terms_put(const struct sl_pipe *pipe, double *out, int64_t count);
void sl_pipe_terms_get(struct sl_pipe *pipe, const double *in, int64_t count);

/* global_step.c. The numbers that a worker adds to its image. */
int64_t sl_pipe_global_step_count(const struct sl_pipe_worker *worker);
void sl_pipe_global_step_put(const struct sl_pipe_worker *worker, double *out);
void sl_pipe_global_step_get(struct sl_pipe_worker *worker, const double *in);

#endif
