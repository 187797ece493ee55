/* Pinning threads to hardware threads: the places are listed once, before any thread is pinned. */
#include "device/bind.h"

#include "base/clock.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

static int places[SL_BIND_MAX], place_count;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void list_places(void) { place_count = sl_device_bind_list(places); }

int sl_device_bind_count(void) {
    pthread_once(&once, list_places);
    return place_count;
}

int sl_device_bind_places(int *out) {
    memcpy(out, places, sizeof *out * (size_t)sl_device_bind_count());
    return place_count;
}

sl_err sl_device_bind_thread(int place) {
    cpu_set_t set;
    if (place < 0 || place >= sl_device_bind_count())
        return sl_fail(SL_ERR_REFUSED, "there is no core for thread %d: this process may use %d",
                       place, place_count);
    CPU_ZERO(&set);
    CPU_SET((size_t)places[place], &set);
    int code = pthread_setaffinity_np(pthread_self(), sizeof set, &set);
    if (code != 0)
        return sl_fail(SL_ERR_SYSTEM, "cannot bind a thread to processor %d: %s", places[place],
                       strerror(code));
    return SL_OK;
}

/* Returns true, to go on spinning, only while no other thread wants the core. */
bool sl_device_bind_stay_awake(int64_t *until_ns) {
    enum { PAUSES = 16, TAKEN_NS = 500000, SLEEP_NS = 20000000, SPIN_NS = 50000000 };
    static _Thread_local int64_t sleep_until_ns;
    int64_t now = sl_clock_ns();
    if (now < sleep_until_ns)
        return false;
    if (*until_ns == 0)
        *until_ns = now + SPIN_NS;
    sched_yield();
    if (sl_clock_ns() - now > TAKEN_NS) {
        sleep_until_ns = now + SLEEP_NS;
        return false;
    }
    for (int i = 0; i < PAUSES; i++)
        __builtin_ia32_pause();
    return now < *until_ns;
}
