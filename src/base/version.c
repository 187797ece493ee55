/* The version of this library; CMake defines SL_VERSION_STRING. */
#include "base/version.h"

const char *sl_version(void) { return SL_VERSION_STRING; }
