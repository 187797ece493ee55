/* Child processes: start a program, or run one and capture its output.
 *
 * A child reads from /dev/null or from a given file. It leads its own process group, so that Ctrl-C
 * reaches only the parent.
 */
#ifndef SL_BASE_SPAWN_H
#define SL_BASE_SPAWN_H

#include "base/text.h"

#include <sys/types.h>

struct sl_spawn {
    const char *program;     /* file to execute; NULL: argv[0], searched on the PATH */
    const char *const *argv; /* ends with NULL */
    const char *const *env; /* "NAME=VALUE" sets, "NAME" unsets; ends with NULL. NULL: no changes */
    int in_fd;              /* standard input of the child; 0: /dev/null */
    int out_fd, err_fd;     /* standard output and error of the child; 0: those of the parent */
    int keep_fd;            /* stays open in the child, under the same number; 0: none */
    int cpu; /* binds to the k-th allowed CPU, k from 1, modulo their number; 0: not bound */
    bool dies_with_parent; /* the child gets SIGKILL when the parent ends */
    /* blocked in the child until it unblocks them; ends with 0; NULL: none */
    const int *blocked;
};

/* Starts a child. SL_ERR_SYSTEM if the program cannot be executed. */
SL_MUST_CHECK sl_err sl_spawn(const struct sl_spawn *spawn, pid_t *out);

enum { SL_CAPTURE_ABSENT = 127, SL_CAPTURE_TIMEOUT = 124 };

/* Runs argv (searched on the PATH) and appends up to 64 KiB of its standard output and error to
 * `out`. Returns the exit status, 128 + signal, SL_CAPTURE_ABSENT if it cannot be started, or
 * SL_CAPTURE_TIMEOUT if it ran longer than timeout_s and was killed with its process group. */
int sl_capture(const char *const *argv, int timeout_s, struct sl_text *out);

/* Returns true if a directory of `path` ("/usr/bin:/bin") holds such a program. */
bool sl_capture_finds(const char *program, const char *path);

#endif
