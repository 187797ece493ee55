/* Files for tests of data sets: a temporary folder that is removed at the end, writers of formats.
 */
#ifndef SL_TESTS_DATA_FILES_H
#define SL_TESTS_DATA_FILES_H

#include "data/data.h"

/* A fresh folder; removed with its files by sl_test_folder_remove. The path is kept. */
const char *sl_test_folder(void);
void sl_test_folder_remove(void);

/* Write a file in the folder; the path, valid until the folder is removed. */
const char *sl_test_file(const char *name, const void *bytes, size_t size_bytes);
const char *sl_test_text(const char *name, const char *text);
const char *sl_test_gzip(const char *name, const void *bytes, size_t size_bytes);

/* A path below ../shared/data, or NULL where it does not exist. */
const char *sl_test_shared(const char *name);

/* Inputs: int name[length] < below, float name[a,b,c] (0: not there). */
struct sl_data_input sl_test_int(const char *name, int64_t length, int64_t below);
struct sl_data_input sl_test_float(const char *name, int64_t a, int64_t b, int64_t c);

#define SL_TEST_OK(expr)                                                                           \
    do {                                                                                           \
        if ((expr) != SL_OK)                                                                       \
            fail_msg("%s: %s", #expr, sl_err_message());                                           \
    } while (0)

/* Must fail with this code and a message that holds `part`. */
#define SL_TEST_FAILS(expr, code, part)                                                            \
    do {                                                                                           \
        if ((expr) != (code))                                                                      \
            fail_msg("%s did not fail as expected", #expr);                                        \
        if (!strstr(sl_err_message(), (part)))                                                     \
            fail_msg("'%s' is not in: %s", (part), sl_err_message());                              \
    } while (0)

#endif
