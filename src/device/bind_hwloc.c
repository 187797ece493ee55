/* Lists places in the order of hwloc: package by package, core by core. */
#include "device/bind.h"

#include <hwloc.h>

int sl_device_bind_list(int *out) {
    hwloc_topology_t topology;
    hwloc_bitmap_t mine = hwloc_bitmap_alloc();
    int count = 0;
    if (hwloc_topology_init(&topology) != 0) {
        hwloc_bitmap_free(mine);
        return 0;
    }
    if (hwloc_topology_load(topology) == 0 &&
        hwloc_get_cpubind(topology, mine, HWLOC_CPUBIND_PROCESS) == 0) {
        int all = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PU);
        for (int i = 0; i < all && count < SL_BIND_MAX; i++) {
            hwloc_obj_t pu = hwloc_get_obj_by_type(topology, HWLOC_OBJ_PU, (unsigned)i);
            if (hwloc_bitmap_isset(mine, pu->os_index))
                out[count++] = (int)pu->os_index;
        }
    }
    hwloc_bitmap_free(mine);
    hwloc_topology_destroy(topology);
    return count;
}
