/* Rank of this process in its job, for transports without a launcher of their own. */
#ifndef SL_COMM_JOB_H
#define SL_COMM_JOB_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct sl_comm_job {
    int rank, ranks;
    char meet[320]; /* HOST:PORT of rank 0; "": there is one rank */
    bool anywhere;  /* rank 0 listens on all its addresses; HOST may resolve differently there */
    int meet_fd;    /* socket that already listens there, or -1 */
    uint64_t key;   /* of the job; connections with another key are closed */
    int64_t timeout_ns;       /* for all ranks to connect */
    const void *communicator; /* rows with a launcher: an MPI_Comm of the caller; NULL: all ranks */
};
/* job.c: reads SLUICE_RANK, SLUICE_RANKS, SLUICE_MEET, SLUICE_KEY, ..., else the variables of srun;
 * lookup is getenv. If none is set there is one rank. */
SL_MUST_CHECK sl_err sl_comm_job_read(char *(*lookup)(const char *name), struct sl_comm_job *out);
/* Is this process one of several tasks of a Slurm step? */
bool sl_comm_job_is_step(char *(*lookup)(const char *name));

struct sl_comm;
/* launcher.c: the transport for a process that was started as this one: "tcp" by 'sluice launch' or
 * srun, "mpi" by an MPI launcher, else "threads". */
const char *sl_comm_launched_as(char *(*lookup)(const char *name));
/* Fails if the launcher belongs to another MPI: every process then sees one rank, and all would
 * write the same files. */
SL_MUST_CHECK sl_err sl_comm_check_launcher(const struct sl_comm *comm,
                                            char *(*lookup)(const char *name));

#endif
