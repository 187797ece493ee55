/* Output files that are written atomically. */
#define _GNU_SOURCE /* O_TMPFILE */
#include "base/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *name_of(const struct sl_outfile *file) {
    return strcmp(file->path, "-") == 0 ? "standard output" : file->path;
}

static sl_err fail(const struct sl_outfile *file, const char *what) {
    return sl_fail(SL_ERR_SYSTEM, "%s: cannot %s: %s", name_of(file), what, strerror(errno));
}

/* Open an unnamed file in the directory of `path`; -1 on failure. */
static int open_unnamed(const char *path) {
    const char *slash = strrchr(path, '/');
    struct sl_text folder = {0};
    size_t length = slash ? (size_t)(slash - path) + 1 : 0;
    sl_text_put_bytes(&folder, slash ? path : ".", slash ? length : 1);
    int fd = open(folder.at, O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
    sl_text_free(&folder);
    return fd;
}

sl_err sl_outfile_open(struct sl_outfile *file, const char *path) {
    struct stat info;
    *file = (struct sl_outfile){.fd = STDOUT_FILENO, .path = path};
    file->direct = strcmp(path, "-") == 0;
    if (file->direct)
        return SL_OK;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) { /* /dev/null, a pipe */
        file->direct = true;
        file->fd = open(path, O_WRONLY | O_CLOEXEC);
        return file->fd < 0 ? fail(file, "open") : SL_OK;
    }
    file->fd = open_unnamed(path);
    if (file->fd >= 0)
        return SL_OK;
    sl_text_printf(&file->temporary, "%s.%ld.tmp", path, (long)getpid());
    file->fd = open(file->temporary.at, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file->fd >= 0)
        return SL_OK;
    sl_text_free(&file->temporary);
    return fail(file, "create");
}

sl_err sl_outfile_write(struct sl_outfile *file, const void *bytes, size_t length) {
    for (const char *at = bytes; length;) {
        ssize_t put = write(file->fd, at, length);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return fail(file, "write");
        at += put;
        length -= (size_t)put;
    }
    return SL_OK;
}

/* Gives the complete file its name. linkat cannot replace a file: if `path` exists, the file is
 * linked under a temporary name, which is then renamed. */
static sl_err give_name(struct sl_outfile *file) {
    char unnamed[64];
    snprintf(unnamed, sizeof unnamed, "/proc/self/fd/%d", file->fd);
    if (linkat(AT_FDCWD, unnamed, AT_FDCWD, file->path, AT_SYMLINK_FOLLOW) == 0)
        return SL_OK;
    if (errno != EEXIST)
        return fail(file, "create");
    sl_text_printf(&file->temporary, "%s.%ld.tmp", file->path, (long)getpid());
    if (linkat(AT_FDCWD, unnamed, AT_FDCWD, file->temporary.at, AT_SYMLINK_FOLLOW) != 0)
        return fail(file, "create");
    return SL_OK;
}

sl_err sl_outfile_close(struct sl_outfile *file, sl_err err) {
    if (!file->direct && err == SL_OK && !file->temporary.length)
        err = give_name(file);
    if (file->fd != STDOUT_FILENO && close(file->fd) != 0 && err == SL_OK)
        err = fail(file, "write");
    if (err == SL_OK && file->temporary.length && rename(file->temporary.at, file->path) != 0)
        err = fail(file, "rename into place");
    if (err != SL_OK && file->temporary.length)
        unlink(file->temporary.at);
    sl_text_free(&file->temporary);
    return err;
}
