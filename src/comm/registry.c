/* The transports. */
#include "comm/comm.h"

#include "base/module.h"
#include "comm/far_rows.h"
#include "comm/tcp.h"
#include "comm/threads.h"

#include <stdio.h>
#include <string.h>

static const struct sl_transport mpi = {
    .name = "mpi",
    .brief = "workers are ranks of an MPI job, or threads of them",
    .module = "libsluice_mpi.so",
};

static const struct sl_transport mpi_p2p = {
    .name = "mpi-p2p",
    .brief = "the same by messages only, as between hosts",
    .module = "libsluice_mpi.so",
};

const struct sl_transport *const sl_transports[] = {
    &mpi,
    &mpi_p2p,
#if SL_HAVE_CUDA
    &sl_transport_nccl,
    &sl_transport_nccl_mpi,
#endif
    &sl_transport_tcp,
    &sl_transport_threads,
    NULL,
};

static sl_err load(const struct sl_transport *row, const struct sl_transport **out) {
    char symbol[64];
    const void *found;
    snprintf(symbol, sizeof symbol, "sl_transport_%s", row->name);
    for (char *at = symbol; *at; at++)
        *at = *at == '-' ? '_' : *at;
    sl_err err = sl_module_load(row->module, symbol, &found);
    if (err != SL_OK)
        return sl_err_context(err, "transport '%s'", row->name);
    *out = found;
    return SL_OK;
}

sl_err sl_transport_find(const char *name, const struct sl_transport **out) {
    for (const struct sl_transport *const *row = sl_transports; *row; row++) {
        if (strcmp((*row)->name, name) != 0)
            continue;
        *out = *row;
        return (*row)->module ? load(*row, out) : SL_OK;
    }
    return sl_fail(SL_ERR_USAGE, "there is no transport '%s'; see 'sluice list transports'", name);
}
