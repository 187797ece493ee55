/* Shared by fuzz targets of text formats: a round trip must give the same text. */
#ifndef SL_FUZZ_ROUND_TRIP_H
#define SL_FUZZ_ROUND_TRIP_H

#include "base/arena.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

/* same_again(arena, object) for struct `tag` with the functions prefix_read and prefix_write. */
#define SL_FUZZ_ROUND_TRIP(tag, prefix)                                                            \
    static void same_again(struct sl_arena *arena, const struct tag *object) {                     \
        struct sl_text once = {0}, twice = {0};                                                    \
        prefix##_write(object, &once);                                                             \
        if (prefix##_read(arena, "again", once.at, once.length, &object) != SL_OK)                 \
            abort();                                                                               \
        prefix##_write(object, &twice);                                                            \
        if (once.length != twice.length || memcmp(once.at, twice.at, once.length) != 0)            \
            abort();                                                                               \
        sl_text_free(&once);                                                                       \
        sl_text_free(&twice);                                                                      \
    }

#endif
