/* Whole files: read with a limit, write all or nothing. */
#define _POSIX_C_SOURCE 200809L
#include "base/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Checks that standard input is text: an endless stream is refused at its first zero byte, before
 * it fills the memory. */
static sl_err check_text(const char *chunk, size_t size, size_t before) {
    const char *zero = memchr(chunk, 0, size);
    return !zero ? SL_OK
                 : sl_fail(SL_ERR_INPUT, "standard input: byte %zu is zero; expected text",
                           before + (size_t)(zero - chunk));
}

static sl_err read_stream(int fd, const char *path, int64_t limit_bytes, struct sl_text *text) {
    char chunk[65536];
    for (;;) {
        ssize_t got = read(fd, chunk, sizeof chunk);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return sl_fail(SL_ERR_SYSTEM, "%s: cannot read: %s", path, strerror(errno));
        if (got == 0)
            return SL_OK;
        if ((int64_t)text->length + got > limit_bytes)
            return sl_fail(SL_ERR_INPUT, "%s: larger than the limit of %lld bytes", path,
                           (long long)limit_bytes);
        if (fd == STDIN_FILENO)
            SL_TRY(check_text(chunk, (size_t)got, text->length));
        sl_text_put_bytes(text, chunk, (size_t)got);
    }
}

sl_err sl_file_open(const char *path, int *out) {
    struct stat info;
    /* O_NONBLOCK: opening a FIFO without a writer must not wait. Regular files ignore the flag. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    sl_err err = SL_OK;
    if (fd < 0)
        return sl_fail(SL_ERR_INPUT, "%s: cannot open: %s", path, strerror(errno));
    if (fstat(fd, &info) != 0)
        err = sl_fail(SL_ERR_SYSTEM, "%s: %s", path, strerror(errno));
    else if (S_ISDIR(info.st_mode))
        err = sl_fail(SL_ERR_INPUT, "%s: is a directory, expected a file", path);
    else if (!S_ISREG(info.st_mode))
        err = sl_fail(SL_ERR_INPUT,
                      "%s: is a pipe or a device, expected a regular file; '-' reads from a pipe",
                      path);
    if (err != SL_OK)
        close(fd);
    else
        *out = fd;
    return err;
}

sl_err sl_file_read(const char *path, int64_t limit_bytes, char **out, size_t *length) {
    struct sl_text text = {0};
    sl_err err = SL_OK;
    bool is_stdin = strcmp(path, "-") == 0;
    int fd = STDIN_FILENO;
    if (!is_stdin)
        SL_TRY(sl_file_open(path, &fd));
    sl_text_put(&text, "");
    SL_TRY_OUT(read_stream(fd, is_stdin ? "standard input" : path, limit_bytes, &text));
    *out = text.at;
    *length = text.length;
out:
    if (!is_stdin)
        close(fd);
    if (err != SL_OK)
        sl_text_free(&text);
    return err;
}

sl_err sl_file_write(const char *path, const void *bytes, size_t length) {
    struct sl_outfile file;
    SL_TRY(sl_outfile_open(&file, path));
    return sl_outfile_close(&file, sl_outfile_write(&file, bytes, length));
}

sl_err sl_file_absence(int cause) {
    bool absent = cause == ENOENT || cause == ENOTDIR || cause == ELOOP || cause == ENAMETOOLONG;
    return absent ? SL_ERR_INPUT : SL_ERR_SYSTEM;
}

bool sl_file_exists(const char *path) { return access(path, F_OK) == 0; }
