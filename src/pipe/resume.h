/* Pausing a pipeline with micro-batches in flight, and going on from there, in the same process or from
 * a checkpoint. Private to this directory.
 *
 *   empty --begin--> run --end--> paused after step n --run--> ... --> empty
 *                                   | evaluate, save
 *
 * A checkpoint of a paused pipeline is one of two kinds:
 *   portable   2bw: W(n), W(n-1) and the optimizer. Iterations from n on run again from their start.
 *              Fits any number of stages.
 *   image      all others: weight versions, gradients, slots and messages of every seat. Fits the
 *              same plan, if the schedule has run the same actions up to there.
 */
#ifndef SL_PIPE_RESUME_H
#define SL_PIPE_RESUME_H

#include "pipe/state.h"

/* resume.c. begin: a new schedule that makes `steps` steps at least. end: a run has come to step
 * `done` of the schedule. */
SL_MUST_CHECK sl_err sl_pipe_begin(struct sl_pipe *pipe, int64_t steps);
SL_MUST_CHECK sl_err sl_pipe_end(struct sl_pipe *pipe, int64_t done);
/* Had this action run before the schedule began? */
bool sl_pipe_skips(const struct sl_pipe *pipe, const struct sl_action *action);
/* For checkpoints. fits: does the state in flight of the checkpoint fit this run? SL_ERR_REFUSED if
 * not, unless it may be dropped. */
struct sl_ckpt_place sl_pipe_place(const struct sl_pipe *pipe);
SL_MUST_CHECK sl_err sl_pipe_fits(struct sl_pipe *pipe, const struct sl_ckpt_place *place,
                                  bool may_drop, bool *fits); /* rank 0 */
SL_MUST_CHECK sl_err sl_pipe_restore(struct sl_pipe *pipe, const struct sl_ckpt_place *root);

/* cut_hash.c: of the actions before a cut, of all workers: two schedules with the same hash have run the
 * same actions there. */
uint64_t sl_pipe_cut_hash(const struct sl_sched *sched, const int64_t *at);

/* border.c: forward: before a forward pass. state: the running statistics after step `done`. */
SL_MUST_CHECK sl_err sl_pipe_border_open(const struct sl_pipe *pipe, struct sl_pipe_seat *seat);
void sl_pipe_border_close(struct sl_pipe_seat *seat);
void sl_pipe_border_start(struct sl_pipe_seat *seat);
SL_MUST_CHECK sl_err sl_pipe_border_forward(struct sl_pipe_seat *seat, int64_t iteration);
void *sl_pipe_border_state(const struct sl_pipe *pipe, const struct sl_pipe_seat *seat);

/* image.c: the state of a seat of a full pipeline. open: its memory on the host. take: all ranks,
 * after a run. move: bytes out of it, or into it. apply: after all bytes have been moved in. */
int64_t sl_pipe_image_bytes(const struct sl_pipe *pipe, const struct sl_pipe_seat *seat);
/* Images are read only by seats of the same layout: every offset of the programs. */
uint64_t sl_pipe_image_layout(const struct sl_pipe_seat *seat);
void sl_pipe_image_open(const struct sl_pipe *pipe, struct sl_pipe_seat *seat);
SL_MUST_CHECK sl_err sl_pipe_image_take(struct sl_pipe *pipe);
SL_MUST_CHECK sl_err sl_pipe_image_get(const struct sl_pipe_seat *seat, int64_t from,
                                       int64_t size_bytes, void *out);
SL_MUST_CHECK sl_err sl_pipe_image_put(const struct sl_pipe_seat *seat, int64_t from,
                                       int64_t size_bytes, const void *in);
SL_MUST_CHECK sl_err sl_pipe_image_apply(struct sl_pipe *pipe);

/* store.c: bytes of the seats of all ranks; channels between rank 0 and the others, for tensors. */
SL_MUST_CHECK sl_err sl_pipe_count_seats(struct sl_pipe *pipe);
uint64_t sl_pipe_layouts(const struct sl_pipe *pipe); /* hash of the layouts of all images */
SL_MUST_CHECK sl_err sl_pipe_open_requests(struct sl_pipe *pipe);
void sl_pipe_close_requests(struct sl_pipe *pipe);

/* pipe.c: memory for loss terms of `steps` steps from step `done` on, and of those in flight. */
void sl_pipe_terms_grow(struct sl_pipe *pipe, int64_t steps);
int64_t sl_pipe_terms_ahead(const struct sl_pipe *pipe); /* iterations begun at a cut */
/* Loss terms of the iterations in flight. */
void sl_pipe_terms_put(const struct sl_pipe *pipe, double *out, int64_t count);
void sl_pipe_terms_get(struct sl_pipe *pipe, const double *in, int64_t count);

/* global_step.c: numbers of a worker in its image. */
int64_t sl_pipe_global_step_count(const struct sl_pipe_worker *worker);
void sl_pipe_global_step_put(const struct sl_pipe_worker *worker, double *out);
void sl_pipe_global_step_get(struct sl_pipe_worker *worker, const double *in);

#endif
