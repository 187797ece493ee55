/* Accuracy: compares the output `logits` [..., V] of an evaluation with the targets of the first
 * loss. */
#ifndef SL_RUN_SCORES_H
#define SL_RUN_SCORES_H

#include "run/train.h"

struct sl_scores {
    /* the output `logits`; NULL: this worker does not compute it */
    const struct sl_program_port *port;
    int input;
    int64_t ignore, classes, rows;
    int64_t piece; /* rows fetched at a time */
    float *at;
    int32_t *targets;
    int64_t right, counted;
};

/* Sets scores->port to NULL if there is nothing to count. */
void sl_run_scores_open(const struct sl_train *train, struct sl_scores *scores);
void sl_run_scores_close(struct sl_scores *scores);
/* Counts the micro-batch that was evaluated last. */
SL_MUST_CHECK sl_err sl_run_scores_count(struct sl_train *train, const struct sl_feed *feed,
                                         struct sl_scores *scores);

/* Rounds `samples` to a multiple of `unit`, for an evaluation. SL_ERR_REFUSED if the validation
 * split is too small. */
SL_MUST_CHECK sl_err sl_run_eval_samples(const struct sl_train_config *config, int64_t samples,
                                         int64_t unit, int64_t *out);

#endif
