/* A file that appears under its name when it is whole, or not at all.
 *
 *     open    a file without a name in the same directory (O_TMPFILE); where the system has none of
 *             those, one with a temporary name
 *     write   any number of times
 *     close   gives it its name, in place of what had it; after an error it is gone instead
 *
 * Whoever is killed on the way leaves nothing behind. "-" is standard output; devices and pipes are
 * written as they are. */
#ifndef SL_BASE_OUTFILE_H
#define SL_BASE_OUTFILE_H

#include "base/text.h"

struct sl_outfile {
    int fd;
    const char *path;
    struct sl_text temporary; /* its name while it is not whole; "": it has none */
    bool direct;              /* what is written is there at once */
};

SL_MUST_CHECK sl_err sl_outfile_open(struct sl_outfile *file, const char *path);
SL_MUST_CHECK sl_err sl_outfile_write(struct sl_outfile *file, const void *bytes, size_t length);
/* `err` is what happened so far; the file counts only when it is SL_OK. Returns it, or what closing
 * adds. Once for every open that was SL_OK. */
SL_MUST_CHECK sl_err sl_outfile_close(struct sl_outfile *file, sl_err err);

#endif
