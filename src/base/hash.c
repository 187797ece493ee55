/* Incremental XXH3-64 and its text form. */
#include "base/hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>

struct sl_hasher {
    XXH3_state_t *state; /* allocated by the library, which aligns it */
};

struct sl_hasher *sl_hasher_open(void) {
    struct sl_hasher *hasher = sl_realloc(NULL, sizeof *hasher);
    hasher->state = XXH3_createState();
    if (!hasher->state)
        sl_out_of_memory(576) /* about the size of the state */;
    sl_hasher_reset(hasher);
    return hasher;
}

void sl_hasher_reset(struct sl_hasher *hasher) {
    SL_ASSERT(XXH3_64bits_reset(hasher->state) == XXH_OK);
}

void sl_hasher_add(struct sl_hasher *hasher, const void *bytes, size_t length) {
    if (length)
        SL_ASSERT(XXH3_64bits_update(hasher->state, bytes, length) == XXH_OK);
}

uint64_t sl_hasher_value(const struct sl_hasher *hasher) {
    return XXH3_64bits_digest(hasher->state);
}

void sl_hasher_close(struct sl_hasher *hasher) {
    if (!hasher)
        return;
    XXH3_freeState(hasher->state);
    free(hasher);
}

const char *sl_hash_text(uint64_t hash, char out[SL_HASH_TEXT]) {
    snprintf(out, SL_HASH_TEXT, "%016" PRIx64, hash);
    return out;
}

bool sl_hash_parse(struct sl_str text, uint64_t *out) {
    uint64_t value = 0;
    if (text.length != SL_HASH_TEXT - 1)
        return false;
    for (size_t i = 0; i < text.length; i++) {
        char c = text.at[i];
        bool digit = c >= '0' && c <= '9', letter = c >= 'a' && c <= 'f';
        if (!digit && !letter)
            return false;
        value = value << 4 | (uint64_t)(digit ? c - '0' : c - 'a' + 10);
    }
    *out = value;
    return true;
}
