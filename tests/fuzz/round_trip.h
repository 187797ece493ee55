/* For fuzz targets of text formats: what was read is written, read and written again: the same
 * text. */
#ifndef SL_FUZZ_ROUND_TRIP_H
#define SL_FUZZ_ROUND_TRIP_H

#include "base/arena.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

/* same_again(arena, object) for struct sl_KIND with sl_KIND_read and sl_KIND_write. */
#define SL_FUZZ_ROUND_TRIP(kind)                                                                   \
    static void same_again(struct sl_arena *arena, const struct sl_##kind *object) {               \
        struct sl_text once = {0}, twice = {0};                                                    \
        sl_##kind##_write(object, &once);                                                          \
        if (sl_##kind##_read(arena, "again", once.at, once.length, &object) != SL_OK)              \
            abort();                                                                               \
        sl_##kind##_write(object, &twice);                                                         \
        if (once.length != twice.length || memcmp(once.at, twice.at, once.length) != 0)            \
            abort();                                                                               \
        sl_text_free(&once);                                                                       \
        sl_text_free(&twice);                                                                      \
    }

#endif
