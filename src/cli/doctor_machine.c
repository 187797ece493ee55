/* doctor: cores, binding, instruction sets, memory, files, clock, models. */
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/par.h"
#include "cli/doctor.h"
#include "cli/model_file.h"
#include "device/bind.h"
#include "device/cpu/cpu.h"
#include "profile/host_info.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

static void look_cores(struct sl_doctor *d) {
    struct sl_host_info here = {0};
    long all = sysconf(_SC_NPROCESSORS_ONLN);
    int usable = sl_par_cores();
    sl_profile_host_info_look(&here);
    sl_cli_doctor_ok(d, "cores", "%d (from %s); %d of %ld hardware threads may be used", here.cores,
                     here.source, usable, all);
}

/* Tried, and undone: the threads that follow inherit it. */
static void look_binding(struct sl_doctor *d) {
    cpu_set_t before;
    bool known = sched_getaffinity(0, sizeof before, &before) == 0;
    sl_err err = known ? sl_device_bind_thread(0) : SL_ERR_SYSTEM;
    if (known && sched_setaffinity(0, sizeof before, &before) != 0)
        err = SL_ERR_SYSTEM;
    if (err == SL_OK && SL_HAVE_HWLOC)
        sl_cli_doctor_ok(d, "binding", "threads can be bound to %d places (hwloc)",
                         sl_device_bind_count());
    else if (err == SL_OK)
        sl_cli_doctor_bad(
            d,
            (struct sl_finding){.name = "binding",
                                .health = SL_HEALTH_MISSING,
                                .what = "works, but without hwloc siblings of a core are not known",
                                .fix = "apt-get install libhwloc-dev && ./dev build"});
    else
        sl_cli_doctor_bad(d, (struct sl_finding){.name = "binding",
                                                 .health = SL_HEALTH_FAILS,
                                                 .what = "threads cannot be bound to cores here",
                                                 .fix = "sluice train ... --bind none"});
}

static void look_kernels(struct sl_doctor *d) {
    for (int i = 0; sl_cpu_tables[i]; i++) {
        if (!sl_cpu_tables[i]->supported())
            continue;
        if (strcmp(sl_cpu_tables[i]->isa, "any") == 0)
            sl_cli_doctor_bad(
                d, (struct sl_finding){.name = "kernels",
                                       .health = SL_HEALTH_MISSING,
                                       .what = "no AVX2: plain C kernels, several times slower",
                                       .fix = "grep -m1 flags /proc/cpuinfo"});
        else
            sl_cli_doctor_ok(d, "kernels", "%s", sl_cpu_tables[i]->isa);
        return;
    }
}

static void look_memory(struct sl_doctor *d) {
    static const int64_t least = (int64_t)256 << 20;
    struct sl_host_info here = {0};
    char bytes[SL_HUMAN_BYTES];
    sl_profile_host_info_look(&here);
    sl_human_bytes(here.memory_bytes, bytes);
    if (here.memory_bytes >= least)
        sl_cli_doctor_ok(d, "memory", "%s are free", bytes);
    else
        sl_cli_doctor_bad(
            d, (struct sl_finding){.name = "memory",
                                   .health = SL_HEALTH_FAILS,
                                   .needed = true,
                                   .what = sl_arena_printf(d->arena, "only %s are free", bytes),
                                   .fix = "ps -eo rss,pid,args --sort=-rss | head"});
}

/* MPI moves messages within a host through files there; containers are given 64 MiB. */
static void look_shared(struct sl_doctor *d) {
    struct statvfs fs;
    char bytes[SL_HUMAN_BYTES];
    static const int64_t least = (int64_t)64 << 20;
    bool there = statvfs("/dev/shm", &fs) == 0 && access("/dev/shm", W_OK) == 0;
    int64_t room = there ? (int64_t)(fs.f_bavail * fs.f_frsize) : 0;
    sl_human_bytes(room, bytes);
    if (room >= least)
        sl_cli_doctor_ok(d, "shared memory", "%s are free in /dev/shm", bytes);
    else
        sl_cli_doctor_bad(
            d, (struct sl_finding){
                   .name = "shared memory",
                   .health = there ? SL_HEALTH_FAILS : SL_HEALTH_MISSING,
                   .what = sl_arena_printf(d->arena, "%s in /dev/shm; MPI needs more", bytes),
                   .fix = "mount -o remount,size=2G /dev/shm"});
}

static void look_files(struct sl_doctor *d) {
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur >= 256)
        sl_cli_doctor_ok(d, "open files", "%llu at a time", (unsigned long long)files.rlim_cur);
    else
        sl_cli_doctor_bad(d,
                          (struct sl_finding){.name = "open files",
                                              .health = SL_HEALTH_FAILS,
                                              .what = "fewer than 256: too few for ranks over TCP",
                                              .fix = "ulimit -n 4096"});
}

/* The smallest step that the clock makes, and what a reading costs. */
static void look_clock(struct sl_doctor *d) {
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
        sl_arena_dup(d->arena, source ? source : "unknown", source ? strlen(source) : 7);
    free(source);
    if (step <= 1000)
        sl_cli_doctor_ok(d, "clock", "steps of %lld ns, %lld ns a reading, source %s",
                         (long long)step, (long long)((last - start) / READINGS), name);
    else
        sl_cli_doctor_bad(d, (struct sl_finding){
                                 .name = "clock",
                                 .health = SL_HEALTH_FAILS,
                                 .what = sl_arena_printf(d->arena,
                                                         "steps of %lld ns (source %s): timelines "
                                                         "and profiles are coarse",
                                                         (long long)step, name),
                                 .fix = "echo tsc > "
                                        "/sys/devices/system/clocksource/clocksource0/"
                                        "current_clocksource"});
}

static void look_models(struct sl_doctor *d) {
    struct sl_cli_model_names names = sl_cli_model_names(d->args, d->arena);
    if (names.count)
        sl_cli_doctor_ok(d, "models", "%d by name", names.count);
    else
        sl_cli_doctor_bad(d, (struct sl_finding){.name = "models",
                                                 .health = SL_HEALTH_MISSING,
                                                 .needed = true,
                                                 .what = "the library of models is not found",
                                                 .fix = "export SLUICE_MODELS=DIR"});
}

void sl_cli_doctor_machine(struct sl_doctor *d) {
    look_cores(d);
    look_binding(d);
    look_kernels(d);
    look_memory(d);
    look_shared(d);
    look_files(d);
    look_clock(d);
    look_models(d);
}
