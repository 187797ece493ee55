/* Lists of what the program has: one kind per registry, and the models of a library. */
#ifndef SL_LIST_LIST_H
#define SL_LIST_LIST_H

#include "base/text.h"
#include "base/vec.h"

struct sl_list_row {
    const char *name, *detail, *brief; /* detail may be NULL */
};

struct sl_list {
    struct sl_arena arena; /* arena for the texts of the rows */
    SL_VEC(struct sl_list_row) rows;
};

struct sl_list_kind {
    const char *name;   /* "ops" */
    const char *brief;  /* "ops that models are made of" */
    const char *detail; /* heading of the middle column, NULL: none */
    /* Appends the rows. `model_dirs`: search path of models by name; ends with NULL, or is NULL. */
    sl_err (*fill)(const char *const *model_dirs, struct sl_list *list);
};

extern const struct sl_list_kind sl_list_kinds[]; /* in alphabetical order; ends with {0} */
/* Finds a kind; SL_ERR_USAGE with the nearest name. */
SL_MUST_CHECK sl_err sl_list_kind_find(const char *name, const struct sl_list_kind **out);

/* Append the list as a table, or as JSON. `detail`: heading of the middle column; NULL: no such
 * column. */
void sl_list_put(const struct sl_list *list, const char *detail, struct sl_text *text);
void sl_list_json(const struct sl_list *list, struct sl_text *text);
void sl_list_free(struct sl_list *list);

#endif
