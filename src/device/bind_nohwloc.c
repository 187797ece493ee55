/* Lists places in the order of CPU numbers, for a build without hwloc. */
#include "device/bind.h"

#include <sched.h>

int sl_device_bind_list(int *out) {
    cpu_set_t set;
    int count = 0;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 0;
    for (int i = 0; i < CPU_SETSIZE && count < SL_BIND_MAX; i++)
        if (CPU_ISSET((size_t)i, &set))
            out[count++] = i;
    return count;
}
