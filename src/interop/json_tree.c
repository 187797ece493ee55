/* Reads a JSON text into a tree. */
#include "interop/json_tree.h"

#include <string.h>

struct builder {
    struct sl_json_in json;
    struct sl_arena *arena;
    const char *counted; /* position up to which lines have been counted */
    int line;
};

static int line_here(struct builder *b) {
    for (; b->counted < b->json.at; b->counted++)
        b->line += *b->counted == '\n';
    return b->line;
}

/* Reads the value whose first event has been read. Recursion is at most SL_JSON_DEPTH deep. */
static sl_err read_value(struct builder *b, const char *key, struct sl_json_tree **out) {
    struct sl_json_tree *tree = SL_NEW(b->arena, struct sl_json_tree, 1), *child;
    const struct sl_json_tree **end = &tree->child;
    tree->kind = b->json.event;
    tree->key = key;
    tree->number = b->json.number;
    tree->line = line_here(b);
    *out = tree;
    if (tree->kind == SL_JSON_STRING)
        tree->text = sl_json_unescape(&b->json, b->arena);
    if (tree->kind != SL_JSON_OBJECT && tree->kind != SL_JSON_ARRAY)
        return SL_OK;
    for (;;) {
        const char *name = NULL;
        SL_TRY(sl_json_next(&b->json));
        if (b->json.event == SL_JSON_OBJECT_END || b->json.event == SL_JSON_ARRAY_END)
            return SL_OK;
        if (b->json.event == SL_JSON_KEY) {
            name = sl_json_unescape(&b->json, b->arena);
            SL_TRY(sl_json_next(&b->json));
        }
        SL_TRY(read_value(b, name, &child));
        *end = child;
        end = &child->next;
        tree->count++;
    }
}

sl_err sl_interop_json_tree(struct sl_arena *arena, const char *file, const char *text,
                            size_t length, const struct sl_json_tree **out) {
    struct builder b = {.arena = arena, .counted = text, .line = 1};
    struct sl_json_tree *tree;
    sl_json_read(&b.json, file, text, length);
    SL_TRY(sl_json_next(&b.json));
    SL_TRY(read_value(&b, NULL, &tree));
    SL_TRY(sl_json_next(&b.json)); /* nothing may follow */
    *out = tree;
    return SL_OK;
}

const struct sl_json_tree *sl_interop_json_at(const struct sl_json_tree *tree, const char *key) {
    const struct sl_json_tree *at = tree && tree->kind == SL_JSON_OBJECT ? tree->child : NULL;
    while (at && strcmp(at->key, key) != 0)
        at = at->next;
    return at;
}
