/* The version of this library, from the build. */
#ifndef SL_BASE_VERSION_H
#define SL_BASE_VERSION_H

#include "sluice/version.h"

#endif
