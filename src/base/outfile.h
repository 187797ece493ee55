/* An output file that is written atomically: it appears under its name when complete, or never.
 *
 *     open    creates an unnamed file in the same directory (O_TMPFILE), or a file with a temporary
 *             name if the file system has no O_TMPFILE
 *     write   any number of times
 *     close   renames it to `path`, replacing an existing file; after an error deletes it
 *
 * A killed process leaves no unnamed file. "-" is standard output. Devices and pipes are written
 * directly. */
#ifndef SL_BASE_OUTFILE_H
#define SL_BASE_OUTFILE_H

#include "base/text.h"

struct sl_outfile {
    int fd;
    const char *path;
    struct sl_text temporary; /* "" if the file has no name yet */
    bool direct;              /* stdout, device or pipe: written directly */
};

SL_MUST_CHECK sl_err sl_outfile_open(struct sl_outfile *file, const char *path);
SL_MUST_CHECK sl_err sl_outfile_write(struct sl_outfile *file, const void *bytes, size_t length);
/* Finishes the file: keeps it only if `err`, the caller's result so far, is SL_OK. Returns `err`,
 * or the error of closing. Call it once after every successful open. */
SL_MUST_CHECK sl_err sl_outfile_close(struct sl_outfile *file, sl_err err);

#endif
