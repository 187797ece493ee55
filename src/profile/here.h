/* This computer as a machine: cores as workers, joined by memory. */
#ifndef SL_PROFILE_HERE_H
#define SL_PROFILE_HERE_H

#include "cost/machine.h"

/* What the operating system says. */
struct sl_here {
    int cores;            /* physical ones this process may use */
    int64_t memory_bytes; /* free for use */
    int64_t cache_bytes;  /* the last level, shared */
    const char *source;   /* "hwloc" or "/proc" */
};
void sl_here_look(struct sl_here *out); /* here_hwloc.c or here_nohwloc.c */

/* One device per core; bandwidth and speed are measured for a few milliseconds. */
SL_MUST_CHECK sl_err sl_machine_here(struct sl_arena *arena, const struct sl_machine **out);

#endif
