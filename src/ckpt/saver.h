/* Saving while the run continues. The step loop copies only the tensors that passes write. A thread
 * copies the rest while the passes of the next step read it. It then hashes, writes, fsyncs and
 * renames.
 *
 *   step loop ... | join, begin | passes, await | step   step   step ... | join, begin | ...
 *   writer                      | finish | hash, write, fsync, rename |               | ...
 *
 * There is one copy: a save that begins before the last one is written waits for it. The files are
 * the same, byte for byte, as those of a save that stops the run.
 */
#ifndef SL_CKPT_SAVER_H
#define SL_CKPT_SAVER_H

#include "ckpt/store.h"

struct sl_ckpt_saver_config {
    struct sl_ckpt_store store;
    struct sl_ckpt_target target;
    bool stops; /* no copy: the run waits until a checkpoint is durable */
};

/* The cost of a save. */
struct sl_save_report {
    int64_t step;
    int64_t stall_ns; /* the run waited, at the save and before the next optimizer step */
    int64_t write_ns; /* from the return to the run until the checkpoint was durable */
    int64_t cpu_ns;   /* of the writer's thread */
    bool beside;      /* the run continued meanwhile */
};

struct sl_ckpt_saver;

/* Opens the copy too, unless the saver stops the run. */
SL_MUST_CHECK sl_err sl_ckpt_saver_open(const struct sl_ckpt_saver_config *config,
                                        struct sl_ckpt_saver **out);
/* Waits for the writer. NULL is fine. */
void sl_ckpt_saver_close(struct sl_ckpt_saver *saver);
int64_t sl_ckpt_saver_bytes(const struct sl_ckpt_saver *saver); /* of the copy; NULL is fine */
/* The copy, or NULL. */
struct sl_ckpt_copy *sl_ckpt_saver_copy(const struct sl_ckpt_saver *saver);

/* Save the run; it must not change until this returns. `wait`: until the checkpoint is durable.
 * Fails with the error of the previous save, if that failed. */
SL_MUST_CHECK sl_err sl_ckpt_saver_save(struct sl_ckpt_saver *saver,
                                        const struct sl_ckpt_place *place, bool wait);
/* Has a save ended since the last call? Fails with its error, or fills its report (step -1: none
 * ended). `wait`: until the current one ends. */
SL_MUST_CHECK sl_err sl_ckpt_saver_poll(struct sl_ckpt_saver *saver, bool wait,
                                        struct sl_save_report *report);

#endif
