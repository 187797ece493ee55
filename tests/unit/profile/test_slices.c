/* Slices are optimal: compared with dynamic programming over all cuts. */
#include "profile/slices.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { MAX = 12 };

/* The minimum over all cuts into `parts` of the longest slice of units [from, units). */
static int64_t least(const int64_t *ns, int from, int units, int parts) {
    int64_t best = INT64_MAX, sum = 0;
    if (from == units)
        return 0;
    if (!parts)
        return INT64_MAX;
    for (int to = from + 1; to <= units; to++) {
        sum += ns[to - 1];
        int64_t rest = least(ns, to, units, parts - 1);
        int64_t longest = rest > sum ? rest : sum;
        best = longest < best ? longest : best;
    }
    return best;
}

static void even(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 500; seed++) {
        struct sl_arena arena = {0};
        const struct sl_profile_slice *slices;
        int64_t ns[MAX], longest = 0;
        int units = 1 + (int)(sl_rng_u32(seed, 0, 0) % MAX);
        int parts = 1 + (int)(sl_rng_u32(seed, 0, 1) % 5);
        for (int u = 0; u < units; u++)
            ns[u] = sl_rng_u32(seed, 1, (uint64_t)u) % 20;
        int count = sl_profile_slices_cut(&arena, ns, units, parts, &slices);
        assert_in_range(count, 1, parts);
        for (int s = 0, at = 0; s < count; s++) {
            int64_t sum = 0;
            assert_int_equal(slices[s].first, at);
            assert_true(slices[s].last > at);
            for (at = slices[s].first; at < slices[s].last; at++)
                sum += ns[at];
            longest = sum > longest ? sum : longest;
        }
        assert_int_equal(slices[count - 1].last, units);
        assert_int_equal(longest, least(ns, 0, units, parts));
        sl_arena_free(&arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(even)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
