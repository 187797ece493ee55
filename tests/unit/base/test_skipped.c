/* A binary whose tests all skip reports 77; one that passes something reports 0 (support/skipped.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

static void skips(void **state) {
    (void)state;
    skip();
}

static void passes(void **state) {
    (void)state;
    assert_true(1);
}

int main(void) {
    const struct CMUnitTest none[] = {cmocka_unit_test(skips), cmocka_unit_test(skips)};
    const struct CMUnitTest some[] = {cmocka_unit_test(skips), cmocka_unit_test(passes)};
    const struct CMUnitTest all[] = {cmocka_unit_test(passes)};
    int got[] = {cmocka_run_group_tests(none, NULL, NULL), cmocka_run_group_tests(some, NULL, NULL),
                 cmocka_run_group_tests(all, NULL, NULL)};
    printf("count: 3 groups: %d %d %d\n", got[0], got[1], got[2]);
    return got[0] == 77 && got[1] == 0 && got[2] == 0 ? 0 : 1;
}
