/* The importers, in alphabetical order. */
#include "base/vec.h"
#include "interop/importer.h"

extern const struct sl_importer sl_interop_import_dnnpart, sl_interop_import_pipedream,
    sl_interop_import_piper;

const struct sl_importer *const sl_interop_importers[] = {
    &sl_interop_import_dnnpart,
    &sl_interop_import_pipedream,
    &sl_interop_import_piper,
    NULL,
};

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

const struct sl_importer *sl_interop_importer_guess(const char *text, size_t length) {
    size_t at = 0;
    while (at < length && (text[at] == ' ' || text[at] == '\n' || text[at] == '\r'))
        at++;
    if (at < length && text[at] == '{') {
        if (holds(text, length, "\"TMPCs\""))
            return &sl_interop_import_piper;
        return holds(text, length, "\"fpgaLatency\"") ? &sl_interop_import_dnnpart : NULL;
    }
    return holds(text, length, "forward_compute_time=") ? &sl_interop_import_pipedream : NULL;
}
