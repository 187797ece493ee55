/* What tests of text formats share. */
#ifndef SL_TESTS_TEXTS_H
#define SL_TESTS_TEXTS_H

#include "base/arena.h"
#include "base/err.h"
#include "base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* `from`, the first in a good text, becomes `to`; the error says `message`. */
struct sabotage {
    const char *from, *to, *message;
};

/* Each row spoils one thing; the message names it. */
static inline void sabotage_text(const char *good, const struct sabotage *rows, int count,
                                 sl_err (*read)(struct sl_arena *arena, const char *text)) {
    for (int i = 0; i < count; i++) {
        struct sl_arena arena = {0};
        struct sl_text text = {0};
        const char *at = strstr(good, rows[i].from);
        assert_non_null(at);
        sl_text_put_bytes(&text, good, (size_t)(at - good));
        sl_text_put(&text, rows[i].to);
        sl_text_put(&text, at + strlen(rows[i].from));
        if (read(&arena, text.at) != SL_ERR_INPUT || !strstr(sl_err_message(), rows[i].message))
            fail_msg("row %d: %s", i, sl_err_message());
        sl_text_free(&text);
        sl_arena_free(&arena);
    }
}

static inline int times_in(const char *text, const char *what) {
    int count = 0;
    for (; (text = strstr(text, what)); text++)
        count++;
    return count;
}

#endif
