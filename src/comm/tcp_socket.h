/* Sockets of the TCP transport. All are nonblocking. */
#ifndef SL_COMM_TCP_SOCKET_H
#define SL_COMM_TCP_SOCKET_H

#include "base/address.h"

#include <stddef.h>

/* Listens at this address only. `where` names it in errors. */
SL_MUST_CHECK sl_err sl_comm_tcp_listen(const struct sl_address *at, const char *where, int *out);
SL_MUST_CHECK sl_err sl_comm_tcp_unblock(int fd);
/* Accepts the next caller; -1: there is none now. */
int sl_comm_tcp_accept(int listener);
SL_MUST_CHECK sl_err sl_comm_tcp_start_connect(const struct sl_address *at, int *out);
/* Called when the socket is ready: did the connection succeed, and from which address? */
SL_MUST_CHECK sl_err sl_comm_tcp_connected(int fd, struct sl_address *own);
SL_MUST_CHECK sl_err sl_comm_tcp_own_address(int fd, struct sl_address *out);

/* Transfers all bytes before the deadline, or returns false. */
bool sl_comm_tcp_read_all(int fd, void *bytes, size_t size, int64_t end_ns);
bool sl_comm_tcp_write_all(int fd, const void *bytes, size_t size, int64_t end_ns);

#endif
