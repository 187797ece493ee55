/* State of the MPI transport. Private to mpi*.c, the files of the module. */
#ifndef SL_COMM_MPI_STATE_H
#define SL_COMM_MPI_STATE_H

#include "base/module.h"
#include "comm/post.h"

#include <mpi.h>

/* All MPI calls hold `lock`, so MPI_THREAD_SERIALIZED suffices, and a waiting thread makes progress
 * for all. */
struct mpi_comm {
    struct sl_post post;
    MPI_Comm world, control; /* messages; failures */
    pthread_mutex_t lock;
    MPI_Request *requests;    /* [active] */
    struct sl_transfer **ops; /* [active] */
    int *indices;
    MPI_Status *statuses;
    int active, room;
    MPI_Comm node;    /* ranks of this host; MPI_COMM_NULL: memory is not shared */
    MPI_Win *windows; /* shared memory of channels */
    int window_count;
    bool own_init;    /* MPI was started here */
    bool announced;   /* our failure was sent to the other ranks */
    int failed_ranks; /* ranks that have sent a failure */
    struct mpi_failure *told, *heard;
    struct sl_transfer hear;
};

/* An MPI call as an expression of our type. */
sl_err sl_comm_mpi_check(int code, const char *call);
#define SL_MPI(call) sl_comm_mpi_check((call), #call)

/* Which MPI this module was built for: it runs under the mpirun of that one only. */
#ifdef OMPI_MAJOR_VERSION
#define SL_MPI_NUMBER(a, b, c) "Open MPI " #a "." #b "." #c
#define SL_MPI_NAME(a, b, c) SL_MPI_NUMBER(a, b, c)
#define SL_MPI_MADE_FOR SL_MPI_NAME(OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION, OMPI_RELEASE_VERSION)
#elif defined MPICH_VERSION
#define SL_MPI_MADE_FOR "MPICH " MPICH_VERSION
#else
#define SL_MPI_MADE_FOR "MPI"
#endif

SL_MODULE_EXPORT extern const struct sl_transport sl_comm_transport_mpi, sl_comm_transport_mpi_p2p;
SL_MODULE_EXPORT extern const char sl_comm_module_build[]; /* see base/module.h */

/* mpi_node.c: the ranks of this host, and memory that they share. */
SL_MUST_CHECK sl_err sl_comm_mpi_node_open(struct mpi_comm *comm);
sl_err sl_comm_mpi_node_share(struct sl_post *post, int owner, int64_t size_bytes, char **out);
void sl_comm_mpi_node_close(struct mpi_comm *comm, bool failed);

/* mpi_life.c: heartbeats over TCP. If a host cannot connect, no rank uses them. */
void sl_comm_mpi_life_open(struct mpi_comm *comm);
void sl_comm_mpi_life_close(struct mpi_comm *comm);
int sl_comm_mpi_life_lost(struct mpi_comm *comm); /* ranks */

#endif
