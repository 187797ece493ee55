/* The check for repeated keys that every JSON text passes before it is read. */
#ifndef SL_BASE_JSON_KEYS_H
#define SL_BASE_JSON_KEYS_H

#include "base/json.h"

/* `json` must be at the start of the text. The function reads its own copy of `json` to the end. It
 * takes almost linear time and stores the keys of the open objects. */
SL_MUST_CHECK sl_err sl_json_check_keys(struct sl_json_in json);

#endif
