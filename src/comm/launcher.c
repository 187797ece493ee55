/* Recognizes programs that start ranks by the environment variables that they set. */
#include "comm/comm.h"

#include <stdlib.h>

/* The variables that launchers set in every process: Open MPI; MPICH and its descendants (also srun
 * --mpi=pmi2); srun --mpi=pmix; MVAPICH; Cray. */
static const struct {
    const char *rank, *size; /* names of variables; size NULL: the launcher sets none */
} launchers[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}, {"PMI_RANK", "PMI_SIZE"}, {"PMIX_RANK", NULL},
    {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"},   {"PALS_RANKID", NULL},
};

const char *sl_comm_launched_as(char *(*lookup)(const char *name)) {
    /* first, because 'sluice launch' may run inside a job of another launcher */
    if (lookup("SLUICE_RANK"))
        return "tcp";
    for (int i = 0; i < SL_COUNT(launchers); i++)
        if (lookup(launchers[i].rank))
            return "mpi";
    return sl_comm_job_is_step(lookup) ? "tcp" : "threads"; /* srun --mpi=none gives "tcp" */
}

sl_err sl_comm_check_launcher(const struct sl_comm *comm, char *(*lookup)(const char *name)) {
    for (int i = 0; comm->ranks == 1 && i < SL_COUNT(launchers); i++) {
        const char *size = launchers[i].size ? lookup(launchers[i].size) : NULL;
        if (size && atoi(size) > 1)
            return sl_fail(
                SL_ERR_SYSTEM,
                "started as one of %s ranks, but the MPI module, built for %s, sees one: "
                "the launcher belongs to another MPI; use the mpirun of %s, or 'sluice "
                "launch'",
                size, comm->row->made_for, comm->row->made_for);
    }
    return SL_OK;
}
