/* Error codes of libsluice and their messages. The program exits with the same codes. */
#ifndef SLUICE_ERR_H
#define SLUICE_ERR_H

#include "sluice/export.h"

#ifdef __cplusplus
extern "C" {
#endif

enum sl_err_code {
    SL_OK = 0,
    SL_ERR_REFUSED = 1, /* a check failed: a wrong schedule, a plan that does not fit, ... */
    SL_ERR_USAGE = 2,   /* a wrong command line, argument or order of calls */
    SL_ERR_INPUT = 3,   /* a wrong file or model */
    SL_ERR_SYSTEM = 4,  /* memory, disk, device */
    SL_ERR_PEER = 5,    /* another worker failed */
};

/* The name of SL_ERR_REFUSED before version 0.2; removed in 0.3. */
#define SL_ERR_NO SL_ERR_REFUSED

typedef enum sl_err_code sl_err;

/* Message of the last error of this thread; "" if there was none. Valid until the next call. */
SL_API const char *sl_err_message(void);

/* Code of the last error of this thread; SL_OK if there was none. */
SL_API sl_err sl_err_code(void);

/* Places in the source that the last error of this thread passed, "file:line function". Index 0
 * found the error, index 1 called it and so on; NULL past the end. Valid until the next call. */
SL_API const char *sl_err_trail(int index);

/* Name of a code, for example "input error". */
SL_API const char *sl_err_name(sl_err code);

#ifdef __cplusplus
}
#endif

#endif
