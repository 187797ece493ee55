/* The lock of a run directory: at most one process writes to a run.
 *
 *   RUN/lock    "host NAME process PID start TICKS boot ID": the holder; removed on release
 *
 * The kernel holds the lock (an open-file-description lock), so it ends with the process, even
 * if that is killed. Network file systems pass it to their server, so it also holds between
 * hosts. On a file system without locks, the file RUN/lock.held is the lock: it is created
 * exclusively, and taken over only if its process was on this host and has ended. */
#ifndef SL_CKPT_LOCK_H
#define SL_CKPT_LOCK_H

#include "base/text.h"

struct sl_ckpt_lock;

/* Takes the lock. The directory must exist. SL_ERR_REFUSED names the holder. */
SL_MUST_CHECK sl_err sl_ckpt_lock_take(const char *run, struct sl_ckpt_lock **out);
/* Takes RUN/lock.held instead, for file systems without locks and for tests. */
SL_MUST_CHECK sl_err sl_ckpt_lock_take_by_file(const char *run, struct sl_ckpt_lock **out);
void sl_ckpt_lock_release(struct sl_ckpt_lock *lock); /* lock may be NULL */

#endif
