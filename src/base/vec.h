/* Growing arrays: `struct { T *at; int64_t count, room; }` declared with SL_VEC(T). */
#ifndef SL_BASE_VEC_H
#define SL_BASE_VEC_H

#include "base/arena.h"

#include <stdlib.h>
#include <string.h>

#define SL_VEC(type)                                                                               \
    struct {                                                                                       \
        type *at;                                                                                  \
        int64_t count, room;                                                                       \
    }

/* Reserves room for `extra` more items. */
#define SL_VEC_RESERVE(vec, extra)                                                                 \
    do {                                                                                           \
        int64_t need_ = (vec)->count + (int64_t)(extra);                                           \
        if (need_ > (vec)->room) {                                                                 \
            int64_t room_ = (vec)->room * 2 > 16 ? (vec)->room * 2 : 16;                           \
            (vec)->room = room_ > need_ ? room_ : need_;                                           \
            (vec)->at = sl_realloc((vec)->at, sizeof *(vec)->at * (size_t)(vec)->room);            \
        }                                                                                          \
    } while (0)

#define SL_PUSH(vec, item)                                                                         \
    do {                                                                                           \
        SL_VEC_RESERVE(vec, 1);                                                                    \
        (vec)->at[(vec)->count++] = (item);                                                        \
    } while (0)

#define SL_VEC_FREE(vec)                                                                           \
    do {                                                                                           \
        free((vec)->at);                                                                           \
        (vec)->at = NULL;                                                                          \
        (vec)->count = (vec)->room = 0;                                                            \
    } while (0)

/* Copies the items into an arena, for frozen objects. The result is NULL if there are none. */
#define SL_VEC_FREEZE(vec, arena) sl_vec_freeze(arena, (vec)->at, (vec)->count, sizeof *(vec)->at)

static inline void *sl_vec_freeze(struct sl_arena *arena, const void *at, int64_t count,
                                  size_t item_bytes) {
    if (!count)
        return NULL;
    void *copy = sl_arena_alloc(arena, count * (int64_t)item_bytes);
    return memcpy(copy, at, (size_t)count * item_bytes);
}

#endif
