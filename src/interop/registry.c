/* The importers, in alphabetical order. */
#include "base/vec.h"
#include "interop/importer.h"

/* One line per importer, in alphabetical order. */
/* clang-format off */
#define ROWS(ROW) \
    ROW(sl_interop_import_dnnpart) \
    ROW(sl_interop_import_pipedream) \
    ROW(sl_interop_import_piper)
/* clang-format on */

#define DECLARE(row) extern const struct sl_importer row;
ROWS(DECLARE)
#define POINT(row) &(row),
const struct sl_importer *const sl_interop_importers[] = {ROWS(POINT) NULL};

const struct sl_importer *sl_interop_importer_find(const char *name) {
    for (int i = 0; sl_interop_importers[i]; i++)
        if (strcmp(sl_interop_importers[i]->name, name) == 0)
            return sl_interop_importers[i];
    return NULL;
}

static bool holds(const char *text, size_t length, const char *word) {
    size_t size = strlen(word);
    for (size_t i = 0; i + size <= length; i++)
        if (text[i] == word[0] && memcmp(text + i, word, size) == 0)
            return true;
    return false;
}

static bool fits(const struct sl_importer *row, char first, const char *text, size_t length) {
    return (row->first ? first == row->first : first != '{') && holds(text, length, row->mark);
}

const struct sl_importer *sl_interop_importer_guess(const char *text, size_t length) {
    size_t at = 0;
    while (at < length && (text[at] == ' ' || text[at] == '\n' || text[at] == '\r'))
        at++;
    for (int i = 0; at < length && sl_interop_importers[i]; i++)
        if (fits(sl_interop_importers[i], text[at], text, length))
            return sl_interop_importers[i];
    return NULL;
}
