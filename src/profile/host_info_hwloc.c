/* Cores and caches of this computer from hwloc; available memory from /proc. */
#include "profile/host_info.h"

#include "base/par.h"

#include <hwloc.h>
#include <stdlib.h>
#include <string.h>

static int64_t free_memory(void) {
    char *text;
    size_t length;
    if (sl_file_read("/proc/meminfo", 1 << 20, &text, &length) != SL_OK)
        return (int64_t)1 << 30;
    const char *line = strstr(text, "MemAvailable:");
    int64_t bytes = line ? strtoll(line + 13, NULL, 10) * 1024 : (int64_t)1 << 30;
    free(text);
    return bytes;
}

void sl_profile_host_info_read(struct sl_host_info *out) {
    hwloc_topology_t topology;
    *out = (struct sl_host_info){sl_par_cores(), free_memory(), 8 << 20, "hwloc"};
    if (hwloc_topology_init(&topology) != 0)
        return;
    if (hwloc_topology_load(topology) == 0) {
        int cores = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE);
        if (cores > 0 && cores < out->cores) /* the hyperthreads of a core count once */
            out->cores = cores;
        hwloc_obj_t cache = hwloc_get_obj_by_type(topology, HWLOC_OBJ_L3CACHE, 0);
        if (cache && cache->attr)
            out->cache_bytes = (int64_t)cache->attr->cache.size;
    }
    hwloc_topology_destroy(topology);
}
