/* File operations of checkpoints, and the names in a ckpt/ directory. */
#define _POSIX_C_SOURCE 200809L
#include "ckpt/files.h"

#include "base/hash.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int system_open(void *ctx, const char *path) {
    (void)ctx;
    return open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
}

static long system_write(void *ctx, int fd, const void *bytes, size_t length) {
    (void)ctx;
    return (long)write(fd, bytes, length);
}

static int system_fsync(void *ctx, int fd) {
    (void)ctx;
    return fsync(fd);
}

static int system_close(void *ctx, int fd) {
    (void)ctx;
    return close(fd);
}

static int system_fsync_dir(void *ctx, const char *path) {
    (void)ctx;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    int result = fsync(fd);
    /* some file systems refuse to sync a directory; they order renames without it */
    if (result != 0 && errno == EINVAL)
        result = 0;
    close(fd);
    return result;
}

static int system_mkdir(void *ctx, const char *path) {
    (void)ctx;
    return mkdir(path, 0777);
}

static int system_rename(void *ctx, const char *from, const char *to) {
    (void)ctx;
    return rename(from, to);
}

static int system_unlink(void *ctx, const char *path) {
    (void)ctx;
    return unlink(path);
}

static int system_rmdir(void *ctx, const char *path) {
    (void)ctx;
    return rmdir(path);
}

const struct sl_ckpt_files sl_ckpt_system_files = {
    .open = system_open,
    .write = system_write,
    .fsync = system_fsync,
    .close = system_close,
    .fsync_dir = system_fsync_dir,
    .mkdir = system_mkdir,
    .rename = system_rename,
    .unlink = system_unlink,
    .rmdir = system_rmdir,
};

static sl_err fail_errno(const char *path, const char *what) {
    return sl_fail(SL_ERR_SYSTEM, "%s: cannot %s: %s", path, what, strerror(errno));
}

sl_err sl_ckpt_make_dir(const struct sl_ckpt_files *files, const char *path) {
    struct stat info;
    if (files->mkdir(files->ctx, path) == 0)
        return SL_OK;
    if (errno == EEXIST && stat(path, &info) == 0 && S_ISDIR(info.st_mode))
        return SL_OK;
    return fail_errno(path, "create the directory");
}

sl_err sl_ckpt_write_all(const struct sl_ckpt_files *files, int fd, const char *path,
                         const void *bytes, size_t length) {
    for (const char *at = bytes; length;) {
        long put = files->write(files->ctx, fd, at, length);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return fail_errno(path, "write");
        at += put;
        length -= (size_t)put;
    }
    return SL_OK;
}

sl_err sl_ckpt_write_file(const struct sl_ckpt_files *files, const char *path,
                          const struct sl_text *text) {
    int fd = files->open(files->ctx, path);
    if (fd < 0)
        return fail_errno(path, "create");
    sl_err err = sl_ckpt_write_all(files, fd, path, text->at, text->length);
    if (err == SL_OK && files->fsync(files->ctx, fd) != 0)
        err = fail_errno(path, "fsync");
    if (files->close(files->ctx, fd) != 0 && err == SL_OK)
        err = fail_errno(path, "close");
    return err;
}

sl_err sl_ckpt_sync_dir(const struct sl_ckpt_files *files, const char *path) {
    return files->fsync_dir(files->ctx, path) == 0 ? SL_OK : fail_errno(path, "fsync");
}

sl_err sl_ckpt_rename(const struct sl_ckpt_files *files, const char *from, const char *to) {
    if (files->rename(files->ctx, from, to) == 0)
        return SL_OK;
    return sl_fail(SL_ERR_SYSTEM, "%s: cannot rename to %s: %s", from, to, strerror(errno));
}

/* Order of names: steps ascending, with step-7 before step-7.9 before step-7.10; other names first,
 * by their bytes. */
static int by_step(const void *a, const void *b) {
    const char *x = *(const char *const *)a, *y = *(const char *const *)b;
    int64_t step_x = sl_ckpt_dir_step(x), step_y = sl_ckpt_dir_step(y);
    if (step_x != step_y)
        return step_x < step_y ? -1 : 1;
    if (step_x >= 0 && strlen(x) != strlen(y))
        return strlen(x) < strlen(y) ? -1 : 1;
    return strcmp(x, y);
}

sl_err sl_ckpt_names(const char *dir, struct sl_arena *arena, struct sl_ckpt_names *out) {
    SL_VEC(const char *) names = {0};
    struct dirent *entry;
    *out = (struct sl_ckpt_names){0};
    DIR *stream = opendir(dir);
    if (!stream && errno == ENOENT)
        return SL_OK;
    if (!stream)
        return sl_fail(sl_file_absence(errno), "%s: cannot list: %s", dir, strerror(errno));
    while ((entry = readdir(stream)) != NULL)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            SL_PUSH(&names, sl_arena_dup(arena, entry->d_name, strlen(entry->d_name)));
    closedir(stream);
    if (names.count)
        qsort(names.at, (size_t)names.count, sizeof *names.at, by_step);
    out->count = names.count;
    out->at = SL_VEC_FREEZE(&names, arena);
    SL_VEC_FREE(&names);
    return SL_OK;
}

void sl_ckpt_remove_dir(const struct sl_ckpt_files *files, const char *dir) {
    struct sl_arena arena = {0};
    struct sl_ckpt_names names;
    if (sl_ckpt_names(dir, &arena, &names) == SL_OK)
        for (int64_t i = 0; i < names.count; i++)
            files->unlink(files->ctx, sl_arena_printf(&arena, "%s/%s", dir, names.at[i]));
    files->rmdir(files->ctx, dir);
    sl_arena_free(&arena);
}

void sl_ckpt_tidy(const struct sl_ckpt_files *files, const char *root) {
    struct sl_arena arena = {0};
    struct sl_ckpt_names names;
    if (sl_ckpt_names(root, &arena, &names) == SL_OK)
        for (int64_t i = 0; i < names.count; i++) {
            const char *path = sl_arena_printf(&arena, "%s/%s", root, names.at[i]);
            if (strncmp(names.at[i], ".tmp-", 5) == 0 && files->unlink(files->ctx, path) != 0)
                sl_ckpt_remove_dir(files, path);
        }
    sl_arena_free(&arena);
}

void sl_ckpt_clean(const char *run) {
    struct sl_arena arena = {0};
    sl_ckpt_tidy(&sl_ckpt_system_files, sl_ckpt_root(&arena, run));
    sl_arena_free(&arena);
}

int64_t sl_ckpt_dir_step(const char *name) {
    if (strncmp(name, "step-", 5) != 0)
        return -1;
    const char *at = name + 5;
    int64_t step = 0;
    int digits = 0;
    for (; *at >= '0' && *at <= '9' && digits < 16; at++, digits++)
        step = step * 10 + (*at - '0');
    if (digits < 8 || (digits > 8 && name[5] == '0'))
        return -1;
    if (*at == '.') {
        const char *suffix = ++at;
        for (; *at >= '0' && *at <= '9' && at - suffix < 4; at++)
            continue;
        if (at == suffix || *suffix == '0')
            return -1;
    }
    return *at ? -1 : step;
}

const char *sl_ckpt_root(struct sl_arena *arena, const char *path) {
    const char *inside = sl_arena_printf(arena, "%s/ckpt", path);
    return sl_file_exists(inside) ? inside : path;
}

void sl_ckpt_latest_put(struct sl_text *text, const char *name, uint64_t hash) {
    char digits[SL_HASH_TEXT];
    sl_text_printf(text, "%s %s\n", name, sl_hash_text(hash, digits));
}

sl_err sl_ckpt_latest_read(const char *root, struct sl_arena *arena, struct sl_ckpt_latest *out) {
    const char *path = sl_arena_printf(arena, "%s/latest", root);
    char *text = NULL;
    size_t length = 0;
    sl_err err = SL_OK;
    *out = (struct sl_ckpt_latest){0};
    if (!sl_file_exists(path))
        return SL_OK;
    SL_TRY(sl_ckpt_load(path, 256, &text, &length));
    const char *blank = memchr(text, ' ', length);
    if (!blank || length < SL_HASH_TEXT + 1 || text[length - 1] != '\n' ||
        !sl_hash_parse((struct sl_str){blank + 1, length - 2 - (size_t)(blank - text)},
                       &out->hash)) {
        err = sl_fail(SL_ERR_INPUT, "%s: damaged; name a step of 'sluice ckpt ls' instead", path);
        goto out;
    }
    out->name = sl_arena_dup(arena, text, (size_t)(blank - text));
    if (sl_ckpt_dir_step(out->name) < 0)
        err = sl_fail(SL_ERR_INPUT, "%s: damaged: it names no step; name one of 'sluice ckpt ls'",
                      path);
out:
    free(text);
    return err;
}

sl_err sl_ckpt_load(const char *path, int64_t limit_bytes, char **out, size_t *length) {
    struct stat info;
    sl_err err = SL_OK;
    char *text = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return sl_fail(sl_file_absence(errno), "%s: cannot open: %s", path, strerror(errno));
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size > limit_bytes)
        SL_TRY_OUT(sl_fail(SL_ERR_INPUT, "%s: not a file of at most %lld bytes", path,
                           (long long)limit_bytes));
    text = sl_realloc(NULL, (size_t)info.st_size + 1);
    for (*length = 0; *length < (size_t)info.st_size;) {
        ssize_t got = read(fd, text + *length, (size_t)info.st_size - *length);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            SL_TRY_OUT(fail_errno(path, "read"));
        if (got == 0)
            SL_TRY_OUT(sl_fail(SL_ERR_INPUT, "%s: became shorter while it was read", path));
        *length += (size_t)got;
    }
    text[*length] = 0;
    *out = text;
out:
    close(fd);
    if (err != SL_OK)
        free(text);
    return err;
}
