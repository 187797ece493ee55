/* Accuracy: the output `logits` [..., V] of an evaluation against the targets of the first loss. */
#ifndef SL_RUN_SCORES_H
#define SL_RUN_SCORES_H

#include "run/train.h"

struct sl_scores {
    const struct sl_program_port *port; /* NULL: this worker makes none */
    int input;
    int64_t ignore, classes, rows;
    int64_t piece; /* rows that are fetched at a time */
    float *at;
    int32_t *targets;
    int64_t right, counted;
};

/* port stays NULL when there is nothing to count. */
void sl_run_scores_open(const struct sl_train *train, struct sl_scores *scores);
void sl_run_scores_close(struct sl_scores *scores);
/* Of the micro-batch that has just been evaluated. */
SL_MUST_CHECK sl_err sl_run_scores_count(struct sl_train *train, const struct sl_feed *feed,
                                         struct sl_scores *scores);

/* How many samples an evaluation of `samples` takes when they come `unit` at a time. SL_ERR_REFUSED when
 * the validation split is too small. */
SL_MUST_CHECK sl_err sl_run_eval_samples(const struct sl_train_config *config, int64_t samples,
                                         int64_t unit, int64_t *out);

#endif
