/* Arena: a list of blocks. Each new block has twice the size of the one before, up to a limit. */
#include "base/arena.h"

#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_BLOCK = 4096, LAST_BLOCK = 4 << 20, ALIGN = 16 };

struct sl_arena_block {
    struct sl_arena_block *before;
    size_t size, at; /* `size` bytes follow this header; `at` of them are in use */
};

static sl_on_out_of_memory *handler; /* set by sl_set_out_of_memory before threads start */

void sl_set_out_of_memory(sl_on_out_of_memory *on_out_of_memory) { handler = on_out_of_memory; }

_Noreturn void sl_out_of_memory(size_t size_bytes) {
    (void)sl_fail(SL_ERR_SYSTEM, "out of memory: could not allocate %zu bytes", size_bytes);
    if (handler)
        handler(size_bytes);
    fprintf(stderr, "sluice: %s\n", sl_err_message());
    abort();
}

void *sl_realloc(void *old, size_t size_bytes) {
    void *fresh = realloc(old, size_bytes ? size_bytes : 1);
    if (!fresh)
        sl_out_of_memory(size_bytes);
    return fresh;
}

static void add_block(struct sl_arena *arena, size_t need) {
    size_t size = arena->block ? arena->block->size * 2 : FIRST_BLOCK;
    if (size > LAST_BLOCK)
        size = LAST_BLOCK;
    if (size < need)
        size = need;
    struct sl_arena_block *block = sl_realloc(NULL, sizeof *block + ALIGN + size);
    block->before = arena->block;
    block->size = size;
    block->at = 0;
    arena->block = block;
}

static char *block_data(struct sl_arena_block *block) {
    uintptr_t start = (uintptr_t)(block + 1);
    return (char *)((start + ALIGN - 1) & ~(uintptr_t)(ALIGN - 1));
}

void *sl_arena_alloc(struct sl_arena *arena, int64_t size_bytes) {
    SL_ASSERT(size_bytes >= 0);
    size_t size = ((size_t)size_bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    if (!arena->block || arena->block->size - arena->block->at < size)
        add_block(arena, size);
    char *memory = block_data(arena->block) + arena->block->at;
    arena->block->at += size;
    arena->used_bytes += (int64_t)size;
    return memset(memory, 0, size);
}

struct sl_arena_mark sl_arena_mark(const struct sl_arena *arena) {
    return (struct sl_arena_mark){
        .block = arena->block,
        .at = arena->block ? arena->block->at : 0,
        .used_bytes = arena->used_bytes,
    };
}

void sl_arena_release(struct sl_arena *arena, struct sl_arena_mark mark) {
    while (arena->block != mark.block) {
        struct sl_arena_block *before = arena->block->before;
        free(arena->block);
        arena->block = before;
    }
    if (arena->block)
        arena->block->at = mark.at;
    arena->used_bytes = mark.used_bytes;
}

void sl_arena_free(struct sl_arena *arena) { sl_arena_release(arena, (struct sl_arena_mark){0}); }

char *sl_arena_dup(struct sl_arena *arena, const char *text, size_t length) {
    char *copy = sl_arena_alloc(arena, (int64_t)length + 1);
    if (length)
        memcpy(copy, text, length);
    return copy;
}

char *sl_arena_printf(struct sl_arena *arena, const char *fmt, ...) {
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    SL_ASSERT(length >= 0);
    char *text = sl_arena_alloc(arena, (int64_t)length + 1);
    vsnprintf(text, (size_t)length + 1, fmt, again);
    va_end(again);
    return text;
}
