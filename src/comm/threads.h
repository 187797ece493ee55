/* The transport of one process: workers are threads, and messages stay in place. */
#ifndef SL_COMM_THREADS_H
#define SL_COMM_THREADS_H

#include "comm/comm.h"

extern const struct sl_transport sl_comm_transport_threads;

#endif
