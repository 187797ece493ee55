/* Strings of a JSON text without a copy: unescaped and terminated where they stand. */
#ifndef SL_BASE_JSON_PLACE_H
#define SL_BASE_JSON_PLACE_H

#include "base/json.h"

/* The string or key just read, terminated over its closing quote, or NULL when an escape in it is
 * malformed or stands for the character 0. The text given to sl_json_read must be writable and its
 * strings are destroyed for a second reading. */
char *sl_json_in_place(const struct sl_json_in *json);

#endif
