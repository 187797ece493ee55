/* Error codes of libsluice, which are also the exit statuses of the program, and their messages. */
#ifndef SLUICE_ERR_H
#define SLUICE_ERR_H

#ifdef __cplusplus
extern "C" {
#endif

enum sl_err_code {
    SL_OK = 0,
    SL_ERR_REFUSED = 1, /* a check failed: does not verify, does not fit, refused combination */
    SL_ERR_USAGE = 2,   /* the command line is wrong */
    SL_ERR_INPUT = 3,   /* a file or a model is wrong */
    SL_ERR_SYSTEM = 4,  /* memory, disk, device */
    SL_ERR_PEER = 5,    /* another worker failed */
};

/* The name of SL_ERR_REFUSED before version 0.2; removed in 0.3. */
#define SL_ERR_NO SL_ERR_REFUSED

typedef enum sl_err_code sl_err;

/* The message of the last error of this thread ("" when there is none); valid until the next call.
 */
const char *sl_err_message(void);

/* "input error" and the like, for people. */
const char *sl_err_name(sl_err code);

#ifdef __cplusplus
}
#endif

#endif
