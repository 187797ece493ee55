/* Lists of parameters; tune.h has the syntax. Private to tune/. */
#ifndef SL_TUNE_LIST_H
#define SL_TUNE_LIST_H

#include "tune/tune.h"

/* Returns the items of a text, in the arena; the last is NULL. */
const char *const *sl_tune_list_parse(struct sl_arena *arena, const char *text);
/* Is the parameter in the list? */
bool sl_tune_list_has(const char *const *items, const char *param);
/* SL_ERR_INPUT if an item matches no parameter. `what`: name of the field for the message. */
SL_MUST_CHECK sl_err sl_tune_list_check(const struct sl_graph *graph, const char *what,
                                        const char *const *items);
const char *sl_tune_list_nearest(const struct sl_graph *graph, const char *item);

#endif
