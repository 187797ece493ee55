/* The TCP transport (tcp.c). */
#ifndef SL_COMM_TCP_H
#define SL_COMM_TCP_H

#include "comm/comm.h"

extern const struct sl_transport sl_comm_transport_tcp;

#endif
