/* Storage faults: every operation of a save fails, is torn, or is the last one before the process
 * dies; any bit of a checkpoint flips; files are truncated, lost, renamed. The old or the new
 * checkpoint loads, and damage is always detected. */
#include "base/map.h"
#include "base/rng.h"
#include "support/ckpt_tree.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static bool exists_at(const char *path) {
    bool exists;
    return sl_ckpt_exists(path, &exists) != SL_OK || exists;
}

static struct sl_arena arena;
static const char *run;

static int set_up(void **state) {
    (void)state;
    run = sl_tree_make(&arena);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    sl_tree_remove(run);
    sl_arena_free(&arena);
    return 0;
}

static void must(sl_err err) {
    if (err != SL_OK)
        fail_msg("error %d: %s", (int)err, sl_err_message());
}

static bool fsync_lies;

/* A save that dies or fails at operation `at`; returns whether it reported success. */
static bool save_with_fault(enum sl_fault kind, int at, int64_t step, int ranks, int *operations) {
    struct sl_fault_plan plan = {.kind = kind, .at = at, .lie = fsync_lies};
    struct sl_ckpt_files files = sl_fault_files(&plan);
    if (kind == SL_FAULT_FAIL || kind == SL_FAULT_TEAR) {
        bool ok = sl_tree_save(run, step, ranks, 2, &files) == SL_OK;
        *operations = plan.done;
        return ok;
    }
    pid_t child = fork();
    if (child == 0)
        _exit(sl_tree_save(run, step, ranks, 2, &files) == SL_OK ? 0 : 1);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status) == 0;
}

static void check_old_or_new(const char *what, int at, bool ok, int64_t old, int64_t fresh) {
    int64_t step = -1;
    sl_err err = sl_tree_check(run, -1, &step);
    if (err != SL_OK)
        fail_msg("%s at operation %d: nothing loads: %s", what, at, sl_err_message());
    if (step != old && step != fresh)
        fail_msg("%s at operation %d: step %d loads", what, at, (int)step);
    if (ok && step != fresh)
        fail_msg("%s at operation %d: the save said it was done and the old one loads", what, at);
}

static void every_fault_leaves_old_or_new(void **state) {
    (void)state;
    static const char *const names[] = {"failure", "torn write", "kill", "power cut"};
    int trials = 0;
    for (int ranks = 1; ranks <= 3; ranks += 2)
        for (int kind = 0; kind < 4; kind++) {
            int64_t step = 10;
            int max, operations;
            sl_tree_remove(run);
            assert_int_equal(mkdir(run, 0777), 0);
            must(sl_tree_save(run, step - 1, ranks, 2, NULL));
            must(sl_tree_save(run, step, ranks, 2, NULL));
            assert_true(save_with_fault(SL_FAULT_FAIL, 0, ++step, ranks, &max));
            for (int at = 1; at <= max + 2; at++, trials++) {
                int64_t before;
                must(sl_tree_check(run, -1, &before));
                /* Every third save repeats the step that exists already. */
                step = at % 3 == 0 ? before : before + 1;
                bool ok = save_with_fault((enum sl_fault)kind, at, step, ranks, &operations);
                check_old_or_new(names[kind], at, ok, before, step);
            }
        }
    printf("count: %d faults of storage operations, old or new loads\n", trials);
}

/* The first save of a run: no checkpoint or the new one. */
static void first_save_is_all_or_nothing(void **state) {
    (void)state;
    int max;
    assert_true(save_with_fault(SL_FAULT_FAIL, 0, 1, 1, &max));
    for (int at = 1; at <= max; at++) {
        int64_t step;
        sl_tree_remove(run);
        assert_int_equal(mkdir(run, 0777), 0);
        bool ok = save_with_fault(SL_FAULT_EXIT, at, 1, 1, NULL);
        sl_err err = sl_tree_check(run, -1, &step);
        if (err != SL_OK && (ok || !strstr(sl_err_message(), "no checkpoint here")))
            fail_msg("kill at %d: %s", at, sl_err_message());
        must(sl_tree_save(run, 2, 1, 0, NULL)); /* and the next save works */
        must(sl_tree_check(run, -1, &step));
        assert_int_equal(step, 2);
    }
}

/* Sabotage: the test above must fail if a power cut follows the rename without an fsync. */
static void a_missing_fsync_would_be_noticed(void **state) {
    (void)state;
    int max, lost = 0;
    assert_true(save_with_fault(SL_FAULT_FAIL, 0, 1, 1, &max));
    fsync_lies = true;
    for (int at = 1; at <= max; at++) {
        int64_t step;
        sl_tree_remove(run);
        assert_int_equal(mkdir(run, 0777), 0);
        save_with_fault(SL_FAULT_POWER, at, 1, 1, NULL);
        lost += exists_at(run) && sl_tree_check(run, -1, &step) != SL_OK;
    }
    fsync_lies = false;
    assert_true(lost > 0);
}

/* ---- damage ---- */

struct tree_files {
    int count;
    const char *path[16];
    int64_t size_bytes[16], total;
};

static void add_file(struct tree_files *out, const char *path) {
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    out->path[out->count] = path;
    out->size_bytes[out->count++] = (int64_t)info.st_size;
    out->total += (int64_t)info.st_size;
}

static struct tree_files list_files(void) {
    struct tree_files out = {0};
    struct sl_ckpt_names names;
    const char *dir = sl_arena_printf(&arena, "%s/ckpt/step-00000021", run);
    must(sl_ckpt_names(dir, &arena, &names));
    for (int64_t i = 0; i < names.count; i++)
        add_file(&out, sl_arena_printf(&arena, "%s/%s", dir, names.at[i]));
    add_file(&out, sl_arena_printf(&arena, "%s/ckpt/latest", run));
    return out;
}

static void flip(const char *path, int64_t byte, int bit) {
    unsigned char value = 0;
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0 && pread(fd, &value, 1, (off_t)byte) == 1);
    value = (unsigned char)(value ^ 1u << bit);
    assert_int_equal(pwrite(fd, &value, 1, (off_t)byte), 1);
    close(fd);
}

static void try_flip(const struct tree_files *files, int64_t byte, int bit) {
    int i = 0;
    int64_t step, at = byte;
    for (; at >= files->size_bytes[i]; i++)
        at -= files->size_bytes[i];
    flip(files->path[i], at, bit);
    if (sl_tree_check(run, -1, &step) == SL_OK || strstr(sl_err_message(), "SILENT"))
        fail_msg("%s: bit %d of byte %lld flipped and nobody saw it", files->path[i], bit,
                 (long long)at);
    flip(files->path[i], at, bit);
}

/* Every bit of every file (the files are small), then random bits up to the requested count:
 * 100,000 in a full run. */
static void every_flipped_bit_is_seen(void **state) {
    (void)state;
    int64_t step, trials = 0;
    const char *full = getenv("SL_TEST_FULL");
    must(sl_tree_save(run, 20, 2, 0, NULL));
    must(sl_tree_save(run, 21, 2, 0, NULL));
    struct tree_files files = list_files();
    assert_int_equal(files.count, 6);
    int64_t bits = files.total * 8, wanted = full && *full == '1' ? 100000 : 2000;
    if (wanted >= bits)
        for (; trials < bits; trials++)
            try_flip(&files, trials / 8, (int)(trials % 8));
    for (; trials < wanted; trials++) {
        int64_t bit = sl_rng_below(4711, 5, (uint64_t)trials, bits);
        try_flip(&files, bit / 8, (int)(bit % 8));
    }
    must(sl_tree_check(run, -1, &step));
    printf("count: %lld of %lld flipped bits detected (%lld bits in the checkpoint)\n",
           (long long)trials, (long long)trials, (long long)bits);
}

static void expect_damage(const char *what) {
    int64_t step;
    if (sl_tree_check(run, -1, &step) == SL_OK || strstr(sl_err_message(), "SILENT"))
        fail_msg("%s is not seen", what);
}

static void cut_lost_renamed_and_foreign_files_are_seen(void **state) {
    (void)state;
    int64_t step;
    must(sl_tree_save(run, 21, 2, 0, NULL));
    struct tree_files files = list_files();
    const char *aside = sl_arena_printf(&arena, "%s/aside", run);
    for (int i = 0; i < files.count - 1; i++) { /* without `latest`, the newest loads */
        assert_int_equal(rename(files.path[i], aside), 0);
        expect_damage("a lost file");
        assert_int_equal(symlink(aside, files.path[i]), 0);
        expect_damage("a link in place of a file");
        assert_int_equal(unlink(files.path[i]), 0);
        assert_int_equal(rename(aside, files.path[i]), 0);
        for (int64_t length = 0; length < files.size_bytes[i]; length += 1 + length / 3) {
            char *bytes;
            size_t whole;
            must(sl_ckpt_load(files.path[i], 1 << 20, &bytes, &whole));
            assert_int_equal(truncate(files.path[i], (off_t)length), 0);
            expect_damage("a cut file");
            must(sl_file_write(files.path[i], bytes, whole));
            free(bytes);
        }
    }
    must(sl_tree_check(run, -1, &step));
    assert_int_equal(rename(files.path[0], aside), 0); /* swap two files */
    assert_int_equal(rename(files.path[1], files.path[0]), 0);
    assert_int_equal(rename(aside, files.path[1]), 0);
    expect_damage("exchanged files");
    assert_int_equal(rename(files.path[0], aside), 0);
    assert_int_equal(rename(files.path[1], files.path[0]), 0);
    assert_int_equal(rename(aside, files.path[1]), 0);
    must(sl_tree_check(run, -1, &step));
    const char *dir = sl_arena_printf(&arena, "%s/ckpt/step-00000021", run);
    const char *extra = sl_arena_printf(&arena, "%s/weights-000-of-009.safetensors", dir);
    must(sl_file_write(extra, "x", 1));
    expect_damage("a foreign file");
    assert_int_equal(unlink(extra), 0);
    const char *other = sl_arena_printf(&arena, "%s/ckpt/step-00000022", run);
    assert_int_equal(rename(dir, other), 0);
    expect_damage("a renamed directory");
    if (sl_tree_check(other, -1, &step) == SL_OK)
        fail_msg("a renamed directory loads by its name");
}

/* A valid manifest that names files elsewhere. */
static void paths_out_of_the_directory_are_refused(void **state) {
    (void)state;
    static const char *const names[] = {
        "../weights-000-of-001.safetensors", "/etc/passwd",
        "weights-000-of-001.safetensors/..", "weights-001-of-001.safetensors",
        "weights-0-of-1.safetensors",        "weights-000-of-002.safetensors",
        "weights-0/0-of-001.safetensors",    ""};
    for (int i = 0; i < SL_COUNT(names); i++) {
        struct sl_ckpt_shard shard = {.file_bytes = 100};
        struct sl_ckpt_manifest manifest = {.ranks = 1, .shard_count = 1, .shards = &shard}, again;
        struct sl_text text = {0}, bent = {0};
        sl_ckpt_manifest_put(&text, &manifest);
        char *at = strstr(text.at, "weights-000-of-001.safetensors"), *tail;
        sl_text_put_bytes(&bent, text.at, (size_t)(at - text.at));
        sl_text_put(&bent, names[i]);
        tail = strstr(text.at, "\"hash\"");
        at += strlen("weights-000-of-001.safetensors");
        sl_text_put_bytes(&bent, at, (size_t)(tail - at));
        unsigned long long hash = sl_hash(bent.at, bent.length);
        sl_text_printf(&bent, "\"hash\": \"%016llx\"}\n", hash);
        if (sl_ckpt_manifest_read("m", bent.at, bent.length, &arena, &again) == SL_OK ||
            !strstr(sl_err_message(), "is not the name of a shard"))
            fail_msg("'%s': %s", names[i], sl_err_message());
        sl_text_free(&text);
        sl_text_free(&bent);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(every_fault_leaves_old_or_new),
        TEST(first_save_is_all_or_nothing),
        TEST(a_missing_fsync_would_be_noticed),
        TEST(every_flipped_bit_is_seen),
        TEST(cut_lost_renamed_and_foreign_files_are_seen),
        TEST(paths_out_of_the_directory_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
