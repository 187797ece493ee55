/* State of the MPI transport. Private to mpi*.c, the files of the module. */
#ifndef SL_COMM_MPI_STATE_H
#define SL_COMM_MPI_STATE_H

#include "base/module.h"
#include "comm/post.h"

#include <mpi.h>

/* All MPI calls are made under `lock`, so MPI_THREAD_SERIALIZED suffices, and a waiting thread
 * makes progress for all. */
struct mpi_comm {
    struct sl_post post;
    MPI_Comm world, control; /* world: for messages; control: for failures */
    pthread_mutex_t lock;
    MPI_Request *requests;    /* [active] active requests */
    struct sl_transfer **ops; /* [active] their operations */
    int *indices;
    MPI_Status *statuses;
    int active, room;
    MPI_Comm node;    /* the ranks of this host; MPI_COMM_NULL: they do not share memory */
    MPI_Win *windows; /* windows of the shared memory of channels */
    int window_count;
    bool own_init;    /* this transport initialized MPI */
    bool announced;   /* our failure has been sent to the other ranks */
    int failed_ranks; /* number of ranks that have sent a failure */
    struct mpi_failure *told, *heard;
    struct sl_transfer hear;
};

/* SL_MPI(call): calls MPI and turns its return code into an sl_err. */
sl_err sl_comm_mpi_check(int code, const char *call);
#define SL_MPI(call) sl_comm_mpi_check((call), #call)

/* Names the MPI library that this module was built for: it runs only under the mpirun of that
 * library. */
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

/* mpi_node.c. The ranks of this host and their shared memory. */
SL_MUST_CHECK sl_err sl_comm_mpi_node_open(struct mpi_comm *comm);
sl_err sl_comm_mpi_node_share(struct sl_post *post, int owner, int64_t size_bytes, char **out);
void sl_comm_mpi_node_close(struct mpi_comm *comm, bool failed);

/* mpi_life.c. Heartbeats over TCP. If one host cannot connect, no rank uses them. */
void sl_comm_mpi_life_open(struct mpi_comm *comm);
void sl_comm_mpi_life_close(struct mpi_comm *comm);
int sl_comm_mpi_life_lost(struct mpi_comm *comm); /* number of lost ranks */

#endif
