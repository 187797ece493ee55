/* Incremental XXH3-64: the hash of all added bytes, equal to sl_hash (base/map.h) of the whole. */
#ifndef SL_BASE_HASH_H
#define SL_BASE_HASH_H

#include "base/map.h"

struct sl_hasher;

struct sl_hasher *sl_hasher_open(void);
void sl_hasher_add(struct sl_hasher *hasher, const void *bytes, size_t length);
uint64_t sl_hasher_value(const struct sl_hasher *hasher); /* hash of the bytes added so far */
void sl_hasher_reset(struct sl_hasher *hasher);
void sl_hasher_close(struct sl_hasher *hasher); /* NULL is allowed */

/* A hash as text is sixteen lower-case hexadecimal digits. sl_hash_parse accepts nothing else. */
enum { SL_HASH_TEXT = 17 };
const char *sl_hash_text(uint64_t hash, char out[SL_HASH_TEXT]);
bool sl_hash_parse(struct sl_str text, uint64_t *out);

#endif
