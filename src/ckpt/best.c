/* Reads and writes the note that names the best checkpoint. */
#include "ckpt/ckpt.h"
#include "ckpt/files.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { NOTE_BYTES = 256 };

bool sl_ckpt_best_read(const char *run, int64_t *step, double *loss) {
    struct sl_text path = {0};
    char *text = NULL, *end;
    size_t length;
    sl_text_printf(&path, "%s/ckpt/best", run);
    bool good = sl_file_exists(path.at) &&
                sl_file_read(path.at, NOTE_BYTES, &text, &length) == SL_OK &&
                strncmp(text, "step-", 5) == 0;
    if (good) {
        *step = strtoll(text + 5, &end, 10);
        *loss = strtod(end, NULL);
        good = *step > 0 && isfinite(*loss);
    }
    free(text);
    sl_text_free(&path);
    return good;
}

sl_err sl_ckpt_best_write(const char *run, int64_t step, double loss) {
    struct sl_text path = {0}, text = {0};
    sl_text_printf(&path, "%s/ckpt", run);
    sl_err err = SL_OK;
    if (mkdir(path.at, 0777) != 0 && errno != EEXIST)
        err =
            sl_fail(SL_ERR_SYSTEM, "%s: cannot create the directory: %s", path.at, strerror(errno));
    sl_text_put(&path, "/best");
    sl_text_printf(&text, "step-%08lld %.17g\n", (long long)step, loss);
    if (err == SL_OK)
        err = sl_file_write(path.at, text.at, text.length);
    sl_text_free(&path);
    sl_text_free(&text);
    return err;
}
