/* The secret of a job. Only ranks that have it can connect (tcp_auth.h). */
#ifndef SL_COMM_KEY_H
#define SL_COMM_KEY_H

#include "comm/job.h"

#include <stddef.h>

/* Sets the key, which is a hash of the secret. SL_ERR_USAGE: the secret is shorter than 16
 * characters. */
SL_MUST_CHECK sl_err sl_comm_key_set(struct sl_comm_job *job, const char *secret, size_t length,
                                     const char *where);
/* Reads the secret from a file. SL_ERR_REFUSED unless it is a regular file of this user that nobody
 * else may read. */
SL_MUST_CHECK sl_err sl_comm_key_read(struct sl_comm_job *job, const char *path);

/* Shares the secret of a Slurm step. Rank 0 draws one and writes job->key_file (mode 600) in
 * `directory`, which the other ranks must see too. They read it again until they can connect
 * (tcp_meet.c). */
SL_MUST_CHECK sl_err sl_comm_key_share(struct sl_comm_job *job, const char *directory);
/* Removes the file. Rank 0 calls it when all ranks have connected. */
void sl_comm_key_forget(const struct sl_comm_job *job);

#endif
