/* Binding threads to hardware threads. Places are those that this process may use, hardware threads
 * of a core next to each other, so that the threads of a worker share caches and no two workers
 * share a core. */
#ifndef SL_DEVICE_BIND_H
#define SL_DEVICE_BIND_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum { SL_BIND_MAX = 1024 };

/* How many places there are; the system's numbers of them (SL_BIND_MAX fit). */
int sl_device_bind_count(void);
int sl_device_bind_places(int *out);
/* The calling thread, from now on. */
SL_MUST_CHECK sl_err sl_device_bind_thread(int place);

/* Who waits on a place of its own keeps it awake for a while: a core that slept comes back with
 * another's caches, on a virtual machine after an exit to its host. Called again and again, with
 * *until_ns 0 at first: pauses, offers the place to others, and is true until it is time to sleep:
 * after 50 ms, or at once while somebody has lately taken the place. */
bool sl_device_bind_stay_awake(int64_t *until_ns);

/* bind_hwloc.c or bind_nohwloc.c: the numbers of the places for the system, in order; at most
 * SL_BIND_MAX. */
int sl_device_bind_list(int *out);

#endif
