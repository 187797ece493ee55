/* The transports. */
#include "comm/comm.h"

#include "comm/threads.h"

#include <string.h>

const struct sl_transport *const sl_transports[] = {&sl_transport_threads, NULL};

sl_err sl_transport_find(const char *name, const struct sl_transport **out) {
    for (const struct sl_transport *const *row = sl_transports; *row; row++)
        if (strcmp((*row)->name, name) == 0) {
            *out = *row;
            return SL_OK;
        }
    return sl_fail(SL_ERR_USAGE, "there is no transport '%s'", name);
}
