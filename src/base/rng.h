/* Counter-based random numbers (Philox 4x32-10): no state, so any layout draws the same numbers.
 *
 * A draw is a pure function of (seed, stream, index). Streams separate uses (a parameter's initial
 * values, a dropout node, the shuffle of an epoch).
 */
#ifndef SL_BASE_RNG_H
#define SL_BASE_RNG_H

#include <stdint.h>

struct sl_rng_block {
    uint32_t word[4];
};

/* Draws 128 random bits. */
struct sl_rng_block sl_rng_draw(uint64_t seed, uint64_t stream, uint64_t index);

/* Draw number `index` of a stream: 32 bits, uniform in [0, 1), or standard normal. */
uint32_t sl_rng_u32(uint64_t seed, uint64_t stream, uint64_t index);
double sl_rng_uniform(uint64_t seed, uint64_t stream, uint64_t index);
double sl_rng_normal(uint64_t seed, uint64_t stream, uint64_t index);
/* Draws a uniform integer in [0, count). */
int64_t sl_rng_below(uint64_t seed, uint64_t stream, uint64_t index, int64_t count);

/* The index-th element of a pseudo-random permutation of [0, count): a Feistel network with cycle
 * walking. A shuffle needs no memory, and any position can be computed alone. */
int64_t sl_rng_permute(uint64_t seed, uint64_t stream, int64_t index, int64_t count);

/* Derives a stream number from a name. */
uint64_t sl_rng_stream(const char *name);

#endif
