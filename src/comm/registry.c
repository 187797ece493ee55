/* The table of transports. */
#include "comm/comm.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/module.h"
#include "comm/module_build.h"
#include "comm/mpi_host.h"
#include "comm/nccl_link_rows.h"
#include "comm/tcp.h"
#include "comm/threads.h"

#include <stdio.h>
#include <string.h>

static const struct sl_transport mpi = {
    .name = "mpi",
    .brief = "workers are ranks of an MPI job, or their threads",
    .module = "libsluice_mpi.so",
    .has_launcher = true,
};

static const struct sl_transport mpi_p2p = {
    .name = "mpi-p2p",
    .brief = "mpi with messages only, as between hosts (no shared memory)",
    .module = "libsluice_mpi.so",
    .has_launcher = true,
};

const struct sl_transport *const sl_comm_transports[] = {
    &mpi,
    &mpi_p2p,
#if SL_HAVE_CUDA
    &sl_comm_transport_nccl,
    &sl_comm_transport_nccl_mpi,
#endif
    &sl_comm_transport_tcp,
    &sl_comm_transport_threads,
    NULL,
};

#define FUNCTION(result, name, params, args) .name = (name),
#define ACTION(name, params, args) .name = (name),
static const struct sl_comm_host host = {SL_COMM_HOST_TABLE(FUNCTION, ACTION).note = sl_log_note};

static sl_err load(const struct sl_transport *row, const struct sl_transport **out) {
    char symbol[64];
    const void *found;
    snprintf(symbol, sizeof symbol, "sl_comm_transport_%s", row->name);
    for (char *at = symbol; *at; at++)
        *at = *at == '-' ? '_' : *at;
    const void *connect;
    sl_err err = sl_module_load(row->module, symbol, SL_MODULE_BUILD, &found);
    if (err == SL_OK)
        err = sl_module_load(row->module, SL_COMM_MODULE_CONNECT, SL_MODULE_BUILD, &connect);
    if (err != SL_OK)
        return sl_err_context(err, "transport '%s'", row->name);
    ((sl_comm_module_connect_fn *)(uintptr_t)connect)(&host);
    *out = found;
    return SL_OK;
}

static int count_rows(void) {
    int count = 0;
    while (sl_comm_transports[count])
        count++;
    return count;
}

static const char *row_name(const void *ctx, int i) {
    (void)ctx;
    return sl_comm_transports[i]->name;
}

sl_err sl_comm_transport_find(const char *name, const struct sl_transport **out) {
    for (const struct sl_transport *const *row = sl_comm_transports; *row; row++) {
        if (strcmp((*row)->name, name) != 0)
            continue;
        *out = *row;
        return (*row)->module ? load(*row, out) : SL_OK;
    }
    const char *near = sl_nearest(name, count_rows(), row_name, NULL);
    return sl_fail(SL_ERR_USAGE, "there is no transport '%s'%s%s%s", name,
                   near ? "; did you mean '" : "; see 'sluice list transports'", near ? near : "",
                   near ? "'?" : "");
}
