/* Unescape and terminate a JSON string inside the text it was read from, without a copy. */
#ifndef SL_BASE_JSON_PLACE_H
#define SL_BASE_JSON_PLACE_H

#include "base/json.h"

/* Return the string or key just read; the terminator overwrites its closing quote. NULL if an
 * escape is malformed or encodes the character 0. The text given to sl_json_read must be writable
 * and cannot be read a second time. */
char *sl_json_in_place(const struct sl_json_in *json);

#endif
