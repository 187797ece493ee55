/* Reads a file of another planner with the importer of its format. */
#include "interop/importer.h"

#include "base/text.h"

#include <stdlib.h>

static const char *importer_name(const void *ctx, int i) {
    (void)ctx;
    return sl_interop_importers[i]->name;
}

/* Writes "dnn-partitioning, pipedream, piper". */
static void put_names(struct sl_text *text) {
    for (int i = 0; sl_interop_importers[i]; i++)
        sl_text_printf(text, "%s%s", i ? ", " : "", sl_interop_importers[i]->name);
}

static sl_err unknown_format(const char *format) {
    struct sl_text names = {0};
    int count = 0;
    while (sl_interop_importers[count])
        count++;
    const char *near = sl_nearest(format, count, importer_name, NULL);
    put_names(&names);
    sl_err err = near ? sl_fail(SL_ERR_USAGE, "no format '%s'; did you mean '%s'?", format, near)
                      : sl_fail(SL_ERR_USAGE, "no format '%s'; there are %s", format, names.at);
    sl_text_free(&names);
    return err;
}

static sl_err unknown_file(const char *path) {
    struct sl_text names = {0};
    put_names(&names);
    sl_err err = sl_fail(SL_ERR_INPUT,
                         "%s: not a file of a known format (%s); `cost_model` names the format",
                         path, names.at);
    sl_text_free(&names);
    return err;
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
        err = unknown_file(path);
    else
        err = importer->read(arena, path, text, length, out);
    free(text);
    return err;
}
