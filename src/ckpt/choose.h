/* Chooses the checkpoint that a run continues from: the one that `latest` names, else the newest
 * undamaged one.
 *
 *   choices_open   the directories, in the order in which a resume tries them
 *   choice_open    opens one; a damaged one is SL_ERR_INPUT, and the next is tried
 *   roll_back      after an older one was chosen: `latest` names it, newer ones are set aside
 *
 * Only damage leads to an older checkpoint. Any other error (permission, memory) ends the search:
 * the newest checkpoint may be undamaged. */
#ifndef SL_CKPT_CHOOSE_H
#define SL_CKPT_CHOOSE_H

#include "ckpt/ckpt.h"

struct sl_ckpt_choices {
    struct sl_arena arena;
    const char *root;
    const char **name;
    int count;
    bool has_latest; /* the first choice is the one that `latest` names, with this hash */
    uint64_t hash;
};

/* Lists the choices; step < 0: of any step. Appends to `skipped` why `latest` was not used. Close
 * `out` even after an error. */
SL_MUST_CHECK sl_err sl_ckpt_choices_open(const char *run, int64_t step, struct sl_text *skipped,
                                          struct sl_ckpt_choices *out);
void sl_ckpt_choices_close(struct sl_ckpt_choices *choices);
SL_MUST_CHECK sl_err sl_ckpt_choice_open(struct sl_ckpt_choices *choices, int index,
                                         struct sl_ckpt **out);
/* Appends the directory and the current error message to `skipped`. */
void sl_ckpt_choice_skip(const struct sl_ckpt_choices *choices, int index, struct sl_text *skipped);
/* Sets newer checkpoints aside as ckpt/left-step-N. Only the process that may write to the run
 * calls it. */
SL_MUST_CHECK sl_err sl_ckpt_roll_back(const struct sl_ckpt *ckpt);

#endif
