/* The version of this library, from the build. */
#ifndef SL_BASE_VERSION_H
#define SL_BASE_VERSION_H

/* "0.1.0" */
const char *sl_version(void);

#endif
