/* Counter-based random numbers: Philox 4x32-10 (Salmon et al. 2011, "Parallel random numbers"). */
#include "base/rng.h"

#include "base/map.h"

#include <math.h>
#include <string.h>

static const double pi = 3.14159265358979323846;

static void philox_round(uint32_t c[4], const uint32_t k[2]) {
    uint64_t p0 = (uint64_t)0xD2511F53u * c[0], p1 = (uint64_t)0xCD9E8D57u * c[2];
    uint32_t c1 = c[1], c3 = c[3];
    c[0] = (uint32_t)(p1 >> 32) ^ c1 ^ k[0];
    c[1] = (uint32_t)p1;
    c[2] = (uint32_t)(p0 >> 32) ^ c3 ^ k[1];
    c[3] = (uint32_t)p0;
}

struct sl_rng_block sl_rng_draw(uint64_t seed, uint64_t stream, uint64_t index) {
    uint32_t k[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    struct sl_rng_block block = {
        {(uint32_t)index, (uint32_t)(index >> 32), (uint32_t)stream, (uint32_t)(stream >> 32)}};
    for (int round = 0; round < 10; round++) {
        philox_round(block.word, k);
        k[0] += 0x9E3779B9u;
        k[1] += 0xBB67AE85u;
    }
    return block;
}

uint32_t sl_rng_u32(uint64_t seed, uint64_t stream, uint64_t index) {
    return sl_rng_draw(seed, stream, index >> 2).word[index & 3];
}

double sl_rng_uniform(uint64_t seed, uint64_t stream, uint64_t index) {
    struct sl_rng_block block = sl_rng_draw(seed, stream, index >> 1);
    const uint32_t *w = block.word + 2 * (index & 1);
    return (double)((((uint64_t)w[0] << 32) | w[1]) >> 11) * 0x1p-53;
}

double sl_rng_normal(uint64_t seed, uint64_t stream, uint64_t index) {
    struct sl_rng_block block = sl_rng_draw(seed, stream, index >> 1);
    uint64_t a = ((uint64_t)block.word[0] << 32) | block.word[1];
    uint64_t b = ((uint64_t)block.word[2] << 32) | block.word[3];
    double radius = sqrt(-2.0 * log(((double)(a >> 11) + 0.5) * 0x1p-53));
    double angle = 2.0 * pi * (double)(b >> 11) * 0x1p-53;
    return radius * ((index & 1) ? sin(angle) : cos(angle));
}

int64_t sl_rng_below(uint64_t seed, uint64_t stream, uint64_t index, int64_t count) {
    return (int64_t)(sl_rng_uniform(seed, stream, index) * (double)count);
}

int64_t sl_rng_permute(uint64_t seed, uint64_t stream, int64_t index, int64_t count) {
    int bits = 1; /* bits of one half of the Feistel word */
    while (bits < 31 && ((int64_t)1 << (2 * bits)) < count)
        bits++;
    uint64_t mask = ((uint64_t)1 << bits) - 1;
    uint64_t x = (uint64_t)index;
    do {
        uint64_t left = x >> bits, right = x & mask;
        for (uint64_t round = 0; round < 6; round++) {
            uint64_t mixed = sl_rng_draw(seed, stream ^ (round << 56), right).word[0] & mask;
            uint64_t next = left ^ mixed;
            left = right;
            right = next;
        }
        x = (left << bits) | right;
    } while (x >= (uint64_t)count);
    return (int64_t)x;
}

uint64_t sl_rng_stream(const char *name) { return sl_hash(name, strlen(name)); }
