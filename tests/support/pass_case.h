/* Programs of stages for tests. */
#ifndef SL_TESTS_PASS_CASE_H
#define SL_TESTS_PASS_CASE_H

#include "pass/program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static inline bool pass_has_none(const char *name) {
    (void)name;
    return false;
}

/* Building a program also runs the checker. */
static inline struct sl_program *pass_build(const struct sl_graph *graph,
                                            bool (*has)(const char *name), bool split,
                                            bool recompute) {
    struct sl_program *p = NULL;
    struct sl_program_spec spec = {
        .graph = graph, .samples = 3, .has_kernel = has, .split = split, .recompute = recompute};
    if (sl_pass_program_build(&spec, &p) != SL_OK)
        fail_msg("%s", sl_err_message());
    return p;
}

#endif
