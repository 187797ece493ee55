/* bf16 and fp16: every 16-bit value survives a round trip; other floats round to nearest even. */
#include "base/half.h"

#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* The value of an fp16 by the definition of IEEE 754. */
static double fp16_value(uint16_t half) {
    int sign = half >> 15, exponent = half >> 10 & 31, fraction = half & 1023;
    double size = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    if (exponent == 31)
        size = fraction ? (double)NAN : (double)INFINITY;
    return sign ? -size : size;
}

static void every_fp16(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 65536; i++) {
        float x = sl_from_fp16((uint16_t)i);
        if (isnan(fp16_value((uint16_t)i))) {
            assert_true(isnan(x) && isnan(sl_from_fp16(sl_fp16_of(x))));
            continue;
        }
        assert_true((double)x == fp16_value((uint16_t)i));
        assert_int_equal(sl_fp16_of(x), i);
    }
}

static void every_bf16(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 65536; i++) {
        float x = sl_from_bf16((uint16_t)i);
        if (isnan(x))
            assert_true(isnan(sl_from_bf16(sl_bf16_of(x))));
        else
            assert_int_equal(sl_bf16_of(x), i);
    }
}

/* Check that no neighbour is nearer, and that a tie went to the even one. */
static void check_nearest(float x, uint16_t got, float (*value)(uint16_t)) {
    double off = fabs((double)value(got) - (double)x);
    for (int step = -1; step <= 1; step += 2) {
        uint16_t other = (uint16_t)(got + step);
        double theirs = fabs((double)value(other) - (double)x);
        if ((got ^ other) & 0x8000 || isnan(theirs))
            continue;
        assert_true(off < theirs || (off == theirs && !(got & 1)));
    }
}

static void nearest(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 400000; i++) {
        uint32_t draw = sl_rng_u32(7, 1, i);
        float size = ldexpf(1 + (float)(draw & 0xFFFF) / 65536, (int)(draw >> 16) % 42 - 27);
        float x = draw >> 31 ? -size : size;
        if (size < 65504)
            check_nearest(x, sl_fp16_of(x), sl_from_fp16);
        check_nearest(x, sl_bf16_of(x), sl_from_bf16);
    }
    for (uint16_t i = 1; i < 0x7BFF; i++) { /* ties */
        float x = (sl_from_fp16(i) + sl_from_fp16((uint16_t)(i + 1))) / 2;
        check_nearest(x, sl_fp16_of(x), sl_from_fp16);
    }
    assert_int_equal(sl_fp16_of(65519.0F), 0x7BFF);
    assert_int_equal(sl_fp16_of(65520.0F), 0x7C00);
    assert_int_equal(sl_fp16_of(-1e30F), 0xFC00);
    assert_int_equal(sl_fp16_of(INFINITY), 0x7C00);
    assert_int_equal(sl_fp16_of(1e-30F), 0);
    assert_int_equal(sl_fp16_of(-1e-30F), 0x8000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_fp16),
        cmocka_unit_test(every_bf16),
        cmocka_unit_test(nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
