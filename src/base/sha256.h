/* SHA-256 (FIPS 180-4) and HMAC-SHA-256 (RFC 2104): keyed hashes that prove who knows a secret.
 *
 * For authentication only. Checksums of files use XXH3 (base/hash.h), which is faster and not secure.
 */
#ifndef SL_BASE_SHA256_H
#define SL_BASE_SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SL_SHA256_BYTES = 32, SL_SHA256_BLOCK = 64 };

struct sl_sha256 {
    uint32_t state[8];
    uint64_t length; /* number of bytes added */
    unsigned char block[SL_SHA256_BLOCK];
};

void sl_sha256_open(struct sl_sha256 *hash);
void sl_sha256_add(struct sl_sha256 *hash, const void *bytes, size_t length);
void sl_sha256_value(struct sl_sha256 *hash, unsigned char out[SL_SHA256_BYTES]); /* ends it */

/* A message authentication code over parts that are added in turn. */
struct sl_hmac {
    struct sl_sha256 inner;
    unsigned char outer_key[SL_SHA256_BLOCK];
};

void sl_hmac_open(struct sl_hmac *hmac, const void *key, size_t length);
void sl_hmac_add(struct sl_hmac *hmac, const void *bytes, size_t length);
void sl_hmac_value(struct sl_hmac *hmac, unsigned char out[SL_SHA256_BYTES]); /* ends it */

/* Compares bytes in a time that does not depend on them. */
bool sl_bytes_equal(const void *a, const void *b, size_t length);

#endif
