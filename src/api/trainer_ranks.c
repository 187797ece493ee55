/* The ranks of a trainer: threads of this process, or a communicator of the caller. */
#include "api/trainer.h"

#include <string.h>

static const struct sl_transport *find_launched(void) {
    for (int i = 0; sl_comm_transports[i]; i++)
        if (sl_comm_transports[i]->has_launcher)
            return sl_comm_transports[i];
    return NULL;
}

sl_err sl_api_ranks_open(struct sl_trainer *t) {
    struct sl_comm_job job = {.communicator = t->communicator};
    const struct sl_transport *row = find_launched();
    if (!t->uses_mpi)
        return SL_OK;
    if (!row)
        return sl_fail(SL_ERR_REFUSED, "this library was built without MPI");
    SL_TRY(sl_comm_transport_find(row->name, &row));
    return sl_comm_open(row, &job, &t->comm);
}

sl_err sl_api_ranks_close(struct sl_trainer *t) {
    if (!t->comm)
        return SL_OK;
    sl_err err = sl_comm_settle(t->comm, t->state == SL_TRAINER_FAILED ? sl_err_code() : SL_OK);
    sl_comm_close(t->comm);
    return err;
}
