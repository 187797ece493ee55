/* Files of Sailor in one text, for the fuzz target and the unit test: a line "---" separates them. */
#ifndef SL_FUZZ_SAILOR_FILES_H
#define SL_FUZZ_SAILOR_FILES_H

#include "interop/sailor.h"

static inline sl_err sailor_add_all(struct sl_sailor *s, struct sl_arena *arena, const char *text,
                                    size_t length) {
    const char *end = text + length, *at = text, *stop;
    for (; at < end; at = stop + 5) {
        for (stop = at; stop + 5 <= end && memcmp(stop, "\n---\n", 5) != 0;)
            stop++;
        stop = stop + 5 <= end ? stop : end;
        SL_TRY(sl_interop_sailor_add(s, arena, "M.G.json", at, (size_t)(stop - at)));
        if (stop == end)
            break;
    }
    return SL_OK;
}

#endif
