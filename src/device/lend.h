/* Workers of one process that lend each other their threads while they wait.
 *
 * While a loop over pieces is open, idle threads of other workers may join it as guests and take
 * pieces, with scratch of their own worker. A piece has the same bits on any thread. Only CPU
 * devices have such loops.
 */
#ifndef SL_DEVICE_LEND_H
#define SL_DEVICE_LEND_H

#include "device/device.h"

struct sl_device_lend;

struct sl_device_lend *sl_device_lend_open(int max_devices);
/* Frees it; call this when none of its devices runs. They may be closed before or after. */
void sl_device_lend_close(struct sl_device_lend *lend); /* NULL is allowed */
/* Adds a device; call it before the device runs. It does nothing for devices other than CPUs. */
void sl_device_lend_join(struct sl_device_lend *lend, struct sl_device *device);
/* Lends the threads of this device. The thread that drives the device calls it between two runs.
 * All threads of the device take pieces of a loop of another device, until none is left or enough()
 * returns true, which is called between two pieces. Returns false if there was no such loop. */
bool sl_device_lend_work(struct sl_device *device, bool (*enough)(void *ctx), void *ctx);
/* Returns the number of pieces that guests have computed so far. */
int64_t sl_device_lend_count(const struct sl_device_lend *lend);

#endif
