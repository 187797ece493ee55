/* What the MPI transport is made of. Private to mpi*.c, which make up the module. */
#ifndef SL_COMM_MPI_STATE_H
#define SL_COMM_MPI_STATE_H

#include "comm/comm.h"
#include "comm/crew.h"
#include "comm/ring.h"

#include <mpi.h>

/* Something under way. When it is over, whoever polled calls done(). */
struct mpi_op {
    void (*done)(struct mpi_op *op, const MPI_Status *status);
    atomic_bool busy;
};

/* Ranks that merge tables: who, which of them this one is, and the tags they use. */
struct mpi_ranks {
    int *at, count;
    int me; /* -1: none */
    int tag;
};

/* Every MPI call is made under `lock`, so that MPI_THREAD_SERIALIZED is enough and whoever waits
 * moves everybody's messages. */
struct mpi_comm {
    struct sl_comm base;
    MPI_Comm world, control; /* messages; failures */
    pthread_mutex_t lock;
    MPI_Request *requests; /* [active] */
    struct mpi_op **ops;   /* [active] */
    int *indices;
    MPI_Status *statuses;
    int active, room;
    int next_tag, last_tag;
    struct mpi_ranks everyone;
    bool own_init;    /* MPI was started here */
    bool announced;   /* the others were told of our failure */
    int failed_ranks; /* others that told of theirs */
    struct mpi_failure *told, *heard;
    struct mpi_op hear;
};

/* An MPI call as an expression of our type. */
sl_err mpi_check(int code, const char *call);
#define SL_MPI(call) mpi_check((call), #call)

/* mpi.c: under the lock. Start an operation: op->busy until it is over. */
void mpi_lock(struct mpi_comm *comm);
void mpi_unlock(struct mpi_comm *comm);
SL_MUST_CHECK sl_err mpi_isend(struct mpi_comm *comm, struct mpi_op *op, const void *bytes,
                               int64_t size_bytes, int to, int tag);
/* The same; over when the receiver has taken it in. */
SL_MUST_CHECK sl_err mpi_issend(struct mpi_comm *comm, struct mpi_op *op, const void *bytes,
                                int64_t size_bytes, int to, int tag);
SL_MUST_CHECK sl_err mpi_irecv(struct mpi_comm *comm, struct mpi_op *op, void *bytes,
                               int64_t size_bytes, int from, int tag);
/* Forget an operation that nobody will answer. False: MPI may still use its memory, which must
 * stay; only after a failure. */
bool mpi_drop(struct mpi_comm *comm, struct mpi_op *op);
/* `count` tags of their own. */
SL_MUST_CHECK sl_err mpi_take_tags(struct mpi_comm *comm, int64_t count, int *first);
/* Not under the lock. */
SL_MUST_CHECK sl_err mpi_wait(struct mpi_comm *comm, struct mpi_op *ops, int count);

/* mpi.c */
extern const struct sl_transport sl_transport_mpi;

/* mpi_channel.c */
sl_err mpi_channel_open(struct sl_comm *comm, const struct sl_channel_spec *spec,
                        struct sl_channel **out);
void mpi_channel_close(struct sl_channel *channel);
sl_err mpi_reserve(struct sl_channel *channel, int64_t n, char **out);
sl_err mpi_send(struct sl_channel *channel, int64_t n, int64_t size_bytes);
sl_err mpi_receive(struct sl_channel *channel, int64_t n, struct sl_message *out);
sl_err mpi_release(struct sl_channel *channel, int64_t n);

/* mpi_group.c */
enum { MPI_MERGE_STEPS = 24 }; /* tags of a merge: 2^24 ranks */
/* Bitwise or over the bytes of the ranks; scratch has size_bytes, too. */
SL_MUST_CHECK sl_err mpi_merge(struct mpi_comm *comm, const struct mpi_ranks *ranks, void *bytes,
                               void *scratch, int64_t size_bytes);
sl_err mpi_group_open(struct sl_comm *comm, const struct sl_group_spec *spec,
                      struct sl_group **out);
void mpi_group_close(struct sl_group *group);
sl_err mpi_group_merge(struct sl_group *group, int member, double *table, int64_t count);
sl_err mpi_sum_begin(struct sl_group *group, int member, const float *const *terms, int64_t count);
sl_err mpi_sum_end(struct sl_group *group, int member, float *out);

#endif
