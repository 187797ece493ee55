/* Checkup of the host: cores, binding, instruction sets, memory, files, clock. */
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/par.h"
#include "device/bind.h"
#include "device/cpu/cpu.h"
#include "profile/checkup.h"
#include "profile/host_info.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

void sl_profile_checkup_ok(struct sl_checkup *c, const char *name, const char *fmt, ...) {
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    SL_PUSH(&c->found, ((struct sl_finding){.group = c->group,
                                            .name = name,
                                            .what = sl_arena_dup(c->arena, text, strlen(text))}));
}

void sl_profile_checkup_bad(struct sl_checkup *c, struct sl_finding finding) {
    finding.group = c->group;
    SL_PUSH(&c->found, finding);
}

static void check_cores(struct sl_checkup *c) {
    struct sl_host_info host = {0};
    long all = sysconf(_SC_NPROCESSORS_ONLN);
    int usable = sl_par_cores();
    sl_profile_host_info_read(&host);
    sl_profile_checkup_ok(c, "cores", "%d (from %s); %d of %ld hardware threads may be used",
                          host.cores, host.source, usable, all);
}

/* Checks core binding: binds this thread and restores its binding, which later threads inherit. */
static void check_binding(struct sl_checkup *c) {
    cpu_set_t before;
    bool known = sched_getaffinity(0, sizeof before, &before) == 0;
    sl_err err = known ? sl_device_bind_thread(0) : SL_ERR_SYSTEM;
    if (known && sched_setaffinity(0, sizeof before, &before) != 0)
        err = SL_ERR_SYSTEM;
    if (err == SL_OK && SL_HAVE_HWLOC)
        sl_profile_checkup_ok(c, "binding", "threads can be bound to %d places (hwloc)",
                              sl_device_bind_count());
    else if (err == SL_OK)
        sl_profile_checkup_bad(
            c,
            (struct sl_finding){.name = "binding",
                                .health = SL_HEALTH_MISSING,
                                .what = "works, but without hwloc siblings of a core are not known",
                                .fix = "apt-get install libhwloc-dev && ./dev build"});
    else
        sl_profile_checkup_bad(c,
                               (struct sl_finding){.name = "binding",
                                                   .health = SL_HEALTH_FAILS,
                                                   .what = "threads cannot be bound to cores here",
                                                   .fix = "sluice train ... --bind none"});
}

static void check_kernels(struct sl_checkup *c) {
    for (int i = 0; sl_device_cpu_tables[i]; i++) {
        if (!sl_device_cpu_tables[i]->supported())
            continue;
        /* the last table is plain C, without vector instructions */
        if (!sl_device_cpu_tables[i + 1])
            sl_profile_checkup_bad(
                c, (struct sl_finding){.name = "kernels",
                                       .health = SL_HEALTH_MISSING,
                                       .what = "no AVX2: plain C kernels, several times slower",
                                       .fix = "grep -m1 flags /proc/cpuinfo"});
        else
            sl_profile_checkup_ok(c, "kernels", "%s", sl_device_cpu_tables[i]->isa);
        return;
    }
}

static void check_memory(struct sl_checkup *c) {
    static const int64_t min_bytes = (int64_t)256 << 20;
    struct sl_host_info host = {0};
    char bytes[SL_HUMAN_BYTES];
    sl_profile_host_info_read(&host);
    sl_human_bytes(host.memory_bytes, bytes);
    if (host.memory_bytes >= min_bytes)
        sl_profile_checkup_ok(c, "memory", "%s are free", bytes);
    else
        sl_profile_checkup_bad(
            c, (struct sl_finding){.name = "memory",
                                   .health = SL_HEALTH_FAILS,
                                   .needed = true,
                                   .what = sl_arena_printf(c->arena, "only %s are free", bytes),
                                   .fix = "ps -eo rss,pid,args --sort=-rss | head"});
}

/* Checks /dev/shm, through which MPI passes messages within a host. Containers get 64 MiB by
 * default. */
static void check_shared(struct sl_checkup *c) {
    struct statvfs fs;
    char bytes[SL_HUMAN_BYTES];
    static const int64_t min_bytes = (int64_t)64 << 20;
    bool found = statvfs("/dev/shm", &fs) == 0 && access("/dev/shm", W_OK) == 0;
    int64_t room = found ? (int64_t)(fs.f_bavail * fs.f_frsize) : 0;
    sl_human_bytes(room, bytes);
    if (room >= min_bytes)
        sl_profile_checkup_ok(c, "shared memory", "%s are free in /dev/shm", bytes);
    else
        sl_profile_checkup_bad(
            c, (struct sl_finding){
                   .name = "shared memory",
                   .health = found ? SL_HEALTH_FAILS : SL_HEALTH_MISSING,
                   .what = sl_arena_printf(c->arena, "%s in /dev/shm; MPI needs more", bytes),
                   .fix = "mount -o remount,size=2G /dev/shm"});
}

static void check_files(struct sl_checkup *c) {
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur >= 256)
        sl_profile_checkup_ok(c, "open files", "%llu at a time",
                              (unsigned long long)files.rlim_cur);
    else
        sl_profile_checkup_bad(
            c, (struct sl_finding){.name = "open files",
                                   .health = SL_HEALTH_FAILS,
                                   .what = "fewer than 256: too few for ranks over TCP",
                                   .fix = "ulimit -n 4096"});
}

/* Checks the resolution of the clock and the cost of reading it. */
static void check_clock(struct sl_checkup *c) {
    enum { READINGS = 2000 };
    int64_t start = sl_clock_ns(), last = start, step = INT64_MAX;
    for (int i = 0; i < READINGS; i++) {
        int64_t now = sl_clock_ns();
        if (now > last && now - last < step)
            step = now - last;
        last = now;
    }
    char *source = NULL;
    size_t length;
    if (sl_file_read("/sys/devices/system/clocksource/clocksource0/current_clocksource", 64,
                     &source, &length) == SL_OK)
        source[strcspn(source, "\n")] = 0;
    const char *name =
        sl_arena_dup(c->arena, source ? source : "unknown", source ? strlen(source) : 7);
    free(source);
    if (step <= 1000)
        sl_profile_checkup_ok(c, "clock", "steps of %lld ns, %lld ns a reading, source %s",
                              (long long)step, (long long)((last - start) / READINGS), name);
    else
        sl_profile_checkup_bad(
            c,
            (struct sl_finding){.name = "clock",
                                .health = SL_HEALTH_FAILS,
                                .what = sl_arena_printf(c->arena,
                                                        "steps of %lld ns (source %s): timelines "
                                                        "and profiles are coarse",
                                                        (long long)step, name),
                                .fix = "echo tsc > "
                                       "/sys/devices/system/clocksource/clocksource0/"
                                       "current_clocksource"});
}

void sl_profile_checkup_machine(struct sl_checkup *c) {
    check_cores(c);
    check_binding(c);
    check_kernels(c);
    check_memory(c);
    check_shared(c);
    check_files(c);
    check_clock(c);
}
