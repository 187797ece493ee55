/* What the MPI transport is made of. Private to mpi*.c, which make up the module. */
#ifndef SL_COMM_MPI_STATE_H
#define SL_COMM_MPI_STATE_H

#include "comm/post.h"

#include <mpi.h>

/* Every MPI call is made under `lock`, so that MPI_THREAD_SERIALIZED is enough and whoever waits
 * moves everybody's messages. */
struct mpi_comm {
    struct sl_post post;
    MPI_Comm world, control; /* messages; failures */
    pthread_mutex_t lock;
    MPI_Request *requests;    /* [active] */
    struct sl_transfer **ops; /* [active] */
    int *indices;
    MPI_Status *statuses;
    int active, room;
    bool own_init;    /* MPI was started here */
    bool announced;   /* the others were told of our failure */
    int failed_ranks; /* others that told of theirs */
    struct mpi_failure *told, *heard;
    struct sl_transfer hear;
};

/* An MPI call as an expression of our type. */
sl_err mpi_check(int code, const char *call);
#define SL_MPI(call) mpi_check((call), #call)

extern const struct sl_transport sl_transport_mpi;

#endif
