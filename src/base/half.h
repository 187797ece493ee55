/* Conversions between float and the 16-bit formats bf16 (upper half of an fp32) and fp16 (IEEE
 * binary16). Rounding is to nearest, ties to even. */
#ifndef SL_BASE_HALF_H
#define SL_BASE_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint16_t sl_bf16_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if ((bits & 0x7FFFFFFF) > 0x7F800000)
        return 0x7FC0;
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

static inline float sl_from_bf16(uint16_t half) {
    uint32_t bits = (uint32_t)half << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint16_t sl_fp16_of(float x) {
    uint32_t bits, sign;
    memcpy(&bits, &x, sizeof bits);
    sign = bits >> 16 & 0x8000;
    bits &= 0x7FFFFFFF;
    if (bits > 0x7F800000)
        return 0x7E00;
    if (bits >= 0x477FF000) /* values of 65520 and above round to infinity */
        return (uint16_t)(sign | 0x7C00);
    if (bits < 0x38800000) { /* below 2^-14 (subnormal): adding 0.5 rounds to a multiple of 2^-24 */
        float shifted;
        memcpy(&shifted, &bits, sizeof shifted);
        shifted += 0.5F;
        memcpy(&bits, &shifted, sizeof bits);
        return (uint16_t)(sign | (bits - 0x3F000000));
    }
    return (uint16_t)(sign | (bits - 0x38000000 + 0xFFF + (bits >> 13 & 1)) >> 13);
}

static inline float sl_from_fp16(uint16_t half) {
    uint32_t size = half & 0x7FFF, bits = size << 13;
    float x;
    bits += size >= 0x7C00 ? 0x70000000 : 0x38000000;
    memcpy(&x, &bits, sizeof x);
    if (size < 0x0400) /* subnormal: a multiple of 2^-24 */
        x = (float)size * 0x1p-24F;
    return half & 0x8000 ? -x : x;
}

#endif
