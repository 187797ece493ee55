/* The file operations of a save as a table, so that a test can make any of them fail or kill the
 * process; and the names in a ckpt/ directory. Internal to ckpt and its tests. */
#ifndef SL_CKPT_FILES_H
#define SL_CKPT_FILES_H

#include "ckpt/manifest.h"

/* Each function returns what its system call returns: -1 and errno on failure. */
struct sl_ckpt_files {
    void *ctx;
    int (*open)(void *ctx, const char *path); /* creates or truncates the file, for writing */
    long (*write)(void *ctx, int fd, const void *bytes, size_t length);
    int (*fsync)(void *ctx, int fd);
    int (*close)(void *ctx, int fd);
    int (*fsync_dir)(void *ctx, const char *path);
    int (*mkdir)(void *ctx, const char *path);
    int (*rename)(void *ctx, const char *from, const char *to);
    int (*unlink)(void *ctx, const char *path);
    int (*rmdir)(void *ctx, const char *path);
};

extern const struct sl_ckpt_files sl_ckpt_system_files;

/* Creates a directory unless it exists. */
SL_MUST_CHECK sl_err sl_ckpt_make_dir(const struct sl_ckpt_files *files, const char *path);
SL_MUST_CHECK sl_err sl_ckpt_write_all(const struct sl_ckpt_files *files, int fd, const char *path,
                                       const void *bytes, size_t length);
/* Creates, writes, fsyncs and closes a file. */
SL_MUST_CHECK sl_err sl_ckpt_write_file(const struct sl_ckpt_files *files, const char *path,
                                        const struct sl_text *text);
SL_MUST_CHECK sl_err sl_ckpt_sync_dir(const struct sl_ckpt_files *files, const char *path);
SL_MUST_CHECK sl_err sl_ckpt_rename(const struct sl_ckpt_files *files, const char *from,
                                    const char *to);

/* Lists the names in a directory without "." and "..", steps last and ascending. The list of a
 * missing directory is empty. */
struct sl_ckpt_names {
    int64_t count;
    const char **at;
};
SL_MUST_CHECK sl_err sl_ckpt_names(const char *dir, struct sl_arena *arena,
                                   struct sl_ckpt_names *out);
/* Removes a directory and its files; follows no links. Ignores failures, because the next save
 * tries again. */
void sl_ckpt_remove_dir(const struct sl_ckpt_files *files, const char *dir);
/* Removes files of killed saves from RUN/ckpt. */
void sl_ckpt_tidy(const struct sl_ckpt_files *files, const char *root);

/* Returns the step of "step-00001000" or "step-00001000.2"; -1 for other names. */
int64_t sl_ckpt_dir_step(const char *name);

/* Returns RUN/ckpt, or `path` itself if it is such a directory. */
const char *sl_ckpt_root(struct sl_arena *arena, const char *path);

/* Reads `latest`. name NULL: there is no such file. SL_ERR_INPUT if it is damaged. */
struct sl_ckpt_latest {
    const char *name;
    uint64_t hash;
};
SL_MUST_CHECK sl_err sl_ckpt_latest_read(const char *root, struct sl_arena *arena,
                                         struct sl_ckpt_latest *out);
void sl_ckpt_latest_put(struct sl_text *text, const char *name, uint64_t hash);

/* Reads a small file into writable, NUL-terminated memory; the caller frees it. */
SL_MUST_CHECK sl_err sl_ckpt_load(const char *path, int64_t limit_bytes, char **out,
                                  size_t *length);

#endif
