/* Cores, caches and memory of this computer from /proc and /sys. */
#include "profile/host_info.h"

#include "base/par.h"

#include <stdlib.h>
#include <string.h>

void sl_profile_host_info_read(struct sl_host_info *out) {
    char *text;
    size_t length;
    *out = (struct sl_host_info){sl_par_cores(), (int64_t)1 << 30, 8 << 20, "/proc"};
    if (sl_file_read("/proc/meminfo", 1 << 20, &text, &length) != SL_OK)
        return;
    const char *free_line = strstr(text, "MemAvailable:");
    if (free_line)
        out->memory_bytes = strtoll(free_line + 13, NULL, 10) * 1024;
    free(text);
}
