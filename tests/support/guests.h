/* Pools whose loops others may join, and somebody who always does: an idle worker of two threads
 * that looks for work without end. */
#ifndef SL_TESTS_SUPPORT_GUESTS_H
#define SL_TESTS_SUPPORT_GUESTS_H

#include "device/cpu/cpu.h"
#include "device/lend.h"

enum { GUESTS_HOSTS = 3 };

/* pools[t] has t + 1 threads, GUESTS_HOSTS of them. */
bool guests_open(struct sl_device_pool *pools[]);
/* How many pieces the guests did. */
int64_t guests_close(void);

#endif
