/* Faults on one rank, by LD_PRELOAD. SL_FAULT="RANK KIND N":
 *
 *   alloc   the N-th allocation that the program itself asks for fails
 *   space   from the N-th write to a checkpoint on, the disk is full
 *   data    from the N-th pread on, files cannot be read
 *   clock   from the N-th reading on, all clocks are an hour ahead
 */
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

/* glibc's own, which need no dlsym. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);

static char kind[16];
static long long after;
static atomic_llong seen;
static uintptr_t code_low, code_high; /* of the program */

static int find_program(struct dl_phdr_info *info, size_t size, void *ctx) {
    (void)size;
    (void)ctx;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X) {
            code_low = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            code_high = code_low + info->dlpi_phdr[i].p_memsz;
        }
    return 1; /* the first one is the program */
}

__attribute__((constructor)) static void start(void) {
    const char *fault = getenv("SL_FAULT"), *rank = getenv("SLUICE_RANK");
    int victim;
    char found[16];
    dl_iterate_phdr(find_program, NULL);
    if (fault && sscanf(fault, "%d %15s %lld", &victim, found, &after) == 3 &&
        (!rank || atoi(rank) == victim))
        snprintf(kind, sizeof kind, "%s", found);
}

/* The N-th; or all from there on. */
static int is_due(const char *what, int all) {
    if (strcmp(kind, what) != 0)
        return 0;
    long long now = atomic_fetch_add(&seen, 1) + 1;
    return all ? now >= after : now == after;
}

static int fails_alloc(const void *caller) {
    uintptr_t at = (uintptr_t)caller;
    return at >= code_low && at < code_high && is_due("alloc", 0);
}

void *malloc(size_t size) {
    return fails_alloc(__builtin_return_address(0)) ? (errno = ENOMEM, NULL) : __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
    return fails_alloc(__builtin_return_address(0)) ? (errno = ENOMEM, NULL)
                                                    : __libc_calloc(count, size);
}

void *realloc(void *old, size_t size) {
    return fails_alloc(__builtin_return_address(0)) ? (errno = ENOMEM, NULL)
                                                    : __libc_realloc(old, size);
}

ssize_t write(int fd, const void *bytes, size_t size) {
    char link[64], path[512];
    if (strcmp(kind, "space") == 0) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t length = readlink(link, path, sizeof path - 1);
        path[length > 0 ? length : 0] = 0;
        if (strstr(path, "/ckpt/") && is_due("space", 1)) {
            errno = ENOSPC;
            return -1;
        }
    }
    return syscall(SYS_write, fd, bytes, size);
}

ssize_t pread(int fd, void *bytes, size_t size, off_t offset) {
    if (is_due("data", 1)) {
        errno = EIO;
        return -1;
    }
    return syscall(SYS_pread64, fd, bytes, size, offset);
}

ssize_t pread64(int fd, void *bytes, size_t size, off_t offset) {
    return pread(fd, bytes, size, offset);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    long code = syscall(SYS_clock_gettime, clock, now);
    if (code == 0 && is_due("clock", 1))
        now->tv_sec += 3600;
    return (int)code;
}
