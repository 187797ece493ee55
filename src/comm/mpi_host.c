/* The module's side of comm/mpi_host.h: each function of the program forwards to its table. */
#include "comm/mpi_host.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/module.h"

#include <stdio.h>

static const struct sl_comm_host *host;

SL_MODULE_EXPORT sl_comm_module_connect_fn sl_comm_module_connect;
void sl_comm_module_connect(const struct sl_comm_host *of_program) { host = of_program; }

/* NOLINTBEGIN(bugprone-macro-parentheses): names and parameter lists of definitions */
#define FUNCTION(result, name, params, args)                                                       \
    result name params { return host->name args; }
#define ACTION(name, params, args)                                                                 \
    void name params { host->name args; }
/* NOLINTEND(bugprone-macro-parentheses) */
SL_COMM_HOST_TABLE(FUNCTION, ACTION)

enum { MESSAGE_BYTES = 2048 };

sl_err(sl_fail)(sl_err code, const char *fmt, ...) {
    char message[MESSAGE_BYTES];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    sl_err_set_message(message);
    return code;
}

void sl_log_note(const char *fmt, ...) {
    char message[MESSAGE_BYTES];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    host->note("%s", message);
}
