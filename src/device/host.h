/* Which devices are the host itself. */
#ifndef SL_DEVICE_HOST_H
#define SL_DEVICE_HOST_H

#include "device/device.h"

/* Its memory is the host's, and what a call does is done when it returns. */
bool sl_device_is_host(const struct sl_device_row *row);

#endif
