/* The version of this library: SL_VERSION_STRING comes from the build's one place. */
#include "base/version.h"

const char *sl_version(void) { return SL_VERSION_STRING; }
