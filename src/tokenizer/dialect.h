/* Translates regular expressions of tokenizer.json, which are in the dialect of Oniguruma (Ruby),
 * to PCRE2. */
#ifndef SL_TOKENIZER_DIALECT_H
#define SL_TOKENIZER_DIALECT_H

#include "base/text.h"

/* Appends the translation. `compiles` tries an expression of PCRE2. Refuses an expression that
 * cannot be translated. */
SL_MUST_CHECK sl_err sl_tokenizer_dialect(struct sl_str pattern, bool (*compiles)(const char *),
                                          struct sl_text *out);

#endif
