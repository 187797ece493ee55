/* Checkpoints: round trips, several writers, pruning, names, and refusals. */
#include "support/ckpt_tree.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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
    run = sl_arena_printf(&arena, "%s/run", sl_tree_make(&arena));
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    char *parent = sl_arena_dup(&arena, run, strlen(run) - 4);
    sl_tree_remove(parent);
    sl_arena_free(&arena);
    return 0;
}

static void must(sl_err err) {
    if (err != SL_OK)
        fail_msg("error %d: %s", (int)err, sl_err_message());
}

static void must_fail(sl_err err, const char *says) {
    if (err == SL_OK || !strstr(sl_err_message(), says))
        fail_msg("error %d '%s' does not say '%s'", (int)err, sl_err_message(), says);
}

static const char *in_run(const char *path) { return sl_arena_printf(&arena, "%s/%s", run, path); }

static void what_is_written_is_read(void **state) {
    (void)state;
    int64_t step;
    assert_false(exists_at(run));
    must_fail(sl_tree_check(run, -1, &step), "no checkpoint here");
    must(sl_tree_save(run, 1000, 1, 0, NULL));
    must(sl_tree_check(run, -1, &step));
    assert_int_equal(step, 1000);
    must(sl_tree_check(in_run("ckpt"), 1000, &step));
    must(sl_tree_check(in_run("ckpt/step-00001000"), -1, &step));
    must_fail(sl_tree_check(run, 999, &step), "no checkpoint of step 999");
    must_fail(sl_tree_check(in_run("ckpt/step-00001000"), 7, &step), "holds step 1000, not 7");
    assert_true(exists_at(run) && exists_at(in_run("ckpt/step-00001000")));
}

/* Any number of writers gives the same tensors and the same hashes. */
static void layout_does_not_matter(void **state) {
    (void)state;
    static const int counts[] = {1, 2, 3, 4, 6, 7, 8};
    uint64_t hashes[7][8];
    for (int i = 0; i < SL_COUNT(counts); i++) {
        int64_t step;
        struct sl_ckpt *ckpt;
        must(sl_tree_save(run, 5, counts[i], 0, NULL));
        must(sl_tree_check(run, -1, &step));
        must(sl_ckpt_open(run, 5, &ckpt));
        assert_int_equal(sl_ckpt_writers(ckpt), counts[i]);
        for (int64_t k = 0; k < sl_ckpt_count(ckpt); k++)
            hashes[i][k] = sl_ckpt_at(ckpt, k)->hash;
        assert_memory_equal(hashes[i], hashes[0], sizeof(uint64_t) * 7);
        sl_ckpt_close(ckpt);
    }
}

static void the_same_save_gives_the_same_bytes(void **state) {
    (void)state;
    struct sl_ckpt *ckpt;
    must(sl_tree_save(run, 8, 3, 0, NULL));
    must(sl_ckpt_open(run, -1, &ckpt));
    uint64_t first = sl_ckpt_hash(ckpt);
    sl_ckpt_close(ckpt);
    must(sl_tree_save(run, 8, 3, 0, NULL));
    must(sl_ckpt_open(run, -1, &ckpt));
    assert_true(sl_ckpt_hash(ckpt) == first);
    /* `latest` named step-00000008, so the second save used a second name. */
    assert_non_null(strstr(sl_ckpt_dir(ckpt), "step-00000008.1"));
    sl_ckpt_close(ckpt);
    assert_false(sl_file_exists(in_run("ckpt/step-00000008")));
    must(sl_tree_save(run, 8, 3, 0, NULL)); /* the third save uses the first name again */
    must(sl_ckpt_open(run, 8, &ckpt));
    assert_null(strstr(sl_ckpt_dir(ckpt), "step-00000008.1"));
    sl_ckpt_close(ckpt);
    assert_false(sl_file_exists(in_run("ckpt/step-00000008.1")));
}

static void only_the_last_are_kept(void **state) {
    (void)state;
    int64_t step;
    struct sl_ckpt_list list;
    for (int64_t s = 3; s <= 15; s += 3)
        must(sl_tree_save(run, s, 2, 3, NULL));
    must(sl_ckpt_list(run, &arena, &list));
    assert_int_equal(list.count, 3);
    assert_int_equal(list.step[0], 9);
    assert_int_equal(list.latest, 2);
    /* After a roll-back older steps are saved again; newer ones are kept. */
    must(sl_tree_save(run, 10, 2, 3, NULL));
    must(sl_ckpt_list(run, &arena, &list));
    assert_int_equal(list.count, 4);
    assert_int_equal(list.step[list.latest], 10);
    must(sl_tree_check(run, -1, &step));
    assert_int_equal(step, 10);
    must(sl_tree_save(run, 99999999, 1, 2, NULL));
    must(sl_tree_save(run, 100000001, 1, 2, NULL)); /* nine digits sort after eight */
    must(sl_ckpt_list(run, &arena, &list));
    assert_int_equal(list.count, 2);
    assert_int_equal(list.step[1], 100000001);
}

static void a_killed_save_is_cleared_away(void **state) {
    (void)state;
    int64_t step;
    must(sl_tree_save(run, 4, 1, 0, NULL));
    must(sl_ckpt_make_dir(&sl_ckpt_system_files, in_run("ckpt/.tmp-step-00000005")));
    must(sl_file_write(in_run("ckpt/.tmp-step-00000005/weights-006-of-007.safetensors"), "x", 1));
    must(sl_ckpt_make_dir(&sl_ckpt_system_files, in_run("ckpt/.tmp-step-00000003")));
    must(sl_ckpt_make_dir(&sl_ckpt_system_files, in_run("ckpt/step-00000005")));
    must(sl_tree_check(run, -1, &step));
    must(sl_tree_save(run, 5, 2, 0, NULL));
    must(sl_tree_check(run, -1, &step));
    assert_int_equal(step, 5);
    assert_false(sl_file_exists(in_run("ckpt/.tmp-step-00000003")));
    assert_false(sl_file_exists(in_run("ckpt/.tmp-step-00000005")));
}

static void without_latest_the_newest_is_taken(void **state) {
    (void)state;
    int64_t step;
    must(sl_tree_save(run, 4, 1, 0, NULL));
    must(sl_tree_save(run, 6, 1, 0, NULL));
    assert_int_equal(unlink(in_run("ckpt/latest")), 0);
    must(sl_tree_check(run, -1, &step));
    assert_int_equal(step, 6);
    must(sl_file_write(in_run("ckpt/latest"), "step-00000004 junk\n", 19));
    must_fail(sl_tree_check(run, -1, &step), "damaged");
    must(sl_tree_check(run, 6, &step)); /* it can still be loaded by its number */
    must(sl_tree_save(run, 6, 1, 0, NULL));
    must(sl_tree_check(run, -1, &step));
}

/* A checkpoint cannot make its reader open other files: `latest` names only a step, file names
 * follow from numbers, links are not followed. */
static void nothing_leads_out_of_the_directory(void **state) {
    (void)state;
    static const char *const names[] = {"../step-00000004",
                                        "step-00000004/../../x/step-00000004",
                                        "/step-00000004",
                                        "step-00000004/",
                                        "..",
                                        "."};
    static const char *const files[] = {"manifest.json", "weights-000-of-001.safetensors"};
    int64_t step;
    must(sl_tree_save(run, 4, 1, 0, NULL));
    must(sl_tree_check(run, -1, &step));
    for (int i = 0; i < SL_COUNT(names); i++) {
        struct sl_text text = {0};
        sl_ckpt_latest_put(&text, names[i], 0);
        must(sl_file_write(in_run("ckpt/latest"), text.at, text.length));
        must_fail(sl_tree_check(run, -1, &step), "it names no step");
        sl_text_free(&text);
    }
    for (int i = 0; i < SL_COUNT(files); i++) {
        const char *path = sl_arena_printf(&arena, "%s/ckpt/step-00000004/%s", run, files[i]);
        const char *elsewhere = sl_arena_printf(&arena, "%s/elsewhere-%d", run, i);
        must(sl_tree_check(run, 4, &step));
        assert_int_equal(rename(path, elsewhere), 0);
        assert_int_equal(symlink(elsewhere, path), 0);
        must_fail(sl_tree_check(run, 4, &step), files[i]);
        assert_int_equal(rename(elsewhere, path), 0);
    }
    must(sl_tree_check(run, 4, &step));
}

static void writers_must_agree(void **state) {
    (void)state;
    struct sl_ckpt_writer *writers[2];
    struct sl_text reports[2] = {{0}};
    struct sl_str all[2];
    float x[3] = {1, 2, 3};
    struct sl_ckpt_item item = {.name = "w", .dtype = SL_ST_F32, .rank = 1, .dim = {3}, .data = x};
    for (int r = 0; r < 2; r++) {
        struct sl_ckpt_options options = {.run = run, .step = 3, .rank = r, .ranks = 2};
        must(sl_ckpt_begin(&options, &writers[r]));
        must(sl_ckpt_put(writers[r], &item));
        must(sl_ckpt_write(writers[r], &reports[r]));
        all[r] = (struct sl_str){reports[r].at, reports[r].length};
    }
    must_fail(sl_ckpt_commit(writers[0], all, 1), "1 of 2 writers reported");
    must_fail(sl_ckpt_commit(writers[0], all, 2), "tensor 'w' was put by writers 0 and 1");
    all[1] = all[0];
    must_fail(sl_ckpt_commit(writers[0], all, 2), "writer 0 reports twice");
    for (int r = 1; r >= 0; r--) {
        sl_ckpt_end(writers[r], false);
        sl_text_free(&reports[r]);
    }
    assert_false(exists_at(run));
    assert_false(sl_file_exists(in_run("ckpt/.tmp-step-00000003")));
}

static void bad_names_and_shapes_are_refused(void **state) {
    (void)state;
    struct sl_ckpt_options options = {.run = run, .step = 3, .ranks = 1};
    struct sl_ckpt_writer *writer;
    float x = 0;
    struct sl_ckpt_item item = {.name = "a\nb", .dtype = SL_ST_F32, .data = &x};
    must(sl_ckpt_begin(&options, &writer));
    must_fail(sl_ckpt_put(writer, &item), "impossible name");
    item = (struct sl_ckpt_item){.name = "a", .rank = 1, .dim = {-1}, .data = &x};
    must_fail(sl_ckpt_put(writer, &item), "impossible shape");
    item = (struct sl_ckpt_item){.name = "a", .dtype = SL_ST_F32, .data = &x};
    must(sl_ckpt_put(writer, &item));
    must(sl_ckpt_put(writer, &item));
    must_fail(sl_ckpt_save(writer), "tensor 'a' is written twice");
    assert_string_equal(sl_ckpt_part_name(&arena, "h.0.w", "exp_avg"), "h.0.w:exp_avg");
    assert_string_equal(sl_ckpt_version_name(&arena, "h.0.w", 1), "h.0.w@1");
    assert_string_equal(sl_ckpt_version_name(&arena, "h.0.w", 0), "h.0.w");
}

static void step_names(void **state) {
    (void)state;
    assert_int_equal(sl_ckpt_dir_step("step-00000000"), 0);
    assert_int_equal(sl_ckpt_dir_step("step-00001000.12"), 1000);
    assert_int_equal(sl_ckpt_dir_step("step-123456789"), 123456789);
    static const char *const bad[] = {"step-",
                                      "step-1",
                                      "step-0000001x",
                                      "step-00000001.",
                                      "step-00000001.0",
                                      "step-000000001",
                                      "step-00000001.99999",
                                      "Step-00000001",
                                      "step-00000001/..",
                                      ".tmp-step-00000001",
                                      "step-99999999999999999"};
    for (int i = 0; i < SL_COUNT(bad); i++)
        if (sl_ckpt_dir_step(bad[i]) != -1)
            fail_msg("'%s' is taken for a step", bad[i]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(what_is_written_is_read),
        TEST(layout_does_not_matter),
        TEST(the_same_save_gives_the_same_bytes),
        TEST(only_the_last_are_kept),
        TEST(a_killed_save_is_cleared_away),
        TEST(without_latest_the_newest_is_taken),
        TEST(nothing_leads_out_of_the_directory),
        TEST(writers_must_agree),
        TEST(bad_names_and_shapes_are_refused),
        cmocka_unit_test(step_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
