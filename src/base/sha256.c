/* SHA-256 and HMAC as FIPS 180-4 (section 6.2) and RFC 2104 describe them. */
#include "base/sha256.h"

#include <string.h>

static const uint32_t k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate(uint32_t x, int n) { return x >> n | x << (32 - n); }

static uint32_t read_word(const unsigned char *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void write_word(unsigned char *at, uint32_t x) {
    for (int i = 0; i < 4; i++)
        at[i] = (unsigned char)(x >> (24 - 8 * i));
}

static void add_block(uint32_t state[8], const unsigned char *block) {
    uint32_t w[64], s[8];
    for (int t = 0; t < 16; t++)
        w[t] = read_word(block + 4 * t);
    for (int t = 16; t < 64; t++) {
        uint32_t a = w[t - 15], b = w[t - 2];
        w[t] = w[t - 16] + w[t - 7] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) +
               (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
    }
    memcpy(s, state, sizeof s);
    for (int t = 0; t < 64; t++) {
        uint32_t sum1 = rotate(s[4], 6) ^ rotate(s[4], 11) ^ rotate(s[4], 25);
        uint32_t sum0 = rotate(s[0], 2) ^ rotate(s[0], 13) ^ rotate(s[0], 22);
        uint32_t choose = (s[4] & s[5]) ^ (~s[4] & s[6]);
        uint32_t majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
        uint32_t t1 = s[7] + sum1 + choose + k[t] + w[t], t2 = sum0 + majority;
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += t1;
        s[0] = t1 + t2;
    }
    for (int i = 0; i < 8; i++)
        state[i] += s[i];
}

void sl_sha256_open(struct sl_sha256 *hash) {
    *hash = (struct sl_sha256){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
                                         0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void sl_sha256_add(struct sl_sha256 *hash, const void *bytes, size_t length) {
    const unsigned char *at = bytes;
    while (length > 0) {
        size_t have = hash->length % SL_SHA256_BLOCK, take = SL_SHA256_BLOCK - have;
        take = take < length ? take : length;
        memcpy(hash->block + have, at, take);
        hash->length += take;
        at += take;
        length -= take;
        if (have + take == SL_SHA256_BLOCK)
            add_block(hash->state, hash->block);
    }
}

/* Pads to a whole block: a one bit, zeros, and the length of the text in bits. */
void sl_sha256_value(struct sl_sha256 *hash, unsigned char out[SL_SHA256_BYTES]) {
    unsigned char end[8];
    uint64_t bits = hash->length * 8;
    sl_sha256_add(hash, "\x80", 1);
    while (hash->length % SL_SHA256_BLOCK != SL_SHA256_BLOCK - sizeof end)
        sl_sha256_add(hash, "", 1);
    write_word(end, (uint32_t)(bits >> 32));
    write_word(end + 4, (uint32_t)bits);
    sl_sha256_add(hash, end, sizeof end);
    for (int i = 0; i < 8; i++)
        write_word(out + 4 * i, hash->state[i]);
}

/* Starts a message authentication code. A key that is longer than a block is replaced by its
 * hash. */
void sl_hmac_open(struct sl_hmac *hmac, const void *key, size_t length) {
    unsigned char short_key[SL_SHA256_BLOCK] = {0}, inner_key[SL_SHA256_BLOCK];
    if (length > SL_SHA256_BLOCK) {
        sl_sha256_open(&hmac->inner);
        sl_sha256_add(&hmac->inner, key, length);
        sl_sha256_value(&hmac->inner, short_key);
    } else if (length) {
        memcpy(short_key, key, length);
    }
    for (int i = 0; i < SL_SHA256_BLOCK; i++) {
        inner_key[i] = (unsigned char)(short_key[i] ^ 0x36);
        hmac->outer_key[i] = (unsigned char)(short_key[i] ^ 0x5c);
    }
    sl_sha256_open(&hmac->inner);
    sl_sha256_add(&hmac->inner, inner_key, sizeof inner_key);
}

void sl_hmac_add(struct sl_hmac *hmac, const void *bytes, size_t length) {
    sl_sha256_add(&hmac->inner, bytes, length);
}

void sl_hmac_value(struct sl_hmac *hmac, unsigned char out[SL_SHA256_BYTES]) {
    struct sl_sha256 outer;
    sl_sha256_value(&hmac->inner, out);
    sl_sha256_open(&outer);
    sl_sha256_add(&outer, hmac->outer_key, sizeof hmac->outer_key);
    sl_sha256_add(&outer, out, SL_SHA256_BYTES);
    sl_sha256_value(&outer, out);
}

bool sl_bytes_equal(const void *a, const void *b, size_t length) {
    const unsigned char *x = a, *y = b;
    unsigned char differ = 0;
    for (size_t i = 0; i < length; i++)
        differ |= (unsigned char)(x[i] ^ y[i]);
    return differ == 0;
}
