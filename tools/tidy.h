/* Read by clang-tidy in front of every file but base/err.c: the analyzer looks at one file at a
 * time and cannot see that these return the code they are given, so an error would seem to be
 * SL_OK. */
#include "base/err.h"

#define sl_fail(code, ...) ((void)sl_fail((code), __VA_ARGS__), (code))
#define sl_vfail(code, ...) ((void)sl_vfail((code), __VA_ARGS__), (code))
#define sl_err_context(code, ...) ((void)sl_err_context((code), __VA_ARGS__), (code))
