/* The version of libsluice. */
#ifndef SLUICE_VERSION_H
#define SLUICE_VERSION_H

#include "sluice/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Version of the loaded library, for example "0.2.0". */
SL_API const char *sl_version(void);

#ifdef __cplusplus
}
#endif

#endif
