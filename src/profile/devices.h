/* The devices of one kind in this computer, as text and as a machine description. */
#ifndef SL_PROFILE_DEVICES_H
#define SL_PROFILE_DEVICES_H

#include "cost/machine.h"
#include "device/device.h"

/* Describes the devices: "2 x NVIDIA H200 (139.8 GiB, 132 multiprocessors, 18 NVLinks)"; NULL if
 * unknown. */
const char *sl_profile_devices_text(struct sl_arena *arena, const struct sl_device_row *row);

/* Makes a machine of one host with these devices; equal devices form one kind. Rates are hardware
 * peaks. */
SL_MUST_CHECK sl_err sl_profile_machine_of(struct sl_arena *arena,
                                           const struct sl_device_facts *facts, int count,
                                           const struct sl_machine **out);
/* Like sl_profile_machine_of, for all devices of a kind; SL_ERR_SYSTEM if there is none. */
SL_MUST_CHECK sl_err sl_profile_machine_devices(struct sl_arena *arena,
                                                const struct sl_device_row *row,
                                                const struct sl_machine **out);

#endif
