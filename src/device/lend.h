/* Workers of one process that lend each other their threads while they wait.
 *
 * A loop whose pieces are taken one by one has a door; while it is open, idle threads of other
 * workers come in as guests and take pieces, with scratch of their own worker. Who does a piece
 * changes no bit of it. Only CPU devices have such loops.
 */
#ifndef SL_DEVICE_LEND_H
#define SL_DEVICE_LEND_H

#include "device/device.h"

struct sl_lend;

struct sl_lend *sl_lend_open(int max_devices);
/* When none of its devices runs any more; they may be closed before or after. */
void sl_lend_close(struct sl_lend *lend); /* NULL is fine */
/* Before the device runs; others than CPUs stay as they are. */
void sl_lend_join(struct sl_lend *lend, struct sl_device *device);
/* By the thread that drives the device, between two of its runs: all its threads take pieces of one
 * loop of another, until none is left or enough() is true, which is asked between two pieces.
 * False: there was no such loop. */
bool sl_lend_work(struct sl_device *device, bool (*enough)(void *ctx), void *ctx);
/* Pieces that guests have done so far. */
int64_t sl_lend_count(const struct sl_lend *lend);

#endif
