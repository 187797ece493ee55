/* The lock of a run directory. */
#include "ckpt/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TEXT_BYTES = 512, ATTEMPTS = 100 };

struct sl_ckpt_lock {
    struct sl_text path;
    int fd;
};

/* ---- the holder ---- */

struct holder {
    char host[65], boot[65];
    long long pid, start; /* start: when the process started, in ticks since boot */
};

static void read_word(const char *path, char out[65]) {
    FILE *file = fopen(path, "re");
    snprintf(out, 65, "?");
    if (!file)
        return;
    if (fscanf(file, "%64s", out) != 1)
        snprintf(out, 65, "?");
    fclose(file);
}

/* Returns field 22 of /proc/PID/stat, the start of the process; -1: no such process. Field 2, the
 * name in parentheses, may contain spaces. */
static long long start_of(long long pid) {
    char path[64], text[1024], *at;
    snprintf(path, sizeof path, "/proc/%lld/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return -1;
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = 0;
    at = strrchr(text, ')');
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    return at ? atoll(at) : -1;
}

static struct holder self(void) {
    struct holder me = {.pid = getpid(), .start = start_of(getpid())};
    if (gethostname(me.host, sizeof me.host - 1) != 0 || !*me.host)
        snprintf(me.host, sizeof me.host, "?");
    read_word("/proc/sys/kernel/random/boot_id", me.boot);
    return me;
}

static bool read_holder(const char *path, struct holder *out) {
    char text[TEXT_BYTES];
    *out = (struct holder){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return false;
    ssize_t length = read(fd, text, sizeof text - 1);
    close(fd);
    text[length > 0 ? length : 0] = 0;
    return sscanf(text, "host %64s process %lld start %lld boot %64s", out->host, &out->pid,
                  &out->start, out->boot) == 4;
}

static sl_err write_holder(const struct sl_ckpt_lock *lock) {
    struct holder me = self();
    char text[TEXT_BYTES];
    int length = snprintf(text, sizeof text, "host %s process %lld start %lld boot %s\n", me.host,
                          me.pid, me.start, me.boot);
    if (ftruncate(lock->fd, 0) == 0 && pwrite(lock->fd, text, (size_t)length, 0) == length)
        return SL_OK;
    return sl_fail(SL_ERR_SYSTEM, "%s: cannot write: %s", lock->path.at, strerror(errno));
}

/* Has the holder ended? True if its process was on this host and has ended, or if this host has
 * been restarted since. */
static bool has_ended(const struct holder *holder) {
    struct holder me = self();
    if (strcmp(holder->host, me.host) != 0)
        return false;
    if (strcmp(holder->boot, me.boot) != 0)
        return true;
    return start_of(holder->pid) != holder->start;
}

static sl_err fail_held(const char *run, const char *path, bool by_file) {
    struct holder holder;
    if (!read_holder(path, &holder))
        return sl_fail(SL_ERR_REFUSED,
                       "%s is in use by another run; wait for its end, or choose another `out`",
                       run);
    return sl_fail(SL_ERR_REFUSED,
                   "%s is in use by process %lld on host %s; wait for its end, or choose another "
                   "`out`%s%s%s",
                   run, holder.pid, holder.host, by_file ? " (if it has ended, remove " : "",
                   by_file ? path : "", by_file ? ")" : "");
}

/* ---- taking it ---- */

static struct sl_ckpt_lock *make(const char *run, const char *name) {
    struct sl_ckpt_lock *lock = sl_realloc(NULL, sizeof *lock);
    *lock = (struct sl_ckpt_lock){.fd = -1};
    sl_text_printf(&lock->path, "%s/%s", run, name);
    return lock;
}

static void discard(struct sl_ckpt_lock *lock) {
    if (lock->fd >= 0)
        close(lock->fd);
    sl_text_free(&lock->path);
    free(lock);
}

/* Does the path still name the file that we locked? The last holder removes the file. */
static bool is_named(const struct sl_ckpt_lock *lock) {
    struct stat open_file, named;
    return fstat(lock->fd, &open_file) == 0 && lstat(lock->path.at, &named) == 0 &&
           open_file.st_ino == named.st_ino && open_file.st_dev == named.st_dev;
}

static sl_err fail_open(const struct sl_ckpt_lock *lock) {
    return sl_fail(SL_ERR_SYSTEM, "%s: cannot open: %s", lock->path.at, strerror(errno));
}

/* Takes the kernel's lock. Sets *locks to false if the file system has no locks. */
static sl_err take_by_kernel(struct sl_ckpt_lock *lock, const char *run, bool *locks) {
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    *locks = true;
    for (int i = 0; i < ATTEMPTS; i++) {
        lock->fd =
            open(lock->path.at, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
        if (lock->fd < 0)
            return fail_open(lock);
        int code = fcntl(lock->fd, F_OFD_SETLK, &whole), cause = errno;
        if (code != 0 && (cause == EAGAIN || cause == EACCES))
            return fail_held(run, lock->path.at, false);
        *locks = code == 0;
        if (code != 0 || is_named(lock))
            return code == 0 ? write_holder(lock) : SL_OK;
        close(lock->fd);
        lock->fd = -1;
    }
    return fail_held(run, lock->path.at, false);
}

/* Removes the file of a holder that has ended. If two processes find the same one, only one of them
 * succeeds in renaming its file. */
static void remove_ended(const struct sl_ckpt_lock *lock) {
    struct sl_text aside = {0};
    struct holder holder;
    sl_text_printf(&aside, "%s.%lld", lock->path.at, (long long)getpid());
    if (rename(lock->path.at, aside.at) == 0) {
        if (read_holder(aside.at, &holder) && !has_ended(&holder))
            (void)!link(aside.at, lock->path.at); /* a new holder has come meanwhile: restores
                                                   * its file */
        unlink(aside.at);
    }
    sl_text_free(&aside);
}

static sl_err take_by_file(struct sl_ckpt_lock *lock, const char *run) {
    for (int i = 0; i < ATTEMPTS; i++) {
        struct holder holder;
        lock->fd = open(lock->path.at, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (lock->fd >= 0)
            return write_holder(lock);
        if (errno != EEXIST)
            return fail_open(lock);
        if (!read_holder(lock->path.at, &holder) || !has_ended(&holder))
            break;
        remove_ended(lock);
    }
    return fail_held(run, lock->path.at, true);
}

static sl_err finish(struct sl_ckpt_lock *lock, sl_err err, struct sl_ckpt_lock **out) {
    if (err == SL_OK)
        *out = lock;
    else
        discard(lock);
    return err;
}

sl_err sl_ckpt_lock_take(const char *run, struct sl_ckpt_lock **out) {
    struct sl_ckpt_lock *lock = make(run, "lock");
    bool locks;
    sl_err err = take_by_kernel(lock, run, &locks);
    if (err != SL_OK || locks)
        return finish(lock, err, out);
    sl_ckpt_lock_release(lock);
    return sl_ckpt_lock_take_by_file(run, out);
}

sl_err sl_ckpt_lock_take_by_file(const char *run, struct sl_ckpt_lock **out) {
    struct sl_ckpt_lock *lock = make(run, "lock.held");
    return finish(lock, take_by_file(lock, run), out);
}

void sl_ckpt_lock_release(struct sl_ckpt_lock *lock) {
    if (!lock)
        return;
    unlink(lock->path.at); /* removed while it is still locked */
    discard(lock);
}
