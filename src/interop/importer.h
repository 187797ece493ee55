/* Importers of the input files of other planners. One row per format. */
#ifndef SL_INTEROP_IMPORTER_H
#define SL_INTEROP_IMPORTER_H

#include "cost/layers.h"

/* Larger files are refused before they are read. */
#define SL_IMPORT_LIMIT_BYTES ((int64_t)256 << 20)

struct sl_importer {
    const char *name; /* "piper" */
    const char *brief;
    /* A file whose format is not given has this format if it begins with `first` (0: with anything
     * but a '{') and contains `mark`. */
    char first;
    const char *mark;
    const char *example; /* a small file of the format; tests/table/test_importers.c reads it */
    /* Reads a text. Errors are SL_ERR_INPUT with file:line:column. Memory is proportional to the
     * text. */
    sl_err (*read)(struct sl_arena *arena, const char *file, const char *text, size_t length,
                   const struct sl_layers **out);
};

/* In alphabetical order; ends with NULL. */
extern const struct sl_importer *const sl_interop_importers[];
const struct sl_importer *sl_interop_importer_find(const char *name);
/* Guesses the format of a text by its first keys or lines; NULL: it is none of them. */
const struct sl_importer *sl_interop_importer_guess(const char *text, size_t length);

/* Reads a file. `format` NULL: it is guessed from the text. */
SL_MUST_CHECK sl_err sl_interop_import(struct sl_arena *arena, const char *path, const char *format,
                                       const struct sl_layers **out);

#endif
