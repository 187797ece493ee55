/* The rank of this process in its job, for transports without their own launcher. */
#ifndef SL_COMM_JOB_H
#define SL_COMM_JOB_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum { SL_COMM_KEY = 32 };

struct sl_comm_job {
    int rank, ranks;
    char meet[320]; /* HOST:PORT of rank 0; "": there is only one rank */
    /* Slurm named HOST: if it is a loopback address on that host, rank 0 listens on all
     * addresses */
    bool many_hosts;
    int meet_fd;        /* socket that already listens at `meet`; -1: none */
    int64_t timeout_ns; /* time in which all ranks must connect */
    /* for rows with their own launcher: an MPI_Comm of the caller; NULL: all ranks */
    const void *communicator;

    /* Each end of a connection proves that it has the key (tcp_auth.h). */
    unsigned char key[SL_COMM_KEY];
    bool has_key;
    bool insecure;       /* connect without a key, to anybody */
    bool encrypt;        /* encrypt messages; all ranks of a job do, or none */
    char step[96];       /* name of the Slurm step, for the file of its key; "": none */
    char key_file[1024]; /* file where rank 0 writes the key for the others; "": they have it */
};
/* job.c. Reads SLUICE_RANK, SLUICE_RANKS, SLUICE_MEET, SLUICE_KEY, SLUICE_KEY_FILE, ..., or else
 * the variables of srun; `lookup` is getenv. If none is set, there is one rank. */
SL_MUST_CHECK sl_err sl_comm_job_read(char *(*lookup)(const char *name), struct sl_comm_job *out);
/* Is this process one of several tasks of a Slurm step? */
bool sl_comm_job_is_step(char *(*lookup)(const char *name));

struct sl_comm;
/* launcher.c. Returns the transport for the way this process was started: "tcp" for 'sluice launch'
 * and srun, "mpi" for an MPI launcher, else "threads". */
const char *sl_comm_launched_as(char *(*lookup)(const char *name));
/* Fails if the launcher belongs to another MPI library: then every process sees one rank, and all
 * would write the same files. */
SL_MUST_CHECK sl_err sl_comm_check_launcher(const struct sl_comm *comm,
                                            char *(*lookup)(const char *name));

#endif
