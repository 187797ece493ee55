/* A cmocka binary whose tests all skip exits with 77, so that the suite reports it as skipped. The linker
 * puts these functions around cmocka's (cmake/SluiceTests.cmake). */
#include "support/skipped.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

enum { SKIPPED = 77 };

static size_t skips;

void __wrap__skip(const char *file, int line) {
    skips++;
    __real__skip(file, line);
}

int __wrap__cmocka_run_group_tests(const char *name, const struct CMUnitTest *tests, size_t count,
                                   CMFixtureFunction setup, CMFixtureFunction teardown) {
    skips = 0;
    int failed = __real__cmocka_run_group_tests(name, tests, count, setup, teardown);
    if (skips)
        printf("count: %zu of %zu tests skipped: data, hardware or a library is missing\n", skips,
               count);
    return failed == 0 && skips == count ? SKIPPED : failed;
}
