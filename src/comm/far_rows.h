/* Rows of a build that has CUDA. */
#ifndef SL_COMM_FAR_ROWS_H
#define SL_COMM_FAR_ROWS_H

#include "comm/comm.h"

extern const struct sl_transport sl_transport_nccl, sl_transport_nccl_mpi;

#endif
