/* What workers note of themselves, and the watchdog that looks at it. Private to pipe*.c. */
#ifndef SL_PIPE_GUARD_H
#define SL_PIPE_GUARD_H

#include "sched/waits.h"

#include <stdatomic.h>

struct sl_pipe;
struct sl_pipe_worker;

/* What a worker is at, for whoever looks (pipe_notes.c): one relaxed store each. */
struct sl_notes {
    atomic_int_least64_t done;  /* actions */
    atomic_int_least64_t doing; /* kind, stage, micro-batch; -1: nothing */
    atomic_int_least64_t wait;  /* for whom; 0: for nobody */
    atomic_int_least64_t longest_ns[SL_KIND_COUNT];
    atomic_int_least64_t starved_ns;    /* by the watchdog of this rank */
    atomic_int thread;                  /* the kernel's number of the worker's thread */
    uint32_t seen;                      /* bit k: kind k has been measured; the worker's own */
    int64_t expected_ns[SL_KIND_COUNT]; /* by the schedule */
};

/* pipe_notes.c: NULL: none. */
void sl_pipe_note_action(struct sl_pipe_worker *worker, const struct sl_action *action);
void sl_pipe_note_done(struct sl_pipe_worker *worker, enum sl_kind kind, int64_t dur_ns);
/* It waits for `peer`, or for a group; until sl_pipe_note_go. */
struct sl_wait_note {
    enum sl_wait wait;
    bool grad;
    int of, peer; /* edge or group; worker */
    int32_t peer_micro;
};
void sl_pipe_note_wait(struct sl_pipe_worker *worker, struct sl_wait_note note);
void sl_pipe_note_go(struct sl_pipe_worker *worker);
/* What all workers are at, as far as this rank knows: out[worker_count]. Any thread. */
void sl_pipe_read_notes(const struct sl_pipe *pipe, struct sl_work *out);
/* What a rank shows of itself: its workers, in order, and its word on the losses of its last steps
 * (pipe_tell.c). */
enum { SL_WORD_STEPS = 4 };
struct sl_word {
    int64_t run;                 /* its first step */
    int64_t step[SL_WORD_STEPS]; /* of the run, from 1 on; 0: none yet */
    double loss[SL_WORD_STEPS];
};
int64_t sl_pipe_notes_bytes(const struct sl_pipe *pipe, int rank);
void sl_pipe_show_notes(void *pipe, void *out);
bool sl_pipe_look_word(const struct sl_pipe *pipe, int rank, struct sl_word *out);

/* pipe_guard.c: the watchdog. Started workers are waited for until all have ended, or one has been
 * given up. */
void sl_pipe_guard_open(struct sl_pipe *pipe);
void sl_pipe_guard_close(struct sl_pipe *pipe);
void sl_pipe_guard_start(struct sl_pipe *pipe, int workers);
void sl_pipe_guard_ended(struct sl_pipe *pipe); /* by a worker */
void sl_pipe_guard_wait(struct sl_pipe *pipe);

#endif
