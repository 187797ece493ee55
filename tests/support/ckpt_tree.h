/* Small checkpoints for tests: a directory of their own, tensors that follow from the step, and a
 * table of file operations that fails, tears or ends the process at the n-th operation. */
#ifndef SL_TESTS_CKPT_TREE_H
#define SL_TESTS_CKPT_TREE_H

#include "ckpt/files.h"

/* A fresh directory under TMPDIR, and its removal with everything in it. */
const char *sl_tree_make(struct sl_arena *arena);
void sl_tree_remove(const char *dir);

/* Write the checkpoint of `step` by `ranks` writers: "a.w" [7,5] F32, "b.w" [13] F32, "i" [3] I64,
 * "h" [5] BF16, "b.w:exp_avg" [13] F32 (state), "a.w@1" [7,5] (state), "none" [0,3]; values follow
 * from step and place. rank r owns every ranks-th tensor. */
sl_err sl_tree_save(const char *run, int64_t step, int ranks, int keep,
                    const struct sl_ckpt_files *files);

/* Read everything and compare with what sl_tree_save wrote for the checkpoint's step. */
sl_err sl_tree_check(const char *path, int64_t step, int64_t *found);

enum sl_fault { SL_FAULT_FAIL, SL_FAULT_TEAR, SL_FAULT_EXIT, SL_FAULT_POWER };

/* Operations are counted from 1; `at` 0: none. EXIT leaves the process as SIGKILL would, TEAR does
 * half of a write first, POWER also empties every file that was written but not fsynced. */
struct sl_fault_plan {
    enum sl_fault kind;
    int at, done;
    bool lie;   /* fsync says yes and does nothing: a test of the test */
    int fd[16]; /* open files: their paths, and whether they are synced */
    char path[16][512];
    bool dirty[16];
};

struct sl_ckpt_files sl_fault_files(struct sl_fault_plan *plan);

#endif
