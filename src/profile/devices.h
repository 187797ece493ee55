/* The devices of a kind that this computer has, for people and as a machine to plan for. */
#ifndef SL_PROFILE_DEVICES_H
#define SL_PROFILE_DEVICES_H

#include "cost/machine.h"
#include "device/device.h"

/* "2 x NVIDIA H200 (139.8 GiB, 132 multiprocessors, 18 NVLinks)"; NULL: nothing is known. */
const char *sl_profile_devices_text(struct sl_arena *arena, const struct sl_device_row *row);

/* One host with these devices, each kind once; rates are the most that the hardware says. */
SL_MUST_CHECK sl_err sl_profile_machine_of(struct sl_arena *arena,
                                           const struct sl_device_facts *facts, int count,
                                           const struct sl_machine **out);
/* The same of a kind of device; SL_ERR_SYSTEM where there is none. */
SL_MUST_CHECK sl_err sl_profile_machine_devices(struct sl_arena *arena,
                                                const struct sl_device_row *row,
                                                const struct sl_machine **out);

#endif
