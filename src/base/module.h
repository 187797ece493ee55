/* Modules: parts of the program that need what not every machine has, loaded when asked for. */
#ifndef SL_BASE_MODULE_H
#define SL_BASE_MODULE_H

#include "base/err.h"

/* What a module exports; the rest of it is compiled with hidden names. */
#define SL_MODULE_EXPORT __attribute__((visibility("default")))

/* The object `symbol` of the module `file` (libsluice_x.so), which is looked for beside the
 * program, in its tree's lib/sluice, and where the system looks. It stays loaded. build: what the
 * module must say of itself in its text SL_MODULE_SAYS, else it is refused; NULL: nothing. */
#define SL_MODULE_SAYS "sl_comm_module_build"
SL_MUST_CHECK sl_err sl_module_load(const char *file, const char *symbol, const char *build,
                                    const void **out);

#endif
