/* The table of devices. */
#include "device/device.h"

#include <string.h>

extern const struct sl_device_row sl_device_cpu;
extern const struct sl_device_row sl_device_cuda;
extern const struct sl_device_row sl_device_reference;

const struct sl_device_row *const sl_device_rows[] = {
    &sl_device_cpu,
#if SL_HAVE_CUDA
    &sl_device_cuda,
#endif
    &sl_device_reference,
    NULL,
};

const struct sl_device_row *sl_device_find(const char *name) {
    for (int i = 0; sl_device_rows[i]; i++)
        if (strcmp(sl_device_rows[i]->name, name) == 0)
            return sl_device_rows[i];
    return NULL;
}
