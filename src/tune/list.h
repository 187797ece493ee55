/* Lists of parameters (tune.h says what they look like). Private to tune/. */
#ifndef SL_TUNE_LIST_H
#define SL_TUNE_LIST_H

#include "tune/tune.h"

/* The items of a text, in the arena; ends with NULL. */
const char *const *sl_tune_list_parse(struct sl_arena *arena, const char *text);
/* Is the parameter in the list? */
bool sl_tune_list_has(const char *const *items, const char *param);
/* SL_ERR_INPUT if an item matches no parameter. `what`: the field, for the message. */
SL_MUST_CHECK sl_err sl_tune_list_check(const struct sl_graph *graph, const char *what,
                                        const char *const *items);
const char *sl_tune_list_nearest(const struct sl_graph *graph, const char *item);

#endif
