/* Tensors of an open run by name, on all its ranks. */
#ifndef SL_JOB_TENSORS_H
#define SL_JOB_TENSORS_H

#include "run/runner.h"

/* Entry of a name; -1: none. Only tensors that are there at any time count. */
int64_t sl_job_tensor_find(const struct sl_ckpt_store *store, const char *name);
int64_t sl_job_tensor_numel(const struct sl_ckpt_entry *entry);

/* Every rank calls with the same entry; every rank gets the values. */
SL_MUST_CHECK sl_err sl_job_tensor_get(const struct sl_runner *runner, int64_t entry, float *out);
/* Every rank calls; the values of rank 0 count. SL_ERR_REFUSED while micro-batches are in flight. */
SL_MUST_CHECK sl_err sl_job_tensor_put(const struct sl_runner *runner, int64_t entry,
                                       const float *values);
/* Weights and running statistics of a run into one worker on every rank. */
struct sl_train;
SL_MUST_CHECK sl_err sl_job_tensors_copy(const struct sl_runner *runner, struct sl_train *to);

#endif
