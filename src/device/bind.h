/* Binding threads to hardware threads. Places are those that this process may use, hardware threads
 * of a core next to each other, so that the threads of a worker share caches and no two workers
 * share a core. */
#ifndef SL_DEVICE_BIND_H
#define SL_DEVICE_BIND_H

#include "base/err.h"

enum { SL_BIND_MOST = 1024 };

/* How many places there are; the system's numbers of them (SL_BIND_MOST fit). */
int sl_bind_count(void);
int sl_bind_places(int *out);
/* The calling thread, from now on. */
SL_MUST_CHECK sl_err sl_bind_thread(int place);

/* bind_hwloc.c or bind_nohwloc.c: the numbers of the places for the system, in order; at most
 * SL_BIND_MOST. */
int sl_bind_list(int *out);

#endif
