/* This computer as a machine: cores as workers, joined by memory. */
#ifndef SL_PROFILE_HOST_INFO_H
#define SL_PROFILE_HOST_INFO_H

#include "cost/machine.h"

/* What the operating system says. */
struct sl_host_info {
    int cores;            /* physical ones this process may use */
    int64_t memory_bytes; /* free for use */
    int64_t cache_bytes;  /* the last level, shared */
    const char *source;   /* "hwloc" or "/proc" */
};
void sl_profile_host_info_look(struct sl_host_info *out); /* here_hwloc.c or here_nohwloc.c */

/* One device per core; bandwidth and speed are measured for a few milliseconds. */
SL_MUST_CHECK sl_err sl_profile_machine_here(struct sl_arena *arena, const struct sl_machine **out);

#endif
