/* Addresses of processes: HOST:PORT, with an IPv6 address in brackets: [::1]:29500. */
#ifndef SL_BASE_ADDRESS_H
#define SL_BASE_ADDRESS_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

enum { SL_ADDRESSES_MAX = 16, SL_HOST_TEXT = 256 };

struct sl_address {
    struct sockaddr_storage at;
    socklen_t length;
};

struct sl_addresses {
    struct sl_address at[SL_ADDRESSES_MAX];
    int count; /* at least 1 */
};

/* Finds every address of the host for TCP. `where` names the text in errors. Returns SL_ERR_USAGE
 * if it is not HOST:PORT with a port from 1 to 65535, SL_ERR_SYSTEM if the host is unknown. */
SL_MUST_CHECK sl_err sl_address_find(const char *text, const char *where, struct sl_addresses *out);
/* Finds all addresses of this host, each with the port of `text`. */
SL_MUST_CHECK sl_err sl_address_find_any(const char *text, const char *where,
                                         struct sl_addresses *out);
bool sl_address_is_loopback(const struct sl_address *address);
void sl_address_set_port(struct sl_address *address, uint16_t port);

#endif
