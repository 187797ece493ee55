/* This computer as a machine description: one device per core, linked by memory. */
#ifndef SL_PROFILE_HOST_INFO_H
#define SL_PROFILE_HOST_INFO_H

#include "cost/machine.h"

/* Facts from the operating system. */
struct sl_host_info {
    int cores;            /* physical cores that this process may use */
    int64_t memory_bytes; /* available memory */
    int64_t cache_bytes;  /* bytes of the shared last-level cache */
    const char *source;   /* "hwloc" or "/proc" */
};
void sl_profile_host_info_read(struct sl_host_info *out);

/* Builds the machine; measures bandwidth and speed for a few milliseconds. */
SL_MUST_CHECK sl_err sl_profile_machine_here(struct sl_arena *arena, const struct sl_machine **out);

#endif
