/* The canonical norm: against a literal transcription of its definition, for any split of blocks.
 */
#include "base/rng.h"
#include "optim/norm.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* norm.h word by word: zero-padded blocks, lanes, halving, then levels in an array. */
static double literal(const float *x, int64_t count) {
    int64_t blocks = (count + 1023) / 1024;
    double *sums = calloc((size_t)blocks + 1, sizeof *sums);
    for (int64_t b = 0; b < blocks; b++) {
        double lane[32] = {0};
        for (int64_t i = 0; i < 1024; i++) {
            int64_t at = b * 1024 + i;
            double value = at < count ? (double)x[at] : 0;
            lane[i % 32] = fma(value, value, lane[i % 32]); /* fused: must not matter */
        }
        for (int h = 16; h; h /= 2)
            for (int l = 0; l < h; l++)
                lane[l] = lane[l] + lane[l + h];
        sums[b] = lane[0];
    }
    for (int64_t n = blocks; n > 1; n = (n + 1) / 2)
        for (int64_t i = 0; 2 * i < n; i++)
            sums[i] = 2 * i + 1 < n ? sums[2 * i] + sums[2 * i + 1] : sums[2 * i];
    double sum = sums[0];
    free(sums);
    return sum;
}

static float *values(int64_t count, uint64_t seed) {
    float *x = calloc((size_t)count + 1, sizeof *x);
    for (int64_t i = 0; i < count; i++)
        x[i] = (float)(sl_rng_normal(seed, 3, (uint64_t)i) *
                       exp2((double)sl_rng_below(seed, 4, (uint64_t)i, 20)));
    return x;
}

static void norm_is_its_definition(void **state) {
    (void)state;
    static const int64_t sizes[] = {0,    1,    31,   32,   33,       1023,  1024,
                                    1025, 2047, 3073, 5121, 7 * 1024, 99991, 262145};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        float *x = values(sizes[k], 5 + k);
        double expect = literal(x, sizes[k]), got = sl_optim_norm_sq(x, sizes[k]);
        if (memcmp(&expect, &got, sizeof got) != 0)
            fail_msg("%lld elements: %.17g, by definition %.17g", (long long)sizes[k], got, expect);
        int64_t blocks = sl_optim_norm_block_count(sizes[k]);
        double *sums = calloc((size_t)blocks + 1, sizeof *sums);
        for (int64_t at = 0; at < blocks;) { /* as uneven threads would split it */
            int64_t share = 1 + (at * 7 + (int64_t)k) % 5;
            share = share < blocks - at ? share : blocks - at;
            sl_optim_norm_sq_blocks(x, sizes[k], at, share, sums + at);
            at += share;
        }
        double split = sl_optim_norm_sq_tree(sums, blocks);
        assert_memory_equal(&split, &got, sizeof got);
        free(sums);
        free(x);
    }
}

static void anything_not_finite_is_seen(void **state) {
    (void)state;
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    for (int64_t place = 0; place < 3001; place += 97)
        for (int b = 0; b < 3; b++) {
            float *x = values(3001, 1);
            x[place] = bad[b];
            assert_false(sl_optim_norm_judge(sl_optim_norm_sq(x, 3001), 1, 1).finite);
            free(x);
        }
    float large[2048];
    for (int i = 0; i < 2048; i++)
        large[i] = 3.4e38f;
    assert_true(sl_optim_norm_judge(sl_optim_norm_sq(large, 2048), 1, 0).finite);
}

static void verdict_scales(void **state) {
    (void)state;
    struct sl_norm_verdict same = sl_optim_norm_judge(4, 1, 0),
                           below = sl_optim_norm_judge(4, 1, 3);
    struct sl_norm_verdict above = sl_optim_norm_judge(4, 0.5, 0.25);
    assert_true(same.scale == 1 && same.norm == 2);
    assert_true(below.scale == 1); /* exactly: clipping must not touch what is small enough */
    assert_true(above.norm == 1 && fabs((double)above.scale - 0.125) < 1e-6);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norm_is_its_definition),
        cmocka_unit_test(anything_not_finite_is_seen),
        cmocka_unit_test(verdict_scales),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
