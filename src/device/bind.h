/* Pinning threads to hardware threads.
 *
 * Places are the hardware threads that this process may use. Hardware threads of a core are
 * neighbours: the threads of a worker share caches, and no two workers share a core.
 */
#ifndef SL_DEVICE_BIND_H
#define SL_DEVICE_BIND_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum { SL_BIND_MAX = 1024 };

/* Return the number of places; write their CPU numbers, at most SL_BIND_MAX. */
int sl_device_bind_count(void);
int sl_device_bind_places(int *out);
/* Pins the calling thread. */
SL_MUST_CHECK sl_err sl_device_bind_thread(int place);

/* Spins while a pinned thread waits: a core that sleeps loses its caches, and on a virtual
 * machine waking it exits to the host. Call it in a loop, with *until_ns 0 at first. It yields and
 * pauses. It returns false after 50 ms, or if another thread recently ran on this core. */
bool sl_device_bind_stay_awake(int64_t *until_ns);

/* bind_hwloc.c, bind_nohwloc.c: writes the CPU numbers of the places, at most SL_BIND_MAX. */
int sl_device_bind_list(int *out);

#endif
