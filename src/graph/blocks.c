/* Finds repeated blocks by the numbers in scopes. */
#include "graph/blocks.h"

#include <string.h>

size_t sl_graph_block_length(const char *name) {
    for (const char *at = name; *at;) {
        size_t length = strcspn(at, "."), digits = strspn(at, "0123456789");
        if (length && digits == length)
            return (size_t)(at - name) + length;
        at += length + (at[length] == '.');
    }
    return 0;
}

static bool is_called(const char *name, const char *scope, size_t length) {
    return strlen(name) == length && memcmp(name, scope, length) == 0;
}

/* Finds or adds a block. Searches from the newest block, because nodes of a block are adjacent. */
static int find_or_add(struct sl_arena *arena, struct sl_blocks *b, const char *scope,
                       size_t length) {
    for (int i = b->count - 1; i >= 0; i--)
        if (is_called(b->names[i], scope, length))
            return i;
    b->names[b->count] = sl_arena_dup(arena, scope, length);
    return b->count++;
}

/* Returns the length of the part before the last dot: of "h" in "h.3". */
static size_t row_length(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot ? (size_t)(dot - name) : 0;
}

static const char *common_row(struct sl_arena *arena, const struct sl_blocks *b) {
    size_t length = b->count ? row_length(b->names[0]) : 0;
    for (int i = 0; i < b->count; i++)
        if (row_length(b->names[i]) != length || memcmp(b->names[i], b->names[0], length) != 0)
            return NULL;
    return b->count ? sl_arena_dup(arena, b->names[0], length) : NULL;
}

void sl_graph_blocks(struct sl_arena *arena, const struct sl_graph *graph, struct sl_blocks *out) {
    int nodes = graph->forward_count;
    *out = (struct sl_blocks){.first = -1, .last = -1};
    out->of = SL_NEW(arena, int, nodes + 1);
    out->names = SL_NEW(arena, const char *, nodes + 1);
    for (int n = 0; n < nodes; n++) {
        const char *scope = graph->nodes.at[n].scope;
        size_t length = sl_graph_block_length(scope);
        out->of[n] = length ? find_or_add(arena, out, scope, length) : -1;
        if (!length)
            continue;
        out->first = out->first < 0 ? n : out->first;
        out->last = n;
    }
    out->row = common_row(arena, out);
}

void sl_graph_blocks_keep(const struct sl_blocks *b, int nodes, int *keep) {
    for (int n = 0; n < nodes; n++) {
        keep[n] = b->of[n];
        if (keep[n] < 0 && b->row && n < b->first)
            keep[n] = b->count;
        if (keep[n] < 0 && b->row && n > b->last)
            keep[n] = b->count + 1;
    }
}
