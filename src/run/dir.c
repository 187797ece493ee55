/* Files of a run directory. */
#include "run/dir.h"

#include "base/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

sl_err sl_run_dir_make(const char *path) {
    struct sl_text part = {0};
    sl_err err = SL_OK;
    for (const char *at = path; err == SL_OK; at++) {
        if ((*at == '/' || !*at) && part.length && mkdir(part.at, 0777) != 0 && errno != EEXIST)
            err = sl_fail(SL_ERR_SYSTEM, "%s: cannot create the directory: %s", part.at,
                          strerror(errno));
        if (!*at)
            break;
        sl_text_put_bytes(&part, at, 1);
    }
    sl_text_free(&part);
    return err;
}

sl_err sl_run_dir_write(const char *run, const char *name, const char *text) {
    struct sl_text path = {0};
    sl_text_printf(&path, "%s/%s", run, name);
    sl_err err = sl_file_write(path.at, text, strlen(text));
    sl_text_free(&path);
    return err;
}

sl_err sl_run_dir_put(const char *run, const char *name, const char *text) {
    if (text)
        return sl_run_dir_write(run, name, text);
    sl_run_dir_remove(run, name);
    return SL_OK;
}

void sl_run_dir_remove(const char *run, const char *name) {
    struct sl_text path = {0};
    sl_text_printf(&path, "%s/%s", run, name);
    remove(path.at);
    sl_text_free(&path);
}

sl_err sl_run_dir_check(const char *run, const char *name, const char *expected) {
    struct sl_text path = {0};
    char *text = NULL;
    size_t length;
    if (!expected)
        return SL_OK;
    sl_text_printf(&path, "%s/%s", run, name);
    sl_err err = sl_file_read(path.at, INT64_MAX / 2, &text, &length);
    if (err == SL_OK && strcmp(text, expected) != 0)
        err = sl_fail(SL_ERR_REFUSED,
                      "%s changed while it was opened: another run used it; try again", path.at);
    free(text);
    sl_text_free(&path);
    return err;
}

sl_err sl_run_dir_refuse(const char *run, bool resume, int64_t from_step, bool exists) {
    if (exists && !resume)
        return sl_fail(SL_ERR_REFUSED,
                       "%s holds a run already; continue it with `resume`, or choose another `out`",
                       run);
    if (!exists && from_step > 0)
        return sl_fail(SL_ERR_INPUT, "%s has no checkpoint, and none of step %lld", run,
                       (long long)from_step);
    return SL_OK;
}
