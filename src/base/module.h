/* Modules: optional shared libraries (CUDA, MPI) that are loaded on first use. */
#ifndef SL_BASE_MODULE_H
#define SL_BASE_MODULE_H

#include "base/err.h"

/* Marks the exported symbols of a module; all others are hidden. */
#define SL_MODULE_EXPORT __attribute__((visibility("default")))

/* Loads the module `file` (libsluice_x.so) and returns the address of its object `symbol`. Searches
 * the program's directory, lib/sluice of its tree, then those of the system. The module stays
 * loaded. Unless `build` is NULL, the module's string SL_MODULE_BUILD_SYMBOL must equal it. */
#define SL_MODULE_BUILD_SYMBOL "sl_comm_module_build"
SL_MUST_CHECK sl_err sl_module_load(const char *file, const char *symbol, const char *build,
                                    const void **out);

#endif
