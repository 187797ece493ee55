/* The transports for one process per GPU. Device memory goes over NCCL; host messages, start and
 * heartbeats over TCP or MPI. */
#include "comm/nccl_link.h"
#include "comm/nccl_link_rows.h"

static sl_err open_over(const char *below, const char *name, const struct sl_comm_job *job,
                        struct sl_comm **out) {
    const char *why;
    const struct sl_transport *row;
    const struct sl_nccl_link_row *gpus = sl_device_nccl_link_gpus(&why);
    if (!gpus)
        return sl_fail(SL_ERR_SYSTEM, "transport '%s' cannot be used here: %s", name, why);
    SL_TRY(sl_comm_transport_find(below, &row));
    SL_TRY(sl_comm_open(row, job, out));
    return sl_comm_nccl_link_attach(*out, gpus, name, false);
}

static sl_err open_nccl(const struct sl_comm_job *job, struct sl_comm **out) {
    return open_over("tcp", "nccl", job, out);
}

static sl_err open_nccl_mpi(const struct sl_comm_job *job, struct sl_comm **out) {
    (void)job; /* unused: MPI numbers the ranks */
    return open_over("mpi-p2p", "nccl-mpi", NULL, out);
}

const struct sl_transport sl_comm_transport_nccl = {
    .name = "nccl",
    .brief =
        "workers are processes with a GPU each, connected by NCCL and tcp (untested on two GPUs)",
    .open = open_nccl,
};

const struct sl_transport sl_comm_transport_nccl_mpi = {
    .name = "nccl-mpi",
    .brief = "nccl for the ranks of an MPI job (untested on two GPUs)",
    .has_launcher = true,
    .open = open_nccl_mpi,
};
