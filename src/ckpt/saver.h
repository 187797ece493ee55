/* Saving while the run continues. The step loop copies only the tensors that passes write. A
 * writer thread copies the other tensors while the passes of the next step read them. Then it
 * hashes, writes, fsyncs and renames.
 *
 *   step loop ... | join, begin | passes, await | step   step   step ... | join, begin | ...
 *   writer                      | finish | hash, write, fsync, rename |               | ...
 *
 * There is one snapshot: a save that begins before the last one is written waits for that. The
 * files are the same, byte for byte, as those of a save that stops the run. */
#ifndef SL_CKPT_SAVER_H
#define SL_CKPT_SAVER_H

#include "ckpt/store.h"

struct sl_ckpt_saver_config {
    struct sl_ckpt_store store;
    struct sl_ckpt_target target;
    bool stops; /* no snapshot: the run waits until a checkpoint is durable */
};

/* What a save cost. */
struct sl_save_report {
    int64_t step;
    int64_t stall_ns; /* time that the run waited, at the save and before the next optimizer step */
    int64_t write_ns; /* time from the return to the run until the checkpoint was durable */
    int64_t cpu_ns;   /* CPU time of the writer thread */
    bool concurrent;  /* the run continued while the checkpoint was written */
};

struct sl_ckpt_saver;

/* Opens the saver and, unless it stops the run, its snapshot. */
SL_MUST_CHECK sl_err sl_ckpt_saver_open(const struct sl_ckpt_saver_config *config,
                                        struct sl_ckpt_saver **out);
/* Waits for the writer thread. saver may be NULL. */
void sl_ckpt_saver_close(struct sl_ckpt_saver *saver);
/* bytes of the snapshot; saver may be NULL */
int64_t sl_ckpt_saver_bytes(const struct sl_ckpt_saver *saver);
/* Returns the snapshot, or NULL. */
struct sl_ckpt_copy *sl_ckpt_saver_copy(const struct sl_ckpt_saver *saver);

/* Saves the run, which must not change until this returns. `wait`: waits until the checkpoint is
 * durable. Returns the error of the previous save, if that failed. */
SL_MUST_CHECK sl_err sl_ckpt_saver_save(struct sl_ckpt_saver *saver,
                                        const struct sl_ckpt_place *place, bool wait);
/* Has a save ended since the last call? Returns its error, or fills its report (step -1: none has
 * ended). `wait`: waits for the current one. */
SL_MUST_CHECK sl_err sl_ckpt_saver_poll(struct sl_ckpt_saver *saver, bool wait,
                                        struct sl_save_report *report);

#endif
