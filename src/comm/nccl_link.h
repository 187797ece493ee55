/* Links for device memory (NCCL) over a transport of tagged messages; nccl_link.c explains them. */
#ifndef SL_COMM_NCCL_LINK_H
#define SL_COMM_NCCL_LINK_H

#include "comm/post.h"
#include "device/nccl_link.h"

struct sl_nccl_link;

/* Attaches links to an open transport (struct sl_post first). Messages from and to device memory
 * then use links of `row`; other messages use the transport. The links close with the transport.
 * loop: there is also a link from this rank to itself, for tests. */
SL_MUST_CHECK sl_err sl_comm_nccl_link_attach(struct sl_comm *comm,
                                              const struct sl_nccl_link_row *row, const char *name,
                                              bool loop);

/* Connects two ranks in both directions; does nothing on other ranks. All ranks call it in the same
 * order, before the first message. */
SL_MUST_CHECK sl_err sl_comm_nccl_link_connect(struct sl_post *post, int from, int to);

/* Functions for post.c, called under the lock. */
bool sl_comm_nccl_link_owns(const struct sl_nccl_link *nccl_link, const void *bytes);
SL_MUST_CHECK sl_err sl_comm_nccl_link_send(struct sl_nccl_link *nccl_link, struct sl_transfer *op,
                                            const void *bytes, int64_t size_bytes, int to, int tag);
SL_MUST_CHECK sl_err sl_comm_nccl_link_receive(struct sl_nccl_link *nccl_link,
                                               struct sl_transfer *op, void *bytes,
                                               int64_t size_bytes, int from, int tag);
/* Drops an operation; *found: it used a link. Returns whether its memory is free. */
bool sl_comm_nccl_link_drop(struct sl_nccl_link *nccl_link, const struct sl_transfer *op,
                            bool *found);

#endif
