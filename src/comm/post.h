/* Tagged messages between ranks, the base of channels and groups between processes.
 *
 * A transport between processes provides six functions (struct sl_post_row) and has struct
 * sl_post as its first field. All such transports share channels (post_channel.c), groups
 * (post_group.c) and tables of all ranks. Messages from one rank with one tag stay in order. */
#ifndef SL_COMM_POST_H
#define SL_COMM_POST_H

#include "comm/comm.h"
#include "comm/crew.h"
#include "comm/ring.h"

/* An operation in progress. When it completes, done() is called; then busy becomes false. */
struct sl_transfer {
    void (*done)(struct sl_transfer *op, int64_t size_bytes);
    atomic_bool busy;
};

struct sl_nccl_link;
struct sl_ipc_left;
struct sl_ipc_row;
struct sl_kept;

/* A set of ranks that merge tables, with the index of this rank and the tag that they use. */
struct sl_ranks {
    int *at, count;
    int me; /* index of this rank; -1: it is not in the set */
    int tag;
};

struct sl_post {
    struct sl_comm base;
    const struct sl_post_row *row;
    struct sl_ranks everyone;
    int next_tag, last_tag;
    int *host_of; /* [ranks] number of the host of each; NULL: memory is not shared */
    /* Channels that were closed after a failure while a transfer could still access their memory.
     * They are freed with the transport. Under the lock. */
    struct sl_channel *left;
    struct sl_kept *kept; /* messages for which the same holds (sl_comm_post_pass) */
    struct sl_nccl_link
        *nccl_link; /* links for device memory (nccl_link.h); NULL: only host memory */
    const struct sl_ipc_row *ipc; /* functions that share device memory (ipc.h); NULL: CUDA IPC */
    struct sl_ipc_left *ipc_left; /* shared memory for which the same holds as for `left` */
    bool ipc_said[2];             /* has been logged: sharing is refused [0]; sharing is used [1] */
};

struct sl_post_row {
    void (*lock)(struct sl_post *post);
    void (*unlock)(struct sl_post *post);
    /* Starts an operation, under the lock; op->busy until it completes. */
    sl_err (*send)(struct sl_post *post, struct sl_transfer *op, const void *bytes,
                   int64_t size_bytes, int to, int tag);
    /* The same, but completes only when the receiver has a place for the message. */
    sl_err (*send_sync)(struct sl_post *post, struct sl_transfer *op, const void *bytes,
                        int64_t size_bytes, int to, int tag);
    sl_err (*receive)(struct sl_post *post, struct sl_transfer *op, void *bytes, int64_t size_bytes,
                      int from, int tag);
    /* Cancels an operation after a failure. Returns false if its memory may still be accessed and
     * must stay. */
    bool (*drop)(struct sl_post *post, struct sl_transfer *op);
    /* If there is host_of: allocates zeroed memory of rank `owner` that all ranks of a host see.
     * They all call it, under the lock, in the same order. The memory lives as long as the
     * transport. */
    sl_err (*share)(struct sl_post *post, int owner, int64_t size_bytes, char **out);
};

/* Called when rank, ranks and last_tag are known. */
void sl_comm_post_open(struct sl_post *post);
void sl_comm_post_close(struct sl_post *post);
void sl_comm_post_free_kept(struct sl_post *post); /* a part of close */

void sl_comm_post_lock(struct sl_post *post);
void sl_comm_post_unlock(struct sl_post *post);
SL_MUST_CHECK sl_err sl_comm_post_send(struct sl_post *post, struct sl_transfer *op,
                                       const void *bytes, int64_t size_bytes, int to, int tag);
SL_MUST_CHECK sl_err sl_comm_post_send_sync(struct sl_post *post, struct sl_transfer *op,
                                            const void *bytes, int64_t size_bytes, int to, int tag);
SL_MUST_CHECK sl_err sl_comm_post_receive(struct sl_post *post, struct sl_transfer *op, void *bytes,
                                          int64_t size_bytes, int from, int tag);
bool sl_comm_post_drop(struct sl_post *post, struct sl_transfer *op);
/* Reserves `count` tags. */
SL_MUST_CHECK sl_err sl_comm_post_take_tags(struct sl_post *post, int64_t count, int *first);
/* Waits for operations; the caller must not hold the lock. */
SL_MUST_CHECK sl_err sl_comm_post_wait(struct sl_post *post, struct sl_transfer *ops, int count);
/* Sends or receives one small message and waits for it. */
SL_MUST_CHECK sl_err sl_comm_post_pass(struct sl_post *post, bool sends, void *bytes,
                                       int64_t size_bytes, int peer, int tag);

enum { SL_MERGE_STEPS = 24 }; /* tags that a merge needs, for at most 2^24 ranks */
/* Bitwise or over the bytes of the ranks; scratch also has size_bytes. */
SL_MUST_CHECK sl_err sl_comm_post_merge(struct sl_post *post, const struct sl_ranks *ranks,
                                        void *bytes, void *scratch, int64_t size_bytes);

/* Functions for the row of a transport. */
sl_err sl_comm_post_merge_all(struct sl_comm *comm, void *bytes, int64_t size_bytes);
sl_err sl_comm_post_channel_open(struct sl_comm *comm, const struct sl_channel_spec *spec,
                                 struct sl_channel **out);
void sl_comm_post_channel_close(struct sl_channel *channel);
sl_err sl_comm_post_channel_reserve(struct sl_channel *channel, int64_t n, char **out);
sl_err sl_comm_post_channel_send(struct sl_channel *channel, int64_t n, int64_t size_bytes);
sl_err sl_comm_post_channel_receive(struct sl_channel *channel, int64_t n, struct sl_message *out);
sl_err sl_comm_post_channel_release(struct sl_channel *channel, int64_t n);
sl_err sl_comm_post_group_open(struct sl_comm *comm, const struct sl_group_spec *spec,
                               struct sl_group **out);
void sl_comm_post_group_close(struct sl_group *group);
sl_err sl_comm_post_group_merge(struct sl_group *group, int member, double *table, int64_t count);
sl_err sl_comm_post_sum_begin(struct sl_group *group, int member, const float *const *terms,
                              int64_t count, float *out);
sl_err sl_comm_post_sum_poke(struct sl_group *group, int member);
sl_err sl_comm_post_sum_end(struct sl_group *group, int member);

#define SL_POST_FUNCTIONS                                                                          \
    .merge = sl_comm_post_merge_all, .channel_open = sl_comm_post_channel_open,                    \
    .channel_close = sl_comm_post_channel_close, .reserve = sl_comm_post_channel_reserve,          \
    .send = sl_comm_post_channel_send, .receive = sl_comm_post_channel_receive,                    \
    .release = sl_comm_post_channel_release, .group_open = sl_comm_post_group_open,                \
    .group_close = sl_comm_post_group_close, .group_merge = sl_comm_post_group_merge,              \
    .sum_begin = sl_comm_post_sum_begin, .sum_poke = sl_comm_post_sum_poke,                        \
    .sum_end = sl_comm_post_sum_end

#endif
