/* Cores without hwloc: what the system lets this process run on. */
#include "run/cores.h"

#include <sched.h>

sl_err sl_cores_list(struct sl_arena *arena, struct sl_cores *out) {
    cpu_set_t mine;
    *out = (struct sl_cores){.at = SL_NEW(arena, int, CPU_SETSIZE)};
    if (sched_getaffinity(0, sizeof mine, &mine) != 0)
        return SL_OK;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET((size_t)cpu, &mine))
            out->at[out->count++] = cpu;
    return SL_OK;
}
