/* Saving beside the run: the step loop only copies what passes write; a thread copies the rest
 * while the passes of the next step read it, and hashes, writes, fsyncs and renames while steps go
 * on.
 *
 *   step loop   ... | wait for the writer, begin | passes, await | step   step ... | wait, begin |
 * ... writer                                       | finish | hash, write, fsync, rename | | ...
 *
 * There is one copy: a save that comes while the last one is being written waits for it. The files
 * are those of a save that stops the run, byte for byte.
 */
#ifndef SL_CKPT_SAVER_H
#define SL_CKPT_SAVER_H

#include "ckpt/store.h"

struct sl_saver_config {
    struct sl_copy *copy; /* NULL: saving stops the run */
    void *ctx;
    /* sl_ckpt_train_write or sl_pipe_write, with the run or the pipeline. */
    sl_err (*write)(void *ctx, const struct sl_copy *copy, const struct sl_save *save);
    const char *run, *config;
    int keep;
};

/* What a save has cost. */
struct sl_save_report {
    int64_t step;
    int64_t stall_ns; /* the run waited for it, at its border and before the next optimizer step */
    int64_t write_ns; /* until it was durable, after the run went on */
    int64_t cpu_ns;   /* of the writer's thread */
    bool beside;      /* the run went on meanwhile */
};

struct sl_saver;

/* The copy is the saver's from now on. */
struct sl_saver *sl_ckpt_saver_open(const struct sl_saver_config *config);
/* Waits for what is being written. NULL is fine. */
void sl_ckpt_saver_close(struct sl_saver *saver);

/* Save the run as it stands; the run must not change until this returns. `wait`: until it is
 * durable. An error of the save before comes here, too. */
SL_MUST_CHECK sl_err sl_ckpt_saver_save(struct sl_saver *saver, struct sl_store_place place,
                                        bool wait);
/* Has a save ended since the last call? Its error, or its report (step -1: none ended). */
SL_MUST_CHECK sl_err sl_ckpt_saver_poll(struct sl_saver *saver, bool wait,
                                        struct sl_save_report *report);

#endif
