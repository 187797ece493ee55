/* Importers of the input files of other planners. One row per format. */
#ifndef SL_INTEROP_IMPORTER_H
#define SL_INTEROP_IMPORTER_H

#include "cost/layers.h"

/* Files larger than this are refused before they are read. */
#define SL_IMPORT_LIMIT_BYTES ((int64_t)256 << 20)

struct sl_importer {
    const char *name; /* "piper" */
    const char *brief;
    /* A file without a declared format has this one if it begins with `first` (0: anything but a
     * '{') and contains `mark`. */
    char first;
    const char *mark;
    const char *example; /* a small file of the format; tests/table/test_importers.c reads it */
    /* Errors are SL_ERR_INPUT with file:line:column. Memory stays proportional to the text. */
    sl_err (*read)(struct sl_arena *arena, const char *file, const char *text, size_t length,
                   const struct sl_layers **out);
};

/* In alphabetical order; ends with NULL. */
extern const struct sl_importer *const sl_interop_importers[];
const struct sl_importer *sl_interop_importer_find(const char *name);
/* The format a text looks like, by its first keys or lines; NULL: none of them. */
const struct sl_importer *sl_interop_importer_guess(const char *text, size_t length);

/* Reads a file. `format` NULL: guessed from the text. */
SL_MUST_CHECK sl_err sl_interop_import(struct sl_arena *arena, const char *path, const char *format,
                                       const struct sl_layers **out);

#endif
