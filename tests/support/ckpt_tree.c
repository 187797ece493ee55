/* Small checkpoints for tests, and faults of the file operations. */
#include "support/ckpt_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *sl_tree_make(struct sl_arena *arena) {
    const char *base = getenv("TMPDIR");
    const char *memory = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp"; /* fsync is slow */
    char *dir = sl_arena_printf(arena, "%s/sl-ckpt-XXXXXX", base ? base : memory);
    if (!mkdtemp(dir)) {
        perror(dir);
        exit(1);
    }
    return dir;
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *ftw) {
    (void)info;
    (void)kind;
    (void)ftw;
    return remove(path);
}

void sl_tree_remove(const char *dir) { nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS); }

static const struct sl_ckpt_item items[] = {
    {.group = SL_CKPT_WEIGHTS, .name = "a.w", .dtype = SL_ST_F32, .rank = 2, .dim = {7, 5}},
    {.group = SL_CKPT_WEIGHTS, .name = "b.w", .dtype = SL_ST_F32, .rank = 1, .dim = {13}},
    {.group = SL_CKPT_WEIGHTS, .name = "i", .dtype = SL_ST_I64, .rank = 1, .dim = {3}},
    {.group = SL_CKPT_WEIGHTS, .name = "h", .dtype = SL_ST_BF16, .rank = 1, .dim = {5}},
    {.group = SL_CKPT_STATE, .name = "b.w:exp_avg", .dtype = SL_ST_F32, .rank = 1, .dim = {13}},
    {.group = SL_CKPT_STATE, .name = "a.w@1", .dtype = SL_ST_F32, .rank = 2, .dim = {7, 5}},
    {.group = SL_CKPT_WEIGHTS, .name = "none", .dtype = SL_ST_F32, .rank = 2, .dim = {0, 3}},
};

struct source {
    int item;
    int64_t step;
};

/* Byte `at` of an item: no two steps or items share a pattern. */
static sl_err read_bytes(void *ctx, int64_t from, int64_t size_bytes, void *out) {
    const struct source *source = ctx;
    unsigned char *to = out;
    for (int64_t i = 0; i < size_bytes; i++)
        to[i] = (unsigned char)((from + i) * 31 + source->step * 7 + source->item * 101 + 3);
    return SL_OK;
}

static sl_err write_rank(const char *run, int64_t step, int rank, int ranks,
                         struct sl_ckpt_writer *writer, struct sl_text *report) {
    struct source sources[SL_COUNT(items)];
    unsigned char bytes[256];
    (void)run;
    for (int i = 0; i < SL_COUNT(items); i++) {
        struct sl_ckpt_item item = items[i];
        sources[i] = (struct source){i, step};
        if (i % ranks != rank)
            continue;
        if (i == 1) { /* one from memory, the others in pieces */
            SL_TRY(read_bytes(&sources[i], 0, 13 * 4, bytes));
            item.data = bytes;
        } else {
            item.read = read_bytes;
            item.ctx = &sources[i];
        }
        SL_TRY(sl_ckpt_put(writer, &item));
    }
    if (rank == 0)
        SL_TRY(sl_ckpt_note(writer, "config", "lr 0.1\n\"quoted\" \t\x01 \xc3\xbc\n"));
    return sl_ckpt_write(writer, report);
}

sl_err sl_tree_save(const char *run, int64_t step, int ranks, int keep,
                    const struct sl_ckpt_files *files) {
    struct sl_ckpt_writer *writers[16] = {0};
    struct sl_text reports[16] = {{0}};
    struct sl_str all[16];
    sl_err err = SL_OK;
    for (int rank = ranks - 1; rank >= 0; rank--) {
        struct sl_ckpt_options options = {.run = run,
                                          .step = step,
                                          .seed = 0xfedcba9876543210u,
                                          .cursor = step * 17,
                                          .rank = rank,
                                          .ranks = ranks,
                                          .keep = keep,
                                          .files = files};
        SL_TRY_OUT(sl_ckpt_begin(&options, &writers[rank]));
        SL_TRY_OUT(write_rank(run, step, rank, ranks, writers[rank], &reports[rank]));
        all[ranks - 1 - rank] = (struct sl_str){reports[rank].at, reports[rank].length};
    }
    SL_TRY_OUT(sl_ckpt_commit(writers[0], all, ranks));
out:
    for (int rank = ranks - 1; rank >= 0; rank--) {
        sl_ckpt_end(writers[rank], err == SL_OK);
        sl_text_free(&reports[rank]);
    }
    return err;
}

static sl_err check_item(const struct sl_ckpt *ckpt, int i) {
    const struct sl_ckpt_tensor *tensor = sl_ckpt_find(ckpt, items[i].name);
    struct source source = {i, sl_ckpt_step(ckpt)};
    unsigned char got[256], expect[256];
    if (!tensor || tensor->dtype != (int)items[i].dtype || tensor->rank != items[i].rank ||
        sl_ckpt_group_of(ckpt, tensor) != items[i].group)
        return sl_fail(SL_ERR_REFUSED, "SILENT: tensor '%s' is not as it was written",
                       items[i].name);
    int64_t size = sl_ckpt_tensor_bytes(tensor);
    SL_TRY(sl_ckpt_read(ckpt, tensor, got));
    SL_TRY(read_bytes(&source, 0, size, expect));
    if (memcmp(got, expect, (size_t)size) != 0)
        return sl_fail(SL_ERR_REFUSED, "SILENT: tensor '%s' has other bytes", items[i].name);
    if (tensor->dim[0] < 5)
        return SL_OK;
    int64_t row = size / tensor->dim[0];
    SL_TRY(sl_ckpt_read_rows(ckpt, tensor, 2, 3, got));
    if (memcmp(got, expect + 2 * row, (size_t)(3 * row)) != 0)
        return sl_fail(SL_ERR_REFUSED, "SILENT: rows of '%s' have other bytes", items[i].name);
    return SL_OK;
}

sl_err sl_tree_check(const char *path, int64_t step, int64_t *found) {
    struct sl_ckpt *ckpt = NULL;
    sl_err err = SL_OK;
    SL_TRY(sl_ckpt_open(path, step, &ckpt));
    *found = sl_ckpt_step(ckpt);
    for (int i = 0; i < SL_COUNT(items); i++)
        SL_TRY_OUT(check_item(ckpt, i));
    SL_TRY_OUT(sl_ckpt_verify(ckpt));
    const char *config = sl_ckpt_find_note(ckpt, "config");
    if (sl_ckpt_count(ckpt) != SL_COUNT(items) || sl_ckpt_cursor(ckpt) != *found * 17 ||
        sl_ckpt_seed(ckpt) != 0xfedcba9876543210u || !config ||
        strcmp(config, "lr 0.1\n\"quoted\" \t\x01 \xc3\xbc\n") != 0)
        SL_TRY_OUT(sl_fail(SL_ERR_REFUSED, "SILENT: seed, cursor or notes differ"));
out:
    sl_ckpt_close(ckpt);
    return err;
}

/* ---- faults ---- */

static int slot_of(struct sl_fault_plan *plan, int fd) {
    for (int i = 0; i < 16; i++)
        if (plan->fd[i] == fd && plan->path[i][0])
            return i;
    return -1;
}

/* What a power cut leaves of files that were never fsynced. */
static void lose_unsynced(struct sl_fault_plan *plan) {
    for (int i = 0; i < 16; i++)
        if (plan->dirty[i] && truncate(plan->path[i], 0) != 0 && errno != ENOENT)
            perror(plan->path[i]);
}

/* Is this the operation to fail at? EXIT and POWER do not return. */
static bool strikes(struct sl_fault_plan *plan) {
    if (++plan->done != plan->at)
        return false;
    if (plan->kind == SL_FAULT_POWER)
        lose_unsynced(plan);
    if (plan->kind == SL_FAULT_EXIT || plan->kind == SL_FAULT_POWER)
        _exit(99);
    errno = ENOSPC;
    return true;
}

static int fault_open(void *ctx, const char *path) {
    struct sl_fault_plan *plan = ctx;
    if (strikes(plan))
        return -1;
    int fd = sl_ckpt_system_files.open(NULL, path);
    for (int i = 0; i < 16 && fd >= 0; i++)
        if (!plan->path[i][0] || strcmp(plan->path[i], path) == 0) {
            snprintf(plan->path[i], sizeof plan->path[i], "%s", path);
            plan->fd[i] = fd;
            plan->dirty[i] = true;
            break;
        }
    return fd;
}

static long fault_write(void *ctx, int fd, const void *bytes, size_t length) {
    struct sl_fault_plan *plan = ctx;
    int next = plan->done + 1;
    if (next == plan->at && plan->kind != SL_FAULT_FAIL && length > 1) {
        long put = sl_ckpt_system_files.write(NULL, fd, bytes, length / 2);
        if (put < 0)
            return put;
    }
    if (strikes(plan))
        return -1;
    return sl_ckpt_system_files.write(NULL, fd, bytes, length);
}

static int fault_fsync(void *ctx, int fd) {
    struct sl_fault_plan *plan = ctx;
    int slot = slot_of(plan, fd);
    if (strikes(plan))
        return -1;
    if (slot >= 0 && !plan->lie)
        plan->dirty[slot] = false;
    return sl_ckpt_system_files.fsync(NULL, fd);
}

static int fault_close(void *ctx, int fd) {
    struct sl_fault_plan *plan = ctx;
    bool failed = strikes(plan);
    int slot = slot_of(plan, fd);
    if (slot >= 0)
        plan->fd[slot] = -1;
    int result = sl_ckpt_system_files.close(NULL, fd);
    if (failed)
        errno = EIO;
    return failed ? -1 : result;
}

static int fault_fsync_dir(void *ctx, const char *path) {
    return strikes(ctx) ? -1 : sl_ckpt_system_files.fsync_dir(NULL, path);
}

static int fault_mkdir(void *ctx, const char *path) {
    return strikes(ctx) ? -1 : sl_ckpt_system_files.mkdir(NULL, path);
}

/* Files that are not on the disk yet keep that under their new name. */
static int fault_rename(void *ctx, const char *from, const char *to) {
    struct sl_fault_plan *plan = ctx;
    size_t length = strlen(from);
    if (strikes(plan))
        return -1;
    for (int i = 0; i < 16; i++)
        if (strncmp(plan->path[i], from, length) == 0) {
            char moved[1024];
            snprintf(moved, sizeof moved, "%s%s", to, plan->path[i] + length);
            snprintf(plan->path[i], sizeof plan->path[i], "%.511s", moved);
        }
    return sl_ckpt_system_files.rename(NULL, from, to);
}

static int fault_unlink(void *ctx, const char *path) {
    return strikes(ctx) ? -1 : sl_ckpt_system_files.unlink(NULL, path);
}

static int fault_rmdir(void *ctx, const char *path) {
    return strikes(ctx) ? -1 : sl_ckpt_system_files.rmdir(NULL, path);
}

struct sl_ckpt_files sl_fault_files(struct sl_fault_plan *plan) {
    return (struct sl_ckpt_files){.ctx = plan,
                                  .open = fault_open,
                                  .write = fault_write,
                                  .fsync = fault_fsync,
                                  .close = fault_close,
                                  .fsync_dir = fault_fsync_dir,
                                  .mkdir = fault_mkdir,
                                  .rename = fault_rename,
                                  .unlink = fault_unlink,
                                  .rmdir = fault_rmdir};
}
