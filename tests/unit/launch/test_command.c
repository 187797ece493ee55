/* The command of a launch: its options, and the command after a loss of ranks. */
#include "launch/parts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

static struct sl_launch l;

/* Words separated by spaces: "sluice train ..." */
static void set(const char *words) {
    static char text[1024];
    memset(&l, 0, sizeof l);
    snprintf(text, sizeof text, "%s", words);
    for (char *word = strtok(text, " "); word; word = strtok(NULL, " "))
        l.argv[l.argc++] = word;
}

static void expect(const char *words) {
    char text[1024] = "";
    for (int i = 0; i < l.argc; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? " " : "", l.argv[i]);
    assert_string_equal(text, words);
    assert_null(l.argv[l.argc]);
}

static void test_argument(void **state) {
    (void)state;
    set("sluice train --out run --stages=4 --resume --name= --last");
    assert_string_equal(sl_launch_argument(&l, "--out"), "run");
    assert_string_equal(sl_launch_argument(&l, "--stages"), "4");
    assert_string_equal(sl_launch_argument(&l, "--name"), "");
    assert_string_equal(sl_launch_argument(&l, "--last"), "");
    assert_null(sl_launch_argument(&l, "--absent"));
    assert_null(sl_launch_argument(&l, "--stage")); /* a longer option is another one */
    assert_null(sl_launch_argument(&l, "train"));   /* the command itself is no option */
    set("sluice --out x");
    assert_null(sl_launch_argument(&l, "--out"));
}

static void test_drop(void **state) {
    (void)state;
    set("sluice train --a 1 --b=2 --c --d 3");
    sl_launch_drop(&l, "--a", true);
    expect("sluice train --b=2 --c --d 3");
    sl_launch_drop(&l, "--b", true);
    expect("sluice train --c --d 3");
    sl_launch_drop(&l, "--c", false);
    expect("sluice train --d 3");
    sl_launch_drop(&l, "--e", true);
    expect("sluice train --d 3");
    sl_launch_drop(&l, "--d", true);
    expect("sluice train");
    set("sluice train --x y --a"); /* its value is missing */
    sl_launch_drop(&l, "--a", true);
    expect("sluice train --x y");
}

static void reshape(const char *words, int64_t before, int64_t now, const char *want) {
    set(words);
    assert_int_equal(sl_launch_reshape(&l, before, now), SL_OK);
    expect(want);
}

static void test_reshape(void **state) {
    (void)state;
    reshape("s train m --stages 6 --out r", 6, 4, "s train m --out r --stages 4");
    reshape("s train m --stages=12 --out r", 6, 4, "s train m --out r --stages 8");
    reshape("s train m --plan x.plan --out r", 6, 3, "s train m --out r --stages 3");
    reshape("s train m --stages 4 --schedule gpipe", 4, 3, "s train m --schedule gpipe --stages 3");
    reshape("s train m --stages 4 --schedule 2bw", 4, 3, "s train m --schedule 2bw --stages 3");
    /* layouts and schedules whose checkpoints need the same stages */
    static const char *const same[] = {
        "s train m --out r",
        "s train m --stages 3",
        "s train m --stages 4 --schedule stash",
        "s train m --stages 4 --schedule async",
        "s train m --stages 4 --schedule 2bw --policy 2bw-predict",
        "s train m --stages 4 --schedule none-such",
        "s train m --stages 4 --workers 2",
        "s train m --stages 4 --replicas 2",
        "s train m --stages 4 --cut branches",
    };
    for (int i = 0; i < SL_COUNT(same); i++)
        reshape(same[i], 4, 3, same[i]);
}

/* --stages N is two words more than --stages=N; an array that is full has no room. */
static void test_full(void **state) {
    (void)state;
    set("s train --stages=4");
    while (l.argc < SL_ARGS_MAX - 1)
        l.argv[l.argc++] = "x";
    assert_int_equal(sl_launch_reshape(&l, 4, 2), SL_OK); /* one word less, two more */
    assert_int_equal(l.argc, SL_ARGS_MAX);
    set("s train --stages=4");
    while (l.argc < SL_ARGS_MAX)
        l.argv[l.argc++] = "x";
    assert_int_equal(sl_launch_reshape(&l, 4, 2), SL_ERR_USAGE);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_argument), cmocka_unit_test(test_drop),
                                       cmocka_unit_test(test_reshape), cmocka_unit_test(test_full)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
