/* The set of open handles, by which a handle that was closed twice is found. It is one of the few
 * global variables: handles have no common owner. */
#include "api/handles.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct entry {
    const void *handle;
    enum sl_api_kind kind;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct entry *entries; /* NULL while no handle is open */
static int64_t count, room;

static const char *const names[] = {"net", "pipeline", "trainer", "predictor"};

void *sl_api_handle_new(enum sl_api_kind kind, size_t size_bytes) {
    void *handle = calloc(1, size_bytes);
    if (!handle)
        sl_out_of_memory(size_bytes);
    pthread_mutex_lock(&mutex);
    if (count == room) {
        room = room ? 2 * room : 16;
        entries = sl_realloc(entries, sizeof *entries * (size_t)room);
    }
    entries[count++] = (struct entry){handle, kind};
    pthread_mutex_unlock(&mutex);
    return handle;
}

/* Returns the index of a handle, or -1; call it under the mutex. */
static int64_t find(const void *handle, enum sl_api_kind kind) {
    for (int64_t i = count - 1; i >= 0; i--)
        if (entries[i].handle == handle && entries[i].kind == kind)
            return i;
    return -1;
}

static sl_err fail_closed(const void *handle, enum sl_api_kind kind, const char *function) {
    if (!handle)
        return sl_fail(SL_ERR_USAGE, "%s: the %s is NULL", function, names[kind]);
    return sl_fail(SL_ERR_USAGE, "%s: this is no open %s; was it closed before?", function,
                   names[kind]);
}

sl_err sl_api_check(const void *handle, enum sl_api_kind kind, const char *function) {
    pthread_mutex_lock(&mutex);
    bool open = find(handle, kind) >= 0;
    pthread_mutex_unlock(&mutex);
    return open ? SL_OK : fail_closed(handle, kind, function);
}

bool sl_api_handle_end(const void *handle, enum sl_api_kind kind, const char *function) {
    if (!handle)
        return false;
    pthread_mutex_lock(&mutex);
    int64_t at = find(handle, kind);
    if (at >= 0)
        entries[at] = entries[--count];
    if (count == 0) {
        free(entries);
        entries = NULL;
        room = 0;
    }
    pthread_mutex_unlock(&mutex);
    return at >= 0 || fail_closed(handle, kind, function) == SL_OK;
}

sl_err sl_api_given(const void *argument, const char *name, const char *function) {
    return argument ? SL_OK : sl_fail(SL_ERR_USAGE, "%s: %s is NULL", function, name);
}
