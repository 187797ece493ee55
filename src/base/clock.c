/* Clocks in nanoseconds. */
#define _POSIX_C_SOURCE 200809L
#include "base/clock.h"

#include <time.h>

static int64_t read_clock(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t sl_clock_ns(void) { return read_clock(CLOCK_MONOTONIC); }

bool sl_clock_past(int64_t until_ns) { return until_ns && sl_clock_ns() > until_ns; }

int64_t sl_clock_cpu_ns(void) { return read_clock(CLOCK_THREAD_CPUTIME_ID); }

int64_t sl_clock_process_ns(void) { return read_clock(CLOCK_PROCESS_CPUTIME_ID); }
