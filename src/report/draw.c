/* Writes drawings to files; the ending of the name chooses the format. */
#include "report/picture.h"

#include <stdlib.h>
#include <string.h>

static bool ends(const char *path, const char *ending) {
    size_t length = strlen(path), tail = strlen(ending);
    return length >= tail && strcmp(path + length - tail, ending) == 0;
}

sl_err sl_report_trace_file(struct sl_arena *arena, const char *path, struct sl_picture *out) {
    char *text;
    size_t length;
    SL_TRY(sl_file_read(path, (int64_t)4 << 30, &text, &length));
    sl_err err = sl_report_trace_read(arena, path, text, length, out);
    free(text);
    return err;
}

sl_err sl_report_draw(const char *path, const struct sl_picture *pictures, int count) {
    struct sl_text text = {0};
    bool one = !ends(path, ".html");
    if (one && count > 1)
        return sl_fail(SL_ERR_USAGE, "%s: only .html compares two", path);
    if (!one)
        sl_report_html(pictures, count, &text);
    else if (ends(path, ".svg"))
        sl_report_svg(pictures, 1200, &text);
    else if (ends(path, ".json"))
        sl_report_trace(pictures, &text);
    else if (ends(path, ".txt"))
        sl_report_grid(pictures, &(struct sl_grid_opts){.critical = true}, &text);
    else
        return sl_fail(SL_ERR_USAGE,
                       "%s: the ending says what to write: .html, .svg, .trace.json "
                       "or .txt",
                       path);
    sl_err err = sl_file_write(path, text.at, text.length);
    sl_text_free(&text);
    return err;
}
