/* The files of a trace (kineto.h), one per rank. */
#include "report/kineto.h"

#include <stdlib.h>
#include <string.h>

sl_err sl_report_kineto_files(struct sl_arena *arena, const char *const *paths, int count,
                              struct sl_picture *out) {
    struct sl_report_kineto_text *texts = SL_NEW(arena, struct sl_report_kineto_text, count + 1);
    sl_err err = SL_OK;
    int done = 0;
    for (; done < count && err == SL_OK; done++) {
        char *text = NULL;
        err = sl_file_read(paths[done], (int64_t)4 << 30, &text, &texts[done].length);
        texts[done].file = paths[done];
        texts[done].text = text;
        if (err == SL_OK && texts[done].length > 1 && memcmp(text, "\x1f\x8b", 2) == 0)
            err = sl_fail(SL_ERR_INPUT, "%s is compressed; unpack it first: gunzip %s", paths[done],
                          paths[done]);
    }
    if (err == SL_OK)
        err = sl_report_kineto_read(arena, texts, count, out);
    for (int i = 0; i < done; i++)
        free((char *)(uintptr_t)texts[i].text);
    return err;
}
