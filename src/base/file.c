/* Whole files: read with a limit, write to a temporary name and rename. */
#define _POSIX_C_SOURCE 200809L
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
        sl_text_put_bytes(text, chunk, (size_t)got);
    }
}

sl_err sl_file_read(const char *path, int64_t limit_bytes, char **out, size_t *length) {
    struct stat info;
    struct sl_text text = {0};
    sl_err err = SL_OK;
    bool is_stdin = strcmp(path, "-") == 0;
    int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return sl_fail(SL_ERR_INPUT, "%s: cannot open: %s", path, strerror(errno));
    if (fstat(fd, &info) == 0 && S_ISDIR(info.st_mode))
        SL_TRY_OUT(sl_fail(SL_ERR_INPUT, "%s: is a directory, expected a file", path));
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

static sl_err write_all(int fd, const char *path, const char *bytes, size_t length) {
    while (length) {
        ssize_t put = write(fd, bytes, length);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return sl_fail(SL_ERR_SYSTEM, "%s: cannot write: %s", path, strerror(errno));
        bytes += put;
        length -= (size_t)put;
    }
    return SL_OK;
}

sl_err sl_file_write(const char *path, const void *bytes, size_t length) {
    if (strcmp(path, "-") == 0)
        return write_all(STDOUT_FILENO, "standard output", bytes, length);
    struct stat info;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) { /* /dev/null, a pipe: no rename */
        int fd = open(path, O_WRONLY | O_CLOEXEC);
        if (fd < 0)
            return sl_fail(SL_ERR_SYSTEM, "%s: cannot open: %s", path, strerror(errno));
        sl_err err = write_all(fd, path, bytes, length);
        close(fd);
        return err;
    }
    struct sl_text temporary = {0};
    sl_err err = SL_OK;
    sl_text_printf(&temporary, "%s.%ld.tmp", path, (long)getpid());
    int fd = open(temporary.at, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) {
        err = sl_fail(SL_ERR_SYSTEM, "%s: cannot create: %s", path, strerror(errno));
        goto out;
    }
    err = write_all(fd, path, bytes, length);
    if (close(fd) != 0 && err == SL_OK)
        err = sl_fail(SL_ERR_SYSTEM, "%s: cannot write: %s", path, strerror(errno));
    if (err == SL_OK && rename(temporary.at, path) != 0)
        err = sl_fail(SL_ERR_SYSTEM, "%s: cannot rename into place: %s", path, strerror(errno));
    if (err != SL_OK)
        unlink(temporary.at);
out:
    sl_text_free(&temporary);
    return err;
}

bool sl_file_exists(const char *path) { return access(path, F_OK) == 0; }
