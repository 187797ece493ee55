/* Rank of this process in its job, for transports without a launcher of their own. */
#ifndef SL_COMM_JOB_H
#define SL_COMM_JOB_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum { SL_COMM_KEY = 32 };

struct sl_comm_job {
    int rank, ranks;
    char meet[320];  /* HOST:PORT of rank 0; "": there is one rank */
    bool many_hosts; /* HOST was named by Slurm: if it is a loopback address on its own host, rank 0
                           listens on all addresses */
    int meet_fd;     /* socket that already listens there, or -1 */
    int64_t timeout_ns;       /* for all ranks to connect */
    const void *communicator; /* rows with a launcher: an MPI_Comm of the caller; NULL: all ranks */

    /* Each end of a connection proves that it has the key (tcp_auth.h). */
    unsigned char key[SL_COMM_KEY];
    bool has_key;
    bool insecure;       /* connect without a key, to anybody */
    bool encrypt;        /* messages are sealed; all ranks of a job or none */
    char step[96];       /* the Slurm step, for the name of its key; "": none */
    char key_file[1024]; /* where rank 0 puts the key for the others; "": they have it */
};
/* job.c: reads SLUICE_RANK, SLUICE_RANKS, SLUICE_MEET, SLUICE_KEY, SLUICE_KEY_FILE, ..., else the
 * variables of srun; lookup is getenv. If none is set there is one rank. */
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
