/* The secret of a job: read from a text or a file, or drawn and shared through the run
 * directory. */
#include "comm/key.h"

#include "base/sha256.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SECRET_MIN = 16, SECRET_MAX = 4096, DRAWN = 32 };

sl_err sl_comm_key_set(struct sl_comm_job *job, const char *secret, size_t length,
                       const char *where) {
    struct sl_sha256 hash;
    while (length && isspace((unsigned char)secret[length - 1]))
        length--;
    if (length < SECRET_MIN)
        return sl_fail(SL_ERR_USAGE,
                       "%s: a secret of %zu characters can be guessed; use at least %d, e.g. "
                       "'openssl rand -hex 32'",
                       where, length, SECRET_MIN);
    sl_sha256_open(&hash);
    sl_sha256_add(&hash, secret, length);
    sl_sha256_value(&hash, job->key);
    job->has_key = true;
    return SL_OK;
}

static sl_err check_private(int fd, const char *path) {
    struct stat s;
    if (fstat(fd, &s) != 0)
        return sl_fail(SL_ERR_SYSTEM, "%s: %s", path, strerror(errno));
    if (!S_ISREG(s.st_mode))
        return sl_fail(SL_ERR_REFUSED, "%s: a key must be a regular file", path);
    if (s.st_uid != geteuid())
        return sl_fail(SL_ERR_REFUSED, "%s: the key belongs to user %ld, not to this one (%ld)",
                       path, (long)s.st_uid, (long)geteuid());
    if (s.st_mode & 077)
        return sl_fail(SL_ERR_REFUSED, "%s: others may use this key (mode %03o); 'chmod 600'", path,
                       (unsigned)s.st_mode & 0777);
    return SL_OK;
}

sl_err sl_comm_key_read(struct sl_comm_job *job, const char *path) {
    char secret[SECRET_MAX];
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return sl_fail(SL_ERR_INPUT, "%s: cannot read the key: %s", path, strerror(errno));
    sl_err err = check_private(fd, path);
    ssize_t length = err == SL_OK ? read(fd, secret, sizeof secret) : 0;
    close(fd);
    SL_TRY(err);
    if (length < 0)
        return sl_fail(SL_ERR_SYSTEM, "%s: cannot read the key: %s", path, strerror(errno));
    return sl_comm_key_set(job, secret, (size_t)length, path);
}

/* Writes the key under another name and renames it, so that ranks that wait for it never read a
 * part. */
static sl_err write_key(const char *path, const char *secret, size_t length) {
    char temporary[sizeof((struct sl_comm_job *)0)->key_file + 8];
    snprintf(temporary, sizeof temporary, "%s.new", path);
    remove(temporary); /* removes the file of a process that died */
    int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    bool ok = fd >= 0 && fchmod(fd, 0600) == 0 && write(fd, secret, length) == (ssize_t)length;
    ok &= fd < 0 || close(fd) == 0;
    ok = ok && rename(temporary, path) == 0;
    if (ok)
        return SL_OK;
    sl_err err =
        sl_fail(SL_ERR_SYSTEM, "%s: cannot write the key of the job: %s", path, strerror(errno));
    remove(temporary);
    return err;
}

sl_err sl_comm_key_share(struct sl_comm_job *job, const char *directory) {
    unsigned char drawn[DRAWN];
    char secret[2 * DRAWN + 1];
    if (snprintf(job->key_file, sizeof job->key_file, "%s/.key-%s", directory, job->step) >=
        (int)sizeof job->key_file)
        return sl_fail(SL_ERR_USAGE, "%s: the path is too long for a key", directory);
    if (job->rank != 0)
        return SL_OK;
    if (getrandom(drawn, sizeof drawn, 0) != (ssize_t)sizeof drawn)
        return sl_fail(SL_ERR_SYSTEM, "cannot draw a key for the job: %s", strerror(errno));
    for (int i = 0; i < DRAWN; i++)
        snprintf(secret + 2 * i, 3, "%02x", drawn[i]);
    SL_TRY(sl_comm_key_set(job, secret, sizeof secret - 1, job->key_file));
    return write_key(job->key_file, secret, sizeof secret - 1);
}

void sl_comm_key_forget(const struct sl_comm_job *job) {
    if (job->rank == 0 && *job->key_file)
        remove(job->key_file);
}
