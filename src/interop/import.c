/* Reading a file of another planner by the importer of its format. */
#include "interop/importer.h"

#include <stdlib.h>

static const char *importer_name(const void *ctx, int i) {
    (void)ctx;
    return sl_interop_importers[i]->name;
}

static sl_err unknown_format(const char *format) {
    int count = 0;
    while (sl_interop_importers[count])
        count++;
    const char *near = sl_nearest(format, count, importer_name, NULL);
    return sl_fail(SL_ERR_USAGE, "no format '%s'; %s%s%s", format,
                   near ? "did you mean '" : "there are dnn-partitioning, pipedream and piper",
                   near ? near : "", near ? "'?" : "");
}

sl_err sl_interop_import(struct sl_arena *arena, const char *path, const char *format,
                         const struct sl_layers **out) {
    const struct sl_importer *importer = format ? sl_interop_importer_find(format) : NULL;
    char *text = NULL;
    size_t length;
    sl_err err = SL_OK;
    if (format && !importer)
        return unknown_format(format);
    SL_TRY(sl_file_read(path, SL_IMPORT_LIMIT_BYTES, &text, &length));
    if (!importer)
        importer = sl_interop_importer_guess(text, length);
    if (!importer)
        err = sl_fail(SL_ERR_INPUT,
                      "%s: not a file of Piper, dnn-partitioning or PipeDream; `cost_model` "
                      "names the format",
                      path);
    else
        err = importer->read(arena, path, text, length, out);
    free(text);
    return err;
}
