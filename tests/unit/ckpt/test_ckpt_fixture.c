/* The bytes of a checkpoint do not change: writes the runs of tests/golden/ckpt again and compares
 * every file. SL_REGEN=1 writes them into the source tree instead. */
#include "support/ckpt_tree.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#define GOLDEN SL_TEST_SRC_DIR "/tests/golden/ckpt"

static const struct {
    enum sl_ckpt_group group;
    const char *name;
    int rank;
    int64_t dim[2];
} tensors[] = {
    {SL_CKPT_WEIGHTS, "emb", 2, {5, 3}},
    {SL_CKPT_WEIGHTS, "fc.b", 1, {7}},
    {SL_CKPT_WEIGHTS, "fc.w", 2, {3, 7}},
    {SL_CKPT_STATE, "fc.w:exp_avg", 2, {3, 7}},
};

/* bend: change one weight (run b) */
static sl_err save(const char *run, int64_t step, int ranks, bool bend) {
    struct sl_ckpt_writer *writers[4] = {0};
    struct sl_text reports[4] = {{0}};
    struct sl_str all[4];
    static float values[4][32];
    for (int rank = ranks - 1; rank >= 0; rank--) {
        struct sl_ckpt_options options = {.run = run,
                                          .step = step,
                                          .seed = 42,
                                          .cursor = step * 64,
                                          .rank = rank,
                                          .ranks = ranks,
                                          .keep = 2};
        SL_TRY(sl_ckpt_begin(&options, &writers[rank]));
        for (int i = rank; i < SL_COUNT(tensors); i += ranks) {
            int64_t count =
                tensors[i].rank == 2 ? tensors[i].dim[0] * tensors[i].dim[1] : tensors[i].dim[0];
            for (int64_t k = 0; k < count; k++)
                values[i][k] = (float)((k + 1) * (i + 1)) / (float)(step + 3);
            if (bend && i == 1)
                values[i][4] += 0.001f;
            struct sl_ckpt_item item = {.group = tensors[i].group,
                                        .name = tensors[i].name,
                                        .dtype = SL_ST_F32,
                                        .rank = tensors[i].rank,
                                        .dim = {tensors[i].dim[0], tensors[i].dim[1]},
                                        .data = values[i]};
            if (item.rank == 1)
                item.dim[1] = 0;
            SL_TRY(sl_ckpt_put(writers[rank], &item));
        }
        if (rank == 0)
            SL_TRY(sl_ckpt_note(writers[rank], "config", "model mlp\nlr 0.1\n"));
        SL_TRY(sl_ckpt_write(writers[rank], &reports[rank]));
        all[rank] = (struct sl_str){reports[rank].at, reports[rank].length};
    }
    sl_err err = sl_ckpt_commit(writers[0], all, ranks);
    for (int rank = ranks - 1; rank >= 0; rank--) {
        sl_ckpt_end(writers[rank], err == SL_OK);
        sl_text_free(&reports[rank]);
    }
    return err;
}

static void must(sl_err err) {
    if (err != SL_OK)
        fail_msg("error %d: %s", (int)err, sl_err_message());
}

/* run-a: steps 1 and 2 by one writer; run-b: step 2 by two writers, one weight differs; run-c: step
 * 2 of run-a by three writers. */
static void write_runs(struct sl_arena *arena, const char *dir) {
    must(save(sl_arena_printf(arena, "%s/run-a", dir), 1, 1, false));
    must(save(sl_arena_printf(arena, "%s/run-a", dir), 2, 1, false));
    must(save(sl_arena_printf(arena, "%s/run-b", dir), 2, 2, true));
    must(save(sl_arena_printf(arena, "%s/run-c", dir), 2, 3, false));
}

static int compare_tree(struct sl_arena *arena, const char *a, const char *b) {
    struct sl_ckpt_names names;
    int files = 0;
    must(sl_ckpt_names(a, arena, &names));
    for (int64_t i = 0; i < names.count; i++) {
        struct stat info;
        const char *x = sl_arena_printf(arena, "%s/%s", a, names.at[i]);
        const char *y = sl_arena_printf(arena, "%s/%s", b, names.at[i]);
        assert_int_equal(stat(x, &info), 0);
        if (S_ISDIR(info.st_mode)) {
            files += compare_tree(arena, x, y);
            continue;
        }
        char *bytes_x, *bytes_y;
        size_t size_x, size_y;
        must(sl_ckpt_load(x, 1 << 20, &bytes_x, &size_x));
        must(sl_ckpt_load(y, 1 << 20, &bytes_y, &size_y));
        if (size_x != size_y || memcmp(bytes_x, bytes_y, size_x) != 0)
            fail_msg("%s differs from %s: the format changed?", x, y);
        free(bytes_x);
        free(bytes_y);
        files++;
    }
    return files;
}

static void bytes_are_those_of_the_fixture(void **state) {
    (void)state;
    struct sl_arena arena = {0};
    if (getenv("SL_REGEN")) {
        sl_tree_remove(GOLDEN);
        assert_int_equal(mkdir(GOLDEN, 0777), 0);
        write_runs(&arena, GOLDEN);
    }
    const char *dir = sl_tree_make(&arena);
    write_runs(&arena, dir);
    int files = compare_tree(&arena, GOLDEN, dir);
    assert_int_equal(compare_tree(&arena, dir, GOLDEN), files);
    printf("count: %d files of checkpoints byte-identical to the committed ones\n", files);
    sl_tree_remove(dir);
    sl_arena_free(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(bytes_are_those_of_the_fixture)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
