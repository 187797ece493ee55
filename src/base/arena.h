/* Arena: a group of allocations that are freed together.
 *
 * A long-lived arena holds frozen objects. A scratch arena is used with mark and release. Memory is
 * zeroed.
 *
 * Small allocations do not return errors: when malloc fails, sl_out_of_memory ends the process.
 * Large allocations (slabs, data sets, files) go through functions that return sl_err. Readers of
 * untrusted files check sizes before they allocate.
 */
#ifndef SL_BASE_ARENA_H
#define SL_BASE_ARENA_H

#include <stddef.h>
#include <stdint.h>

struct sl_arena_block;

struct sl_arena {
    struct sl_arena_block *block; /* newest block, head of a list */
    int64_t used_bytes;           /* sum over all blocks, for tests and reports */
};

struct sl_arena_mark {
    struct sl_arena_block *block;
    size_t at;
    int64_t used_bytes;
};

/* An arena starts as {0}. Memory is zeroed and aligned to 16 bytes. Never returns NULL. */
void *sl_arena_alloc(struct sl_arena *arena, int64_t size_bytes);
void sl_arena_free(struct sl_arena *arena);

struct sl_arena_mark sl_arena_mark(const struct sl_arena *arena);
void sl_arena_release(struct sl_arena *arena, struct sl_arena_mark mark);

/* Copies or formats a string into the arena. */
char *sl_arena_dup(struct sl_arena *arena, const char *text, size_t length);
char *sl_arena_printf(struct sl_arena *arena, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Allocates `count` zeroed items of a type. */
#define SL_NEW(arena, type, count)                                                                 \
    ((type *)sl_arena_alloc((arena), (int64_t)sizeof(type) * (int64_t)(count)))

/* Like realloc, but never returns NULL. It is for growing vectors. */
void *sl_realloc(void *old, size_t size_bytes);
/* Records the error, calls the handler, then prints the message and aborts. The program's handler
 * exits with status 4; a library must not exit. */
_Noreturn void sl_out_of_memory(size_t size_bytes);
typedef void sl_on_out_of_memory(size_t size_bytes);
void sl_set_out_of_memory(sl_on_out_of_memory *on_out_of_memory); /* called before threads start */

#endif
