/* A device whose memory is apart, as a GPU's is: the CPU's, at addresses that nobody else can use.
 * Who touches it without the device dies. */
#ifndef SL_TEST_APART_H
#define SL_TEST_APART_H

#include "device/device.h"

const struct sl_device_row *apart_row(void);
bool apart_is(const void *at);
/* The address as others see it, and back. */
void *apart_hide(void *at);
void *apart_show(const void *at);

#endif
