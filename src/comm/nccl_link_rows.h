/* The transport rows of a build with CUDA. */
#ifndef SL_COMM_NCCL_LINK_ROWS_H
#define SL_COMM_NCCL_LINK_ROWS_H

#include "comm/comm.h"

extern const struct sl_transport sl_comm_transport_nccl, sl_comm_transport_nccl_mpi;

#endif
