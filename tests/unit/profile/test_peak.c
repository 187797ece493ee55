/* The peak is measured on any device that lets its instructions be looked at, and nothing is left
 * open. How large it is depends on the machine; that it is of this world is all a test can say. */
#include "profile/peak.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void a_peak_is_found(void **state) {
    double flops = 0;
    (void)state;
    assert_int_equal(sl_profile_peak(sl_device_find("cpu"), 1000000, &flops), SL_OK);
    assert_true(isfinite(flops));
    assert_true(flops > 1e6 && flops < 1e14);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_peak_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
