/* Device memory over a transport of tagged messages; see far.c. */
#ifndef SL_COMM_NCCL_LINK_H
#define SL_COMM_NCCL_LINK_H

#include "comm/post.h"
#include "device/nccl_link.h"

struct sl_nccl_link;

/* Give a transport that is open (struct sl_post first) links for device memory. From now on what is
 * sent from and received into device memory goes over links of `row`; the rest as before. It ends
 * with the transport. loop: also from this rank to itself; for tests. */
SL_MUST_CHECK sl_err sl_comm_nccl_link_attach(struct sl_comm *comm,
                                              const struct sl_nccl_link_row *row, const char *name,
                                              bool loop);

/* Links between these ranks, both ways, where this rank is one of them; all ranks call in the same
 * order, before anything is sent. */
SL_MUST_CHECK sl_err sl_comm_nccl_link_connect(struct sl_post *post, int from, int to);

/* Of post.c, under the lock. */
bool sl_comm_nccl_link_owns(const struct sl_nccl_link *nccl_link, const void *bytes);
SL_MUST_CHECK sl_err sl_comm_nccl_link_send(struct sl_nccl_link *nccl_link, struct sl_transfer *op,
                                            const void *bytes, int64_t size_bytes, int to, int tag);
SL_MUST_CHECK sl_err sl_comm_nccl_link_receive(struct sl_nccl_link *nccl_link,
                                               struct sl_transfer *op, void *bytes,
                                               int64_t size_bytes, int from, int tag);
/* *found: the operation was one of these; returns whether its memory is free again. */
bool sl_comm_nccl_link_drop(struct sl_nccl_link *nccl_link, const struct sl_transfer *op,
                            bool *found);

#endif
