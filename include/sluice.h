/* libsluice: pipeline-parallel training of neural networks, from C.
 *
 * Functions return sl_err; anything but SL_OK has a message in sl_err_message(). Objects are
 * opaque, opened and closed in pairs, and used by one thread at a time.
 */
#ifndef SLUICE_H
#define SLUICE_H

#include "sluice/err.h"
#include "sluice/net.h"
#include "sluice/pipeline.h"
#include "sluice/train.h"

#ifdef __cplusplus
extern "C" {
#endif

/* "0.1.0": of the library that is running. */
const char *sl_version(void);

#ifdef __cplusplus
}
#endif

#endif
