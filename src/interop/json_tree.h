/* A JSON text as a tree, for formats that differ only in their nesting.
 *
 *     {"a": [1, 2]}  ->  object --child--> "a": array --child--> 1 --next--> 2
 *
 * The tree takes memory in proportion to the text. */
#ifndef SL_INTEROP_JSON_TREE_H
#define SL_INTEROP_JSON_TREE_H

#include "base/json.h"

struct sl_json_tree {
    enum sl_json_event
        kind;         /* SL_JSON_OBJECT, SL_JSON_ARRAY, SL_JSON_STRING, SL_JSON_NUMBER, ... */
    const char *key;  /* key if it is in an object; else NULL */
    const char *text; /* text of a string */
    double number;
    int line;
    int count; /* number of children */
    const struct sl_json_tree *child, *next;
};

SL_MUST_CHECK sl_err sl_interop_json_tree(struct sl_arena *arena, const char *file,
                                          const char *text, size_t length,
                                          const struct sl_json_tree **out);

/* Returns the value under `key`, or NULL; also NULL if `tree` is NULL or not an object. */
const struct sl_json_tree *sl_interop_json_at(const struct sl_json_tree *tree, const char *key);

#endif
