/* Traces of PyTorch's profiler (Kineto, Chrome's format) as pictures.
 *
 *     events of the host:   "PP:0F1", "Forward 1", "attn(F)"   what ran: an action
 *     events of a GPU:      a kernel --correlation--> its launch, within the action that launched it
 *
 * A range of two actions that overlap ("PP:(0F1;2B0)OVERLAP_F_B") is divided between them: a third
 * for F, because B takes about twice as long.
 * A lane is a rank, or a stream of its GPU if the trace has kernels. An action begins when its
 * input exists: PyTorch's ranges include the wait for it. */
#ifndef SL_REPORT_KINETO_H
#define SL_REPORT_KINETO_H

#include "report/picture.h"

struct sl_report_kineto_text {
    const char *file; /* name for messages */
    const char *text;
    size_t length;
};

/* Reads one text per rank. SL_ERR_INPUT: it is not a trace, or no event has the name of an
 * action. */
SL_MUST_CHECK sl_err sl_report_kineto_read(struct sl_arena *arena,
                                           const struct sl_report_kineto_text *texts, int count,
                                           struct sl_picture *out);
SL_MUST_CHECK sl_err sl_report_kineto_files(struct sl_arena *arena, const char *const *paths,
                                            int count, struct sl_picture *out);

/* ---- private to kineto*.c ---- */

struct sl_kineto_action {
    struct sl_str part; /* name of its stage; empty: use `stage` */
    int64_t stage, micro;
    uint8_t kind;
};
/* Finds the actions that an event of this name runs: none, 1, or 2 that overlap. `rank`: the stage
 * if the name has none. */
enum { SL_KINETO_ACTIONS = 2 };
int sl_report_kineto_name(struct sl_str name, int64_t rank,
                          struct sl_kineto_action out[SL_KINETO_ACTIONS]);
/* Take a number (at most `max`), or a prefix, from the beginning of the text. */
bool sl_report_kineto_number(struct sl_str *text, int64_t max, int64_t *out);
bool sl_report_kineto_prefix(struct sl_str *text, const char *prefix);

/* Adds messages between actions by the rules of a pipeline: F needs F of the stage before, B and I
 * need those of the stage after. Then finds the critical path. `numbered`: stage i is the i-th of a
 * chain; otherwise only lanes order the actions. */
void sl_report_kineto_link(struct sl_arena *arena, struct sl_picture *picture, struct sl_bar *bars,
                           bool numbered);

#endif
