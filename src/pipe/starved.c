#include "pipe/starved.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* /proc/self/task/TID/stat: id (name) state ... utime stime (words 14 and 15). A thread that waits
 * for a CPU has the same state R as a running one; only its CPU time differs. */
static bool read_stat(int tid, char *state, int64_t *cpu_ns) {
    char path[64], text[1024];
    int64_t user, system;
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = 0;
    const char *at = strrchr(text, ')'); /* the name may contain spaces and parentheses */
    if (!at || sscanf(at, ") %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %" SCNd64 " %" SCNd64,
                      state, &user, &system) != 3)
        return false;
    *cpu_ns = (user + system) * (1000000000 / sysconf(_SC_CLK_TCK));
    return true;
}

int64_t sl_pipe_starved_poll(int tid, int64_t span_ns, int64_t *cpu_ns) {
    char state;
    int64_t now_ns, before_ns = *cpu_ns;
    *cpu_ns = 0;
    if (tid <= 0 || !read_stat(tid, &state, &now_ns))
        return 0;
    *cpu_ns = now_ns + 1; /* plus 1, because 0 means: never measured */
    int64_t had_ns = now_ns + 1 - before_ns;
    return before_ns && state == 'R' && had_ns < span_ns ? span_ns - had_ns : 0;
}
