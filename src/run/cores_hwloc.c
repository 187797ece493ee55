/* Cores, as hwloc sees them: one hardware thread of each, neighbours next to each other. */
#include "run/cores.h"

#include <hwloc.h>
#include <sched.h>

static void list(hwloc_topology_t topology, struct sl_arena *arena, struct sl_cores *out) {
    cpu_set_t mine;
    int count = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE);
    out->at = SL_NEW(arena, int, count + 1);
    if (sched_getaffinity(0, sizeof mine, &mine) != 0)
        return;
    for (int i = 0; i < count; i++) {
        hwloc_obj_t core = hwloc_get_obj_by_type(topology, HWLOC_OBJ_CORE, (unsigned)i);
        int cpu = -1;
        do
            cpu = hwloc_bitmap_next(core->cpuset, cpu);
        while (cpu >= 0 && (cpu >= CPU_SETSIZE || !CPU_ISSET((size_t)cpu, &mine)));
        if (cpu >= 0)
            out->at[out->count++] = cpu;
    }
}

sl_err sl_cores_list(struct sl_arena *arena, struct sl_cores *out) {
    hwloc_topology_t topology;
    *out = (struct sl_cores){0};
    if (hwloc_topology_init(&topology) != 0)
        return sl_fail(SL_ERR_SYSTEM, "hwloc: cannot begin a topology");
    if (hwloc_topology_load(topology) != 0) {
        hwloc_topology_destroy(topology);
        return sl_fail(SL_ERR_SYSTEM, "hwloc: cannot see this machine");
    }
    list(topology, arena, out);
    hwloc_topology_destroy(topology);
    return SL_OK;
}
