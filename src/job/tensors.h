/* Tensors of an open run by name, on all its ranks. */
#ifndef SL_JOB_TENSORS_H
#define SL_JOB_TENSORS_H

#include "run/runner.h"

/* Returns the entry of a name; -1: none. Finds only tensors that every checkpoint has. */
int64_t sl_job_tensor_find(const struct sl_ckpt_store *store, const char *name);
int64_t sl_job_tensor_numel(const struct sl_ckpt_entry *entry);

/* Gets the values of an entry on every rank. Every rank calls with the same entry. */
SL_MUST_CHECK sl_err sl_job_tensor_get(const struct sl_runner *runner, int64_t entry, float *out);
/* Sets the values of an entry to those of rank 0; every rank calls. SL_ERR_REFUSED while
 * micro-batches are in flight. */
SL_MUST_CHECK sl_err sl_job_tensor_put(const struct sl_runner *runner, int64_t entry,
                                       const float *values);
/* Copies weights and running statistics of a run into one worker on every rank. */
struct sl_train;
SL_MUST_CHECK sl_err sl_job_tensors_copy(const struct sl_runner *runner, struct sl_train *to);

#endif
