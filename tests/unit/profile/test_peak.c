/* The peak can be measured on every device with an instruction callback, without leaks. Its value
 * depends on the machine; the test only checks that it is plausible. */
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
