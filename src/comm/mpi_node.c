/* Memory shared by the ranks of one host. A channel between two of them is a ring in this memory,
 * as between threads, and needs no MPI progress. */
#include "comm/mpi_state.h"

#include "base/arena.h"

#include <stdlib.h>
#include <string.h>

sl_err sl_comm_mpi_node_open(struct mpi_comm *comm) {
    const struct sl_comm *base = &comm->post.base;
    int first = base->rank;
    SL_TRY(SL_MPI(MPI_Comm_split_type(comm->world, MPI_COMM_TYPE_SHARED, base->rank, MPI_INFO_NULL,
                                      &comm->node)));
    SL_TRY(SL_MPI(MPI_Comm_set_errhandler(comm->node, MPI_ERRORS_RETURN)));
    SL_TRY(SL_MPI(MPI_Bcast(&first, 1, MPI_INT, 0, comm->node)));
    comm->post.host_of = sl_realloc(NULL, sizeof first * (size_t)base->ranks);
    return SL_MPI(MPI_Allgather(&first, 1, MPI_INT, comm->post.host_of, 1, MPI_INT, comm->world));
}

static int node_rank_of(const struct mpi_comm *comm, int rank) {
    int place = 0;
    for (int r = 0; r < rank; r++)
        place += comm->post.host_of[r] == comm->post.host_of[rank];
    return place;
}

/* Memory that Open MPI 4 allocates on every rank per window: 21 KiB, measured with 4 and 8
 * ranks. */
enum { WINDOW_BYTES = 21 << 10 };

/* Allocates shared memory. Its window is freed at the end, so that closing a channel does not wait
 * for other ranks. */
sl_err sl_comm_mpi_node_share(struct sl_post *post, int owner, int64_t size_bytes, char **out) {
    struct mpi_comm *comm = (struct mpi_comm *)post;
    bool mine = owner == post->base.rank;
    MPI_Aint size = mine ? (MPI_Aint)size_bytes : 0;
    MPI_Win window;
    int unit;
    void *memory;
    SL_TRY(SL_MPI(MPI_Win_allocate_shared(size, 1, MPI_INFO_NULL, comm->node, &memory, &window)));
    post->base.bytes += WINDOW_BYTES;
    size_t count = (size_t)comm->window_count + 1;
    comm->windows = sl_realloc(comm->windows, count * sizeof *comm->windows);
    comm->windows[comm->window_count++] = window;
    if (mine)
        memset(memory, 0, (size_t)size_bytes);
    SL_TRY(SL_MPI(MPI_Barrier(comm->node)));
    SL_TRY(SL_MPI(MPI_Win_shared_query(window, node_rank_of(comm, owner), &size, &unit, &memory)));
    *out = memory;
    return SL_OK;
}

void sl_comm_mpi_node_close(struct mpi_comm *comm, bool failed) {
    for (int i = 0; !failed && i < comm->window_count; i++)
        MPI_Win_free(&comm->windows[i]);
    if (!failed && comm->node != MPI_COMM_NULL)
        MPI_Comm_free(&comm->node);
    free(comm->windows);
    free(comm->post.host_of);
}
