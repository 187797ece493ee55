/* The table of devices. */
#include "device/device.h"

#include <string.h>

#if SL_HAVE_CUDA
#define CUDA(ROW) ROW(sl_device_cuda)
#else
#define CUDA(ROW)
#endif

/* One line per device, in alphabetical order. */
/* clang-format off */
#define ROWS(ROW) \
    ROW(sl_device_cpu) \
    CUDA(ROW) \
    ROW(sl_device_reference)
/* clang-format on */

#define DECLARE(row) extern const struct sl_device_row row;
ROWS(DECLARE)
#define POINT(row) &(row),
const struct sl_device_row *const sl_device_rows[] = {ROWS(POINT) NULL};

const struct sl_device_row *sl_device_find(const char *name) {
    for (int i = 0; sl_device_rows[i]; i++)
        if (strcmp(sl_device_rows[i]->name, name) == 0)
            return sl_device_rows[i];
    return NULL;
}
