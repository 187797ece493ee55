/* The cores of this machine that this process may use. */
#ifndef SL_RUN_CORES_H
#define SL_RUN_CORES_H

#include "base/arena.h"
#include "base/err.h"

struct sl_cores {
    int *at; /* [count] the system's number of one hardware thread of each, ascending by place */
    int count;
};

/* cores_hwloc.c, cores_nohwloc.c: without hwloc every hardware thread counts as a core. */
SL_MUST_CHECK sl_err sl_cores_list(struct sl_arena *arena, struct sl_cores *out);

#endif
